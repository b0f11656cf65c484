"""Pools for benchmarks: those of the papers, from the folder named by MANYARMS_DATA, and generated ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from manyarms.errors import MissingDataError
from manyarms.reproduce.pools import load


def folder() -> Path:
    """The folder with the real pools."""
    home = os.environ.get("MANYARMS_DATA")
    if not home:
        raise MissingDataError("set MANYARMS_DATA to the folder with the real pools")
    return Path(home)


def abalone() -> tuple[np.ndarray, np.ndarray]:
    """4177 × 8, the number of rings; features standardised, rewards in [0, 1]."""
    return _loaded("abalone")


def housing() -> tuple[np.ndarray, np.ndarray]:
    """20640 × 8, the median house value ("Cadata"); features standardised, rewards in [0, 1]."""
    return _loaded("housing")


def _loaded(name: str) -> tuple[np.ndarray, np.ndarray]:
    pool = load(name, folder()).scaled("standardised", "unit")
    return pool.features, pool.truth


def generated(n_arms: int) -> tuple[np.ndarray, np.ndarray]:
    """n × 8 uniform features, standardised, and a smooth target in [0, 1], for any size."""
    rng = np.random.default_rng(0)
    features = (np.sqrt(12) * (rng.random((n_arms, 8)) - 0.5)).astype(np.float32)
    target = np.sin(features[:, 0]) + np.tanh(features[:, 1] * features[:, 2]) - 0.1 * features[:, 3] ** 2
    return features, (target - target.min()) / (target.max() - target.min())
