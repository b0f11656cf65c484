"""Radii, the surface of the posterior and the acquisition functions, each against its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyarms as ma
from manyarms.choice.acquisition import LogExpectedImprovement, UpperBound
from manyarms.continuous.surface import Surface
from manyarms.continuous.variation import Variation
from manyarms.errors import InvalidParameterError
from manyarms.kernels.log_features import LogFeatures
from manyarms.posterior.hallucination import Hallucination
from manyarms.testing import KernelContract

BOX = ma.Box([0.0, 1, 0.5], [2.0, 9, 50.0], integer=[1], log=[2])
KERNELS = [  # on a box, a given kernel sees the logarithm of the last axis
    LogFeatures(kernel, [2])
    for kernel in (
        ma.RBF((0.4, 2.0, 1.0)),
        ma.Matern((0.4, 2.0, 1.0), 1.5),
        2.0 * ma.Matern(0.7, 0.5) + ma.RBF(3.0) * ma.Matern(1.0, 2.5),
        ma.Linear(bias=1.0),
    )
]
ends = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=3)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(KERNELS), ends, st.integers(0, 2**32 - 1))
def test_no_point_of_a_cell_is_farther_than_its_radius(kernel, ends, seed: int) -> None:
    low, high = np.sort(np.array(ends), axis=1).T
    centre = BOX.coordinates(BOX.points(0.5 * (low + high)[None]))[0]
    variation = Variation(kernel, BOX.relaxed, BOX)
    radius = variation.radii(low[None], high[None], centre[None])[0]
    inside = low + (high - low) * np.random.default_rng(seed).random((30, 3))
    first, last = BOX.integers(1, low[1], high[1])
    points = BOX.points(inside)
    points[:, 1] = np.clip(points[:, 1], first, max(first, last))
    places = BOX.coordinates(points)
    if last >= first:  # the cell owns a whole number
        distances = variation.distances(np.tile(centre, (30, 1)), places)
        assert distances.max() <= radius * (1 + 1e-9) + 1e-7


def test_the_widest_axis_is_that_of_the_kernel() -> None:
    box = ma.Box([0.0, 0.0], [1.0, 1.0])
    low, high, centre = np.zeros(2), np.ones(2), np.full(2, 0.5)
    assert Variation(ma.RBF((1.0, 0.1)), box.relaxed, box).widest_axis(low, high, centre) == 1
    assert Variation(ma.RBF((0.1, 1.0)), box.relaxed, box).widest_axis(low, high, centre) == 0
    thin = np.array([1.0, 0.5])  # equal length-scales: the longer side
    assert Variation(ma.RBF(1.0), box.relaxed, box).widest_axis(low, thin, 0.5 * thin) == 0


def test_too_many_corners_are_refused() -> None:
    box = ma.Box([0.0] * 13, [1.0] * 13)
    with pytest.raises(InvalidParameterError, match="Linear"):
        ma.Optimizer(box, ma.BKB(kernel=ma.Linear()))
    ma.Optimizer(box, ma.BKB(kernel=ma.RBF()))


class TestLogFeatures(KernelContract):
    def kernel(self):
        return LogFeatures(ma.RBF((0.5, 2.0)), [0])

    def features(self, rng, n):
        return np.column_stack([np.exp(rng.normal(size=n)), rng.normal(size=n)])


def posterior() -> ma.Posterior:
    rng = np.random.default_rng(1)
    found = ma.Posterior(ma.Pool(rng.random((40, 2))), ma.Matern((0.3, 0.6), 2.5), 1e-4)
    found.update(np.arange(20), np.arange(30), rng.normal(size=30))  # a sketch of 20 of 30 arms
    return found


@pytest.mark.parametrize("pending", [[], [31, 32, 31, 5]])
def test_the_surface_is_the_posterior_with_pending_pulls(pending: list[int]) -> None:
    found = posterior()
    features = found.pool.features
    overlay = Hallucination(found)
    for arm in pending:
        overlay.pull(arm)
    mean, variance = Surface(found, np.asarray, features[pending]).values(features)
    np.testing.assert_allclose(mean, found.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(variance, found.ridge * overlay.leverage(), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("pending", [[], [31, 32, 31, 5]])
def test_gradients_are_those_of_the_values(pending: list[int]) -> None:
    found = posterior()
    surface = Surface(found, np.asarray, found.pool.features[pending])
    step = 1e-5
    for place in np.random.default_rng(2).uniform(0.1, 0.9, (10, 2)):
        mean, variance, mean_slope, variance_slope = surface.gradients(place)
        values = surface.values(place[None])
        assert mean == pytest.approx(values[0][0])
        assert variance == pytest.approx(values[1][0])
        for axis in range(2):
            shift = step * np.eye(2)[axis]
            up, down = surface.values(place[None] + shift), surface.values(place[None] - shift)
            assert mean_slope[axis] == pytest.approx((up[0] - down[0])[0] / (2 * step), rel=1e-4, abs=1e-5)
            assert variance_slope[axis] == pytest.approx(
                (up[1] - down[1])[0] / (2 * step), rel=1e-4, abs=1e-6
            )


def expected_improvement(mean: float, std: float, best: float) -> float:
    """By numerical integration."""
    y = np.linspace(best, max(best, mean) + 12 * std, 200_001)
    density = np.exp(-0.5 * ((y - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))
    return float(np.trapezoid((y - best) * density, y))


@pytest.mark.parametrize("mean", [-8.0, -1.0, 0.3, 1.0, 4.0])
def test_expected_improvement_is_the_integral(mean: float) -> None:
    rule = LogExpectedImprovement(0.3)
    value = rule.values(np.array([mean]), np.array([1.3**2]))[0]
    assert value == pytest.approx(math.log(expected_improvement(mean, 1.3, 0.3)), abs=1e-6)


@pytest.mark.parametrize("rule", [LogExpectedImprovement(0.3), UpperBound(1.7)])
@pytest.mark.parametrize("z", [-1e6, -3000.0, -301.0, -299.0, -30.0, -1.0, 0.0, 2.0, 29.0, 31.0, 1e5])
def test_slopes_are_derivatives(rule, z: float) -> None:
    std = 0.7
    mean, variance = 0.3 + z * std, std**2
    value, by_mean, by_variance = rule.slopes(mean, variance)
    assert value == pytest.approx(rule.values(np.array([mean]), np.array([variance]))[0], rel=1e-10)
    h = 1e-6 * max(1.0, abs(mean))
    numeric = np.diff(rule.values(np.array([mean - h, mean + h]), np.full(2, variance)))[0] / (2 * h)
    assert by_mean == pytest.approx(numeric, rel=1e-4)
    h = 1e-6
    numeric = np.diff(rule.values(np.full(2, mean), variance + np.array([-h, h])))[0] / (2 * h)
    assert by_variance == pytest.approx(numeric, rel=1e-3, abs=1e-6)


def test_expected_improvement_is_continuous_where_its_form_changes() -> None:
    rule = LogExpectedImprovement(0.0)
    for edge in (-300.0, 30.0):
        below, above = rule.values(np.array([edge - 1e-9, edge + 1e-9]), np.ones(2))
        assert below == pytest.approx(above, rel=1e-7)
