"""Predictions from all other results, and the coverage of intervals, against plain computations."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.plots.data.agreement import NINETY, SHARES
from tests.campaigns.reports import measurement, report


def run_of(rng: np.random.Generator, minimize: bool = False, pulls: int = 40) -> ma.Optimizer:
    features = rng.random((60, 2))
    run = ma.Optimizer(
        ma.Pool(features), ma.GPUCB(kernel=ma.RBF(0.4), noise_std=0.2), seed=0, minimize=minimize
    )
    arms = rng.integers(0, 25, size=pulls)
    run.tell(arms=arms, rewards=np.sin(5 * features[arms, 0]) + 0.2 * rng.normal(size=pulls))
    return run


def plain_leave_one_out(run: ma.Optimizer) -> list[tuple[float, float, float]]:
    """Average, mean and standard deviation of each measured arm, one Gaussian process per arm."""
    history, found = run.history, []
    X, counts = run.pool.features[history.arms], history.counts
    y, ridge = history.sums / counts, 0.2**2
    for place in range(len(history)):
        rest = np.arange(len(history)) != place
        covariance = ma.RBF(0.4).matrix(X[rest], X[rest]) + np.diag(ridge / counts[rest])
        towards = ma.RBF(0.4).matrix(X[[place]], X[rest])[0]
        solved = np.linalg.solve(covariance, towards)
        variance = 1.0 - towards @ solved + ridge / counts[place]
        found.append((float(y[place]), float(solved @ y[rest]), float(np.sqrt(variance))))
    return found


@pytest.mark.parametrize("minimize", [False, True])
def test_each_candidate_is_predicted_from_all_others(rng: np.random.Generator, minimize: bool) -> None:
    run = run_of(rng, minimize)
    data = ma.plots.predicted_data(run)
    assert data.left_out
    expected = plain_leave_one_out(run)
    assert [p.id for p in data.pairs] == [str(arm) for arm in run.history.arms]
    for pair, (y, mean, std) in zip(data.pairs, expected, strict=True):
        assert pair.measured == pytest.approx(y)
        assert pair.predicted == pytest.approx(mean, abs=1e-6)
        assert pair.upper - pair.lower == pytest.approx(2 * NINETY * std, rel=1e-6)
        assert abs(pair.score) == pytest.approx(abs(y - mean) / std, abs=1e-5)


def test_equal_candidates_without_noise_can_be_left_out() -> None:
    features = np.repeat(np.linspace(0, 1, 5), 4)[:, None]
    run = ma.Optimizer(ma.Pool(features), ma.GPUCB(kernel=ma.RBF(0.5), noise_std=1e-6), seed=0)
    run.tell(arms=np.arange(20), rewards=features[:, 0])
    data = ma.plots.predicted_data(run)
    assert len(data.pairs) == 20
    assert data.error < 1e-3


def test_a_learned_model_is_calibrated_on_its_own_kind_of_function() -> None:
    """400 results of a smooth function: at each share the fraction lies within 4 standard errors."""
    rng = np.random.default_rng(5)
    features = rng.random((400, 2))
    run = ma.Optimizer(ma.Pool(features), seed=0)
    run.tell(arms=np.arange(400), rewards=np.sin(6 * features[:, 0]) + 0.3 * rng.normal(size=400))
    data = ma.plots.calibration_data(run)
    assert data.left_out
    assert data.n == 400
    for share, fraction in zip(data.shares, data.fractions, strict=True):
        assert abs(fraction - share) <= 4 * np.sqrt(share * (1 - share) / 400), (share, fraction)


def test_coverage_counts_the_values_inside_each_interval(rng: np.random.Generator) -> None:
    """Intervals that are too narrow by half hold far fewer values than they should."""
    errors = rng.normal(size=2000)
    told = [
        measurement(n, error, predicted=0.0, predicted_lower=-0.5 * NINETY, predicted_upper=0.5 * NINETY)
        for n, error in enumerate(errors.tolist(), 1)
    ]
    data = ma.plots.calibration_data(report(measurements=told).view())
    inside = np.abs(errors) <= 0.5 * NINETY
    assert data.fractions[SHARES.index(0.9)] == pytest.approx(inside.mean())
    assert all(fraction < low for fraction, low in zip(data.fractions, data.lower, strict=True))
    assert "too sure" in " ".join(ma.plots.calibration(report(measurements=told).view()).caption)


def test_uneven_intervals_are_measured_on_the_side_of_the_value() -> None:
    told = [measurement(1, 2.0, predicted=1.0, predicted_lower=0.5, predicted_upper=3.0)]
    (pair,) = ma.plots.predicted_data(report(measurements=told).view()).pairs
    assert pair.score == pytest.approx(NINETY * 0.5)
