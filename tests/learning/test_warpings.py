"""Smooth warpings invert, have the slopes they say, and are chosen where the evidence prefers them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import manyarms as ma
from manyarms.learning import learn, prepare, should_refit
from manyarms.learning.reward_transforms import normal_scores, transform_from
from manyarms.learning.smooth_warpings import (
    Logarithm,
    SinhArcsinh,
    Warped,
    YeoJohnson,
    smooth_warpings,
)
from manyarms.posterior.history import History

curves = st.one_of(
    st.sampled_from([YeoJohnson(0.0), YeoJohnson(2.0), YeoJohnson(1.0)]),
    st.floats(0.0, 2.0).map(YeoJohnson),
    st.builds(SinhArcsinh, st.floats(0.2, 1.35), st.floats(-2.0, 2.0)),
)


@settings(max_examples=80, deadline=None)
@given(curves, st.floats(-50.0, 50.0), st.floats(0.1, 10.0))
@example(YeoJohnson(5e-324), 0.0, 1.0)
def test_a_warping_inverts_and_has_the_slope_it_says(curve, shift: float, unit: float) -> None:
    warped = Warped(curve, shift, unit, centre=0.3, spread=1.7)
    rewards = shift + unit * np.linspace(-6.0, 6.0, 41)
    values = warped.forward(rewards)
    assert (np.diff(values) > 0).all()
    np.testing.assert_allclose(warped.inverse(values), rewards, rtol=1e-7, atol=1e-7 * unit)
    step = 1e-5 * unit
    slopes = (warped.forward(rewards + step) - warped.forward(rewards - step)) / (2 * step)
    np.testing.assert_allclose(warped.log_slopes(rewards), np.log(slopes), atol=1e-4)
    assert transform_from(json.loads(json.dumps(warped.describe()))) == warped


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rewards_of_one_sign_over_orders_of_magnitude_may_have_a_logarithm(sign: float) -> None:
    rewards = sign * np.geomspace(0.01, 100.0, 30)
    (logarithm,) = [w for w in smooth_warpings(rewards) if isinstance(w.curve, Logarithm)]
    np.testing.assert_allclose(np.diff(np.sort(logarithm.forward(rewards))), 2 / 10.4, rtol=0.4)
    np.testing.assert_allclose(logarithm.inverse(logarithm.forward(rewards)), rewards)
    np.testing.assert_allclose(
        logarithm.log_slopes(rewards), -np.log(np.abs(rewards)) - np.log(logarithm.spread)
    )
    assert logarithm.forward(np.array([-sign]))[0] * sign < -50, "a reward of the other sign is far outside"
    assert not any(isinstance(w.curve, Logarithm) for w in smooth_warpings(sign * np.linspace(9.0, 11.0, 30)))


@pytest.mark.parametrize(
    "rewards",
    [[1.0, 2.0], [0.0] * 9 + [1.0], [1e300, -1e300, 0.0, 1.0], [1e-300, 2e-300, 5e-300], [1.0, 1.0, 1e308]],
)
def test_extreme_rewards_leave_only_maps_that_can_be_computed(rewards: list[float]) -> None:
    for warped in smooth_warpings(np.array(rewards)):
        assert np.isfinite(warped.forward(np.array(rewards))).all()
        assert np.isfinite(warped.inverse(np.array([-9.0, 0.0, 9.0]))).all()


def test_slopes_of_normal_scores_estimate_the_density_of_the_rewards() -> None:
    """For a normal sample the map is nearly (y − 3)/2; 40 samples, the bias below two standard errors."""
    rng = np.random.default_rng(0)
    excess = []
    for _ in range(40):
        rewards = 3.0 + 2.0 * rng.normal(size=200)
        excess.append(float(normal_scores(rewards).log_slopes(rewards).mean() + np.log(2.0)))
    assert abs(np.mean(excess)) < 0.02  # 4 of 200 rewards' worth; without the correction 0.05


def learned(rewards: np.ndarray, X: np.ndarray) -> str:
    history = History(len(X))
    history.add(np.arange(len(X)), rewards)
    model = learn(prepare(ma.Pool(X)), history, np.random.default_rng(0))
    return str(model.transform.describe()["transform"])


def test_the_scale_is_the_one_the_evidence_prefers() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(150, 2))
    smooth = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=150)
    assert learned(smooth, X) == "standardised"
    assert learned(np.exp(2 * smooth), X) == "logarithm"
    assert learned(-np.exp(-2 * smooth), X) == "logarithm"
    outlier = smooth.copy()
    outlier[7] = 1e12
    assert learned(outlier, X) in ("normal scores", "sinh-arcsinh")


def test_the_choice_of_scale_does_not_depend_on_units() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(80, 2))
    rewards = np.sin(5 * X[:, 0]) + 0.3 * rng.standard_t(2, size=80)
    chosen = {learned(unit * rewards, X) for unit in (1.0, 1e-9, 1e9)}
    assert len(chosen) == 1


def test_one_result_far_outside_is_learned_from_once() -> None:
    """A scale without ranks keeps values beyond six standard deviations: no new fit each time."""
    X = np.random.default_rng(5).uniform(size=(60, 2))
    history = History(60)
    history.add(np.arange(59), np.where(np.arange(59) == 11, 40.0, X[:59].sum(axis=1)))
    model = learn(prepare(ma.Pool(X)), history, np.random.default_rng(0), rewards="standardise")
    assert model.largest_value > 7.0
    assert not should_refit(model, history)
    history.add([59], [80.0])
    assert should_refit(model, history)
