"""Random features are unbiased, with the variance of theory and an error ~ 1/√pairs: fixed seeds, α = 1e-4.

A mean of N draws is compared with its expectation by a normal test at α/#comparisons (Bonferroni).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import manyarms as ma
from manyarms.embeddings import RandomFourierFeatures, RandomProjection, kernel_error
from manyarms.kernels import KernelLike

ALPHA = 1e-4
X = np.random.default_rng(1).random((12, 3))
KERNELS = {
    "rbf": ma.RBF((0.3, 0.5, 0.9)),
    "matern12": ma.Matern(0.5, nu=0.5),
    "matern-any": ma.Matern((0.3, 0.5, 0.9), nu=1.7),
    "scaled": ma.kernels.Scale(ma.Matern(0.5, nu=2.5), 4.0),
}


def largest_z_score(grams: np.ndarray, wanted: np.ndarray) -> float:
    """Of the mean of N Gram matrices, in standard errors, over the pairs x ≠ y."""
    upper = np.triu_indices(len(wanted), 1)
    draws = grams[:, *upper]
    error = draws.mean(axis=0) - wanted[upper]
    return float(np.abs(error / (draws.std(axis=0, ddof=1) / np.sqrt(len(draws)))).max())


def limit(n_comparisons: int) -> float:
    return float(norm.isf(ALPHA / (2 * n_comparisons)))


PAIRS_OF_ARMS = len(X) * (len(X) - 1) // 2


def grams_of(kernel: KernelLike, pairs: int, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = (RandomFourierFeatures(kernel, pairs, rng, 3).matrix(X) for _ in range(n))
    return np.array([Z @ Z.T for Z in rows])


@pytest.mark.parametrize("name", KERNELS)
def test_random_fourier_features_are_unbiased(name: str) -> None:
    kernel = KERNELS[name]
    found = largest_z_score(grams_of(kernel, 8, 3000, seed=3), kernel.matrix(X, X))
    assert found < limit(PAIRS_OF_ARMS), f"{found:.2f} standard errors"


def test_the_test_can_tell_a_wrong_kernel() -> None:
    """A tenth off in the length-scale, or t of ν instead of 2ν degrees, is found out."""
    grams = grams_of(ma.Matern(0.5, nu=1.5), 8, 3000, seed=3)
    for wrong in (ma.Matern(0.55, nu=1.5), ma.Matern(0.5, nu=0.75)):
        assert largest_z_score(grams, wrong.matrix(X, X)) > limit(PAIRS_OF_ARMS)


def test_variance_of_one_pair_is_that_of_a_cosine() -> None:
    """Var cos ωᵀr = (1 + k(2r))/2 − k(r)² for one pair (any stationary k with k(0) = 1)."""
    kernel, r = ma.RBF(0.6), np.array([[0.0, 0.0], [0.4, 0.3]])
    rng, n = np.random.default_rng(4), 4000
    values = np.array(
        [np.prod(RandomFourierFeatures(kernel, 1, rng, 2).matrix(r), axis=0).sum() for _ in range(n)]
    )
    k, twice = (kernel.matrix(r[:1], factor * r[1:])[0, 0] for factor in (1, 2))
    squares = (values - k) ** 2
    error = squares.mean() - ((1 + twice) / 2 - k**2)
    assert abs(error) < limit(1) * squares.std() / np.sqrt(n)


def test_error_falls_with_the_root_of_the_number_of_pairs() -> None:
    """Slope of log error on log pairs, −½ within 0.06 (its standard error over 40 draws is below 0.015)."""
    kernel, sizes = ma.Matern(0.4, nu=2.5), np.array([16, 64, 256, 1024])
    rng = np.random.default_rng(5)
    errors = [
        np.mean([kernel_error(RandomFourierFeatures(kernel, p, rng, 3), kernel, X) for _ in range(40)])
        for p in sizes.tolist()
    ]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert abs(slope + 0.5) < 0.06, (slope, errors)


def test_random_projection_is_unbiased() -> None:
    kernel = ma.kernels.Scale(ma.Linear(bias=0.3), 2.0)
    rng = np.random.default_rng(6)
    rows = (RandomProjection(kernel, 2, rng, 3).matrix(X) for _ in range(4000))
    found = largest_z_score(np.array([Z @ Z.T for Z in rows]), kernel.matrix(X, X))
    assert found < limit(PAIRS_OF_ARMS), f"{found:.2f} standard errors"
