"""A run on a box that no longer improves looks elsewhere; one that improves does not."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.continuous import by_ascent, learned
from manyarms.problems.on_boxes import BOX_PROBLEMS

UNIT = ma.Box([0.0, 0.0], [1.0, 1.0])


def test_a_run_has_stalled_if_the_last_points_were_not_better() -> None:
    rising = np.linspace(0.0, 1.0, 30)
    assert not by_ascent._has_stalled(rising, UNIT)
    assert not by_ascent._has_stalled(np.zeros(10), UNIT)  # nothing to compare with
    flat = np.append(rising, np.full(10, 1.0))
    assert by_ascent._has_stalled(flat, UNIT)
    flat[-1] += 1.1 * by_ascent.STALLED
    assert not by_ascent._has_stalled(flat, UNIT)


def test_a_third_of_the_points_of_a_stalled_run_are_away_from_the_best() -> None:
    """A smooth hill, known from the start: nothing is gained any more, so every third point explores."""
    run, rng = ma.Optimizer(UNIT, seed=3), np.random.default_rng(0)

    def hill(points: np.ndarray) -> np.ndarray:
        return np.exp(-20 * ((points - 0.3) ** 2).sum(axis=1))

    points = np.vstack([rng.random((15, 2)), 0.3 + 1e-3 * rng.normal(size=(15, 2))])
    run.tell(points=points, rewards=hill(points))
    reasons = []
    for _ in range(9):
        batch = run.ask(1)
        found = run.points(batch)
        reasons.append(batch.why[0])
        scales = learned.scales_of(run.policy.covariance, 2)
        reach = np.abs((found[0] - run.best().features) / scales).max()
        if batch.why[0] == "exploration":
            assert reach > by_ascent.AWAY
        run.tell(batch, hill(found))
    assert [reason == "exploration" for reason in reasons] == [True, False, False] * 3


def test_a_run_with_a_given_width_does_not_explore() -> None:
    run, rng = ma.Optimizer(UNIT, ma.BBKB(width=2.0), seed=3), np.random.default_rng(0)
    points = rng.random((30, 2))
    run.tell(points=points, rewards=np.exp(-20 * ((points - points[0]) ** 2).sum(axis=1)))
    assert {run.ask(1).why[0] for _ in range(4)} == {"upper bound"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2])
def test_the_local_minimum_of_hartmann_4_is_left(seed: int) -> None:
    """Both runs ended in the local minimum, 0.20 above the other, before runs explored."""
    problem = BOX_PROBLEMS["Hartmann-4"]
    box = ma.Box(problem.lower, problem.upper)
    result = ma.minimize(lambda arm: problem(arm.features)[0], box, 200, seed=seed)
    assert result.rewards.min() - problem.minimum < 1e-3
