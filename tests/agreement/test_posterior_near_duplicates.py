"""Where K_S is singular to machine precision the posterior is still the exact one.

The variance is within 1e-6 of the prior variance. The mean answers to a change of K by a share ε of k with
a change of up to ε·k/λ times the rewards, so that is its scale here: within 3e-7·(1 + k/λ)·max|reward|.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import manyarms as ma
from tests.oracle import Dense, Ledger, exact

TOLERANCE = 1e-6
SPACINGS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
RIDGES = [0.01, *(pytest.param(ridge, marks=pytest.mark.slow) for ridge in (0.2, 1.0))]
KERNELS = {
    "RBF": ma.RBF(0.5),
    "Matern 1/2": ma.Matern(0.5, nu=0.5),
    "Matern 5/2": ma.Matern(0.5, nu=2.5),
    "Scale": ma.Scale(ma.RBF(0.5), 9.0),
}


def clusters(rng: np.random.Generator, spacing: float) -> np.ndarray:
    """Twelve groups of five rows a spacing apart."""
    centres = rng.random((12, 2))
    return np.concatenate([centres + spacing * rng.normal(size=centres.shape) for _ in range(5)])


def line(rng: np.random.Generator, spacing: float) -> np.ndarray:
    """Eighty rows on a line, one spacing from each to the next, and two rows far away."""
    return np.concatenate([spacing * np.arange(80.0), [1.0, 2.0]])[rng.permutation(82), None]


def dense_line(rng: np.random.Generator, spacing: float) -> np.ndarray:
    """Forty rows across [0, 1], each beside a copy a spacing away: smooth kernels have rank about ten."""
    grid = np.linspace(0, 1, 40)
    return np.concatenate([grid, grid + spacing])[:, None]


SHAPES = {shape.__name__: shape for shape in (clusters, line, dense_line)}


def assert_close(posterior: Any, expected: Dense, largest_reward: float, where: str) -> None:
    prior = posterior.state.prior
    assert np.isfinite(posterior.mean).all(), where
    assert np.isfinite(posterior.variance).all(), where
    assert (posterior.leverage > 0).all(), where
    assert (posterior.variance <= prior * (1 + TOLERANCE)).all(), where
    variance = np.abs(posterior.variance - posterior.ridge * expected.leverage) / prior
    mean = np.abs(posterior.mean - expected.mean) / (largest_reward * (1 + prior / posterior.ridge))
    assert variance.max() < TOLERANCE, f"{where}: variance off by {variance.max():.2e} of the prior"
    assert mean.max() < 0.3 * TOLERANCE, f"{where}: mean off by {mean.max():.2e} of its scale"


def one_by_one(posterior: ma.Posterior, arms: np.ndarray, rewards: np.ndarray) -> None:
    for arm, reward in zip(arms, rewards, strict=True):
        posterior.update([arm], [arm], [reward])


def in_blocks(posterior: ma.Posterior, arms: np.ndarray, rewards: np.ndarray) -> None:
    for part in np.array_split(np.arange(len(arms)), 6):
        posterior.update(arms[part], arms[part], rewards[part])


def rebuilt(posterior: ma.Posterior, arms: np.ndarray, rewards: np.ndarray) -> None:
    posterior.condition(arms, rewards)
    posterior.rebuild(arms)


WAYS = {way.__name__: way for way in (one_by_one, in_blocks, rebuilt)}


@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", KERNELS)
def test_near_duplicates_all_inducing_is_the_exact_posterior(name: str, shape: str, ridge: float) -> None:
    for spacing in SPACINGS:
        rng = np.random.default_rng(7)
        features, kernel = SHAPES[shape](rng, spacing), KERNELS[name]
        arms = np.concatenate([rng.permutation(len(features)), rng.integers(len(features), size=30)])
        rewards, ledger = rng.normal(size=len(arms)), Ledger(len(features))
        ledger.pull(arms, rewards)
        expected = exact(kernel, features, ridge, ledger)
        for way, pull in WAYS.items():
            posterior = ma.Posterior(ma.Pool(features), kernel, ridge)
            pull(posterior, arms, rewards)
            assert_close(posterior, expected, np.abs(rewards).max(), f"spacing {spacing:g}, {way}")


def test_equal_rows_are_one_point_and_several_arms() -> None:
    """Pulls of one arm inform its twin; the twin adds nothing to the span."""
    features = np.repeat(np.random.default_rng(0).normal(size=(10, 3)), 4, axis=0)
    posterior = ma.Posterior(ma.Pool(features), ma.RBF(), 0.1)
    posterior.update(np.arange(40), [0, 0, 5], [1.0, 2.0, 3.0])
    assert posterior.state.sketch_size == 10
    assert posterior.mean.reshape(10, 4) == pytest.approx(np.repeat(posterior.mean[::4, None], 4, axis=1))
    assert posterior.leverage[0] == pytest.approx(posterior.leverage[3])
