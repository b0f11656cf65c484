"""Thompson draws at the rows of a round have the posterior's covariance; equal rows get equal values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import manyarms as ma
from manyarms.contextual import draws
from manyarms.support.linalg import semidefinite_root
from manyarms.support.random_streams import RandomStreams


@pytest.mark.parametrize("rank", [1, 3, 20])
def test_a_root_of_a_semidefinite_matrix(rank: int) -> None:
    rng = np.random.default_rng(rank)
    half = rng.normal(size=(20, rank))
    half[7] = half[3]
    matrix = half @ half.T
    root = semidefinite_root(matrix)
    np.testing.assert_allclose(root @ root.T, matrix, atol=1e-12 * np.abs(matrix).max())
    np.testing.assert_allclose(root[7], root[3], atol=1e-6)
    assert semidefinite_root(np.zeros((4, 4))).tolist() == np.zeros((4, 4)).tolist()


@pytest.mark.parametrize("n", [5, 90, 300])
def test_draws_have_the_posterior_s_moments(n: int) -> None:
    """600 rounds: mean and variance of every row are the posterior's (α = 0.001 each, over all rows)."""
    kernel, rng = ma.RBF(0.4), np.random.default_rng(0)
    bandit = ma.ContextualBandit(ma.SGPTS(kernel=kernel, width=1.0), seed=0)
    bandit.tell(rows=rng.random((30, 2)), rewards=rng.normal(size=30))
    bandit.ask(rng.random((3, 2)))
    rows = rng.random((n, 2))
    rows[-1] = rows[0]
    mean, std = bandit.predict(rows)
    values = bandit._values(bandit._state, rows)
    streams, times = RandomStreams(4), 600
    drawn = np.array([draws.drawn_values(bandit._state.model, values, 1.0, streams, i) for i in range(times)])
    limit = stats.norm.isf(0.0005 / n)
    errors = (drawn.mean(axis=0) - mean) / (std / np.sqrt(times))
    assert np.abs(errors).max() < limit
    ratios = drawn.var(axis=0, ddof=1) / std**2
    chi = stats.chi2(times - 1)
    assert (ratios > chi.ppf(0.0005 / n) / (times - 1)).all()
    assert (ratios < chi.isf(0.0005 / n) / (times - 1)).all()
    if n <= draws.MOST_JOINT:
        np.testing.assert_allclose(drawn[:, -1], drawn[:, 0], atol=1e-5)
