"""Repeated results that are equal, because they are rounded or exact, and the law of the noise."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.learning import learn, prepare
from manyarms.posterior.history import History


@pytest.mark.parametrize(("noise", "repeats"), [(0.05, 3), (0.01, 3), (0.05, 2)])
def test_rounded_results_that_are_often_equal_show_no_law(noise: float, repeats: int) -> None:
    """The noise is constant and below the last digit, so that most arms have no scatter at all."""
    used = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, arms = rng.uniform(size=(40, 2)), np.repeat(np.arange(40), repeats)
        values = 2.5 * np.sin(5 * X[:, 0]) + 1.5 * X[:, 1] + 0.3
        rewards = 0.2 * np.round((values[arms] + noise * rng.normal(size=len(arms))) / 0.2)
        history = History(40).added(arms, rewards)
        used += learn(prepare(ma.Pool(X)), history, np.random.default_rng(0)).noise_law is not None
    assert used <= 1


def test_arms_without_scatter_are_less_noisy_than_others() -> None:
    """Exact on one side of the table, and in digits that a logarithm would stretch beyond all numbers."""
    rng = np.random.default_rng(0)
    X, arms = rng.uniform(size=(60, 2)), np.repeat(np.arange(60), 3)
    noise = np.where(X[arms, 0] < 0.5, 0.0, 0.3) * rng.normal(size=180)
    for values in (np.sin(4 * X[arms, 1]) + noise, np.exp(200 * (np.sin(4 * X[arms, 1]) + noise))):
        model = learn(prepare(ma.Pool(X)), History(60).added(arms, values), np.random.default_rng(0))
        assert model.noise_law is not None
        factors = model.noise_law.factors(prepare(ma.Pool(X)).pool.features)
        assert np.median(factors[X[:, 0] < 0.5]) < 0.2 * np.median(factors[X[:, 0] > 0.5])
