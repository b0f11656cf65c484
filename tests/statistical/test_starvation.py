"""Variance starvation (BKB Fig. 1): away from the data SoR grows sure of itself, DTC does not.

The published set-up: f drawn from the process on [0, 1] with k = exp(−100(x − y)²/2), that is length-scale
0.1; t ∈ {6, 63, 215} points uniform in [0, ½]; inducing points by leverage scores with q̄ = 2.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import manyarms as ma
from manyarms.inducing import Candidates, LeverageScores

KERNEL, RIDGE, NOISE = ma.RBF(0.1), 0.1**2, 0.1
GRID = np.linspace(0, 1, 401)[:, None]
RUNS = 20


@cache
def root() -> np.ndarray:
    values, vectors = np.linalg.eigh(KERNEL.matrix(GRID, GRID))
    return vectors * np.sqrt(np.maximum(values, 0.0))


def draw_function(rng: np.random.Generator) -> np.ndarray:
    return root() @ rng.normal(size=len(GRID))


def fitted(t: int, seed: int, *, residual: bool) -> tuple[np.ndarray, ma.Posterior]:
    """The function and the posterior on a sketch of leverage-sampled points; equal seeds, equal sketch."""
    rng = np.random.default_rng([t, seed])
    truth, arms = draw_function(rng), rng.integers(0, 201, size=t)
    posterior = ma.Posterior(ma.Pool(GRID), KERNEL, RIDGE, residual=residual)
    full = ma.Posterior(ma.Pool(GRID), KERNEL, RIDGE)
    full.update(arms, arms, np.zeros(t))
    pulled, counts = full.state.arms, full.state.counts
    candidates = Candidates(pulled, counts, full.leverage[pulled], np.zeros(len(pulled)), lambda: np.eye(0))
    inducing = LeverageScores(2.0).draw(candidates, rng).arms
    posterior.update(inducing, arms, truth[arms] + NOISE * rng.normal(size=t))
    return truth, posterior


def coverage(t: int, *, residual: bool) -> float:
    """Share of [0.6, 1] where f lies in μ̃ ± 3σ̃, over all runs."""
    far = GRID[:, 0] >= 0.6
    inside = []
    for seed in range(RUNS):
        truth, posterior = fitted(t, seed, residual=residual)
        inside.append(np.abs(truth - posterior.mean)[far] <= 3 * np.sqrt(posterior.variance[far]))
    return float(np.mean(inside))


@pytest.mark.parametrize("t", [6, 63, 215])
def test_dtc_keeps_its_variance_where_sor_starves(t: int) -> None:
    """Three length-scales from the data the prior variance is 1: DTC says so, SoR says nearly 0."""
    far = GRID[:, 0] >= 0.85
    _, dtc = fitted(t, 0, residual=True)
    _, sor = fitted(t, 0, residual=False)
    assert dtc.variance[far].min() > 0.99
    assert sor.variance[far].max() < 0.01
    assert np.array_equal(dtc.mean, sor.mean), "the two differ in the variance alone"


@pytest.mark.parametrize("t", [6, 63, 215])
def test_three_sigma_bands_away_from_the_data(t: int) -> None:
    """20 drawn functions: DTC's band holds f on more than 99 % of [0.6, 1], SoR's on less than half."""
    with_residual, without = coverage(t, residual=True), coverage(t, residual=False)
    assert with_residual > 0.99, f"DTC covers {with_residual:.3f}"
    assert without < 0.5, f"SoR covers {without:.3f}"


def test_at_reads_the_same_variance_outside_the_pool() -> None:
    for residual in (True, False):
        _, posterior = fitted(63, 1, residual=residual)
        _, variance = posterior.at(GRID)
        assert variance == pytest.approx(posterior.variance, abs=1e-6)
