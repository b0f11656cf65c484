"""Transforms are increasing and invertible, and are chosen by a stated rule."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from manyarms.errors import InvalidParameterError
from manyarms.learning.reward_transforms import (
    Standardised,
    fit_transforms,
    normal_scores,
    targets,
    tie_variance,
    transform_from,
)
from manyarms.posterior.history import History


def told(rewards: np.ndarray) -> History:
    history = History(len(rewards))
    history.add(np.arange(len(rewards)), rewards)
    return history


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=2, max_size=40, unique=True))
def test_normal_scores_increase_and_invert_also_beyond_the_data(rewards: list[float]) -> None:
    transform = normal_scores(np.array(rewards))
    low, high = min(rewards), max(rewards)
    span = high - low
    grid = np.linspace(low - span, high + span, 101)
    values = transform.forward(grid)
    assert (np.diff(values) > 0).all()
    np.testing.assert_allclose(transform.inverse(values), grid, rtol=1e-7, atol=1e-7 * span)
    assert transform_from(json.loads(json.dumps(transform.describe()))) == transform


def test_scores_of_many_values_are_standard_normal() -> None:
    rewards = np.random.default_rng(0).standard_cauchy(3000)
    scores = normal_scores(rewards).forward(rewards)
    assert abs(scores.mean()) < 0.01
    assert scores.std() == pytest.approx(1.0, abs=0.02)
    assert np.argmax(scores) == np.argmax(rewards)


def test_ties_share_a_score() -> None:
    scores = normal_scores(np.array([1.0, 2.0, 2.0, 2.0, 3.0])).forward(np.array([1.0, 2.0, 3.0]))
    assert scores[1] == pytest.approx(0.0)
    assert scores[0] == pytest.approx(-scores[2])


def test_the_variance_hidden_by_ties() -> None:
    assert tie_variance(np.array([3.0, 1.0, 2.0])) == 0.0
    broken = ndtri((np.arange(5) + 0.5) / 5)
    hidden = np.var(broken[3:]) * 2 / 5  # the two at the top, of five
    assert tie_variance(np.array([9.0, 1.0, 2.0, 9.0, 3.0])) == pytest.approx(hidden)
    assert tie_variance(np.array([0.0, 0.0, 7.0, 0.0, 0.0])) == 0.0, "ties at the lowest value do not count"


def test_a_new_record_has_a_moderate_score() -> None:
    """Two best values that nearly coincide must not give the next record an extreme score."""
    transform = normal_scores(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.0001]))
    at_best, beyond = transform.forward(np.array([6.0001, 7.0]))
    assert at_best < beyond < at_best + 1.0


def test_the_noise_of_replicates_survives_ranking() -> None:
    """Averages that lie close together must not inflate it: 500 arms of variance 1, noise 0.3."""
    rng = np.random.default_rng(4)
    arms = np.repeat(np.arange(500), 3)
    history = History(500)
    history.add(arms, rng.normal(size=500)[arms] + 0.3 * rng.normal(size=1500))
    seen = targets(history, fit_transforms(history, "rank")[0][0])
    assert np.sqrt(seen.scatters.sum() / 1000) == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize(
    ("rewards", "words"),
    [([], "no results yet"), ([4.0], "all rewards are 4"), ([4.0] * 5, "all rewards are 4")],
)
def test_too_few_results_are_reported(rewards: list[float], words: str) -> None:
    history = History(10)
    history.add(np.arange(len(rewards)), rewards)
    (transform,), said = fit_transforms(history)
    assert words in said[0]
    assert np.isfinite(transform.forward(np.array([4.0]))).all()


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="'boxcox'"):
        fit_transforms(told(np.arange(3.0)), "boxcox")


def test_rewards_near_the_largest_that_can_be_squared() -> None:
    transforms, _ = fit_transforms(told(np.array([1e150, 2e150, 3e150])))
    assert len(transforms) >= 3
    for transform in transforms:
        np.testing.assert_allclose(transform.inverse(transform.forward(np.array([2.5e150]))), 2.5e150)


def test_replicates_keep_average_and_scatter() -> None:
    history = History(3)
    history.add([0, 0, 0, 1, 2], [1.0, 2.0, 3.0, 5.0, 7.0])
    seen = targets(history, Standardised(1.0, 2.0))
    np.testing.assert_allclose(seen.means, [0.5, 2.0, 3.0])
    np.testing.assert_allclose(seen.scatters, [0.5, 0.0, 0.0])  # Σ(y − 2)² = 2, over spread² = 4
    np.testing.assert_allclose(seen.sums, [1.5, 2.0, 3.0])


def test_rewards_too_close_for_a_slope_are_equal() -> None:
    (transform,), said = fit_transforms(told(np.array([0.0, 1e-310, 5e-324])))
    assert transform.describe()["transform"] == "standardised"
    assert "all rewards are 0" in said[0]
