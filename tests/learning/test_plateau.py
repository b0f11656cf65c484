"""A plateau of results is recognised, and no scale of the rewards is spent on it."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.learning import learn, prepare
from manyarms.learning.plateau import has_plateau, is_plateau, without_spent
from manyarms.learning.reward_transforms import NormalScores, Standardised, Targets, fit_transforms, targets
from manyarms.posterior.history import History

ORDINARY = np.random.default_rng(0).normal(size=60)
ALIKE = 0.005 * np.random.default_rng(1).normal(size=60)
WORSE = -0.2 - np.abs(ORDINARY)


def history(results: np.ndarray) -> History:
    seen = History(len(results))
    seen.add(np.arange(len(results)), results)
    return seen


def scales(results: np.ndarray) -> list[Targets]:
    seen = history(results)
    return [targets(seen, transform) for transform in fit_transforms(seen)[0]]


def kinds(found: list[Targets]) -> set[type]:
    return {type(each.transform) for each in found}


ON_TOP = np.concatenate([WORSE, ALIKE])


@pytest.mark.parametrize("better", [[], [0.4], [0.4, 0.6, 1.0]])
def test_ranks_of_a_plateau_are_not_compared_whether_or_not_something_better_is_known(better):
    results = np.concatenate([ON_TOP, better])
    found = without_spent(scales(results))
    assert NormalScores not in kinds(found)
    assert Standardised in kinds(found)
    alike = np.flatnonzero(np.abs(results) < 0.02)
    assert all(each.means[alike].std() < 0.4 for each in found)


@pytest.mark.parametrize(
    "results",
    [
        ORDINARY,
        np.exp(2.0 * ORDINARY),
        -np.exp(2.0 * ORDINARY),
        -ON_TOP,  # a plateau of bad candidates
        np.concatenate([WORSE, ALIKE[:20]]),  # too few
        np.minimum(ORDINARY, 0.2),  # capped: there is nothing better
        np.maximum(ORDINARY, 0.2),
        np.round(ORDINARY),
        np.append(ORDINARY, -1e6),
        np.append(ORDINARY, [-1e6, -3e5]),
        np.append(ORDINARY, np.full(25, -1000.0)),  # one value for whatever went wrong
    ],
)
def test_other_results_are_compared_on_all_scales(results):
    given = scales(results)
    assert without_spent(given) == given


@pytest.mark.parametrize("bad", [[-1e6], [-1e6, -3e5], [-1000.0] * 25])
def test_much_worse_results_do_not_make_all_others_a_plateau(bad):
    results = np.append(ORDINARY, bad)
    assert not any(is_plateau(results, level) for level in ORDINARY)


def test_a_scale_that_was_asked_for_is_used():
    seen = history(ON_TOP)
    (transform,), _ = fit_transforms(seen, "rank")
    given = [targets(seen, transform)]
    assert without_spent(given) == given


def test_the_model_of_a_plateau_is_not_made_of_ranks():
    """The clones of one method have made noise of half the spread of the ranks."""
    rng = np.random.default_rng(3)
    x = rng.random((120, 3))
    method = np.arange(120) % 2
    value = np.where(method == 0, 0.004 * rng.normal(size=120), -2.0 + 2.0 * x[:, 0] + x[:, 1])
    value = np.where(method == 0, value, np.minimum(value, -0.1))
    model = learn(prepare(ma.Pool(np.column_stack([method, x]))), history(value), rng)
    assert not isinstance(model.transform, NormalScores)
    assert model.noise_std < 0.1


def test_there_is_a_plateau_where_some_level_is_on_one():
    rng = np.random.default_rng(4)
    seen = []
    for _ in range(200):
        n = int(rng.integers(1, 12))
        results = np.round(rng.normal(size=n) * rng.choice([0.01, 1.0], size=n), int(rng.integers(1, 4)))
        levels = np.concatenate([results, rng.normal(size=50), results + 0.04 * results.std()])
        some = any(is_plateau(results, level) for level in levels)
        seen.append((some, has_plateau(results)))
    assert {some for some, _ in seen} == {False, True}
    assert all(has for some, has in seen if some)


def test_equal_results_are_no_plateau():
    assert not has_plateau(np.zeros(5))
    assert not is_plateau(np.zeros(5), 0.0)
    assert not has_plateau(np.array([1.0]))
