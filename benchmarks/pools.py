"""Real candidate pools for the measurements, read from the folder named by MANYARMS_DATA.

Nothing is downloaded or shipped. Abalone is `abalone.csv.gz` (UCI; a header line, Sex first, Rings last);
California housing is scikit-learn's cache file (`fetch_california_housing(data_home=…)`).
"""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import numpy as np


class MissingDataError(LookupError):
    """The folder or file with a real pool is not there."""


def _folder() -> Path:
    home = os.environ.get("MANYARMS_DATA")
    if not home:
        raise MissingDataError(
            "set MANYARMS_DATA to the folder with abalone.csv.gz and scikit-learn's housing file"
        )
    return Path(home)


def _scaled(features: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features standardised, rewards in [0, 1]."""
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    return features, (target - target.min()) / (target.max() - target.min())


def abalone() -> tuple[np.ndarray, np.ndarray]:
    """4177 × 8, the number of rings."""
    path = _folder() / "abalone.csv.gz"
    if not path.exists():
        raise MissingDataError(f"{path.name} is not in MANYARMS_DATA")
    with gzip.open(path, "rt", newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    sex = {"M": 0.0, "F": 1.0, "I": 2.0}
    table = np.array([[sex[row[0]], *map(float, row[1:9])] for row in rows])
    return _scaled(table[:, :8], table[:, 8])


def housing() -> tuple[np.ndarray, np.ndarray]:
    """20640 × 8, the median house value ("Cadata")."""
    from sklearn.datasets import fetch_california_housing

    try:
        data = fetch_california_housing(data_home=_folder(), download_if_missing=False)
    except OSError:
        raise MissingDataError("scikit-learn's California housing file is not in MANYARMS_DATA") from None
    return _scaled(data.data, data.target)


def generated(n_arms: int) -> tuple[np.ndarray, np.ndarray]:
    """n × 8 uniform features, standardised, and a smooth target in [0, 1], for sizes no real pool has."""
    rng = np.random.default_rng(0)
    features = (np.sqrt(12) * (rng.random((n_arms, 8)) - 0.5)).astype(np.float32)
    target = np.sin(features[:, 0]) + np.tanh(features[:, 1] * features[:, 2]) - 0.1 * features[:, 3] ** 2
    return features, (target - target.min()) / (target.max() - target.min())
