"""Runs on boxes: ask and tell, saving, batches, integers, failures and bad input."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import (
    BudgetSpentError,
    CheckpointError,
    InvalidParameterError,
    InvalidRewardError,
    NoResultsError,
    NothingToAskError,
)

UNIT = ma.Box([0.0, 0.0], [1.0, 1.0])
GIVEN = {"kernel": ma.RBF(0.3), "noise_std": 0.05}
POLICIES = [None, ma.BKB(**GIVEN), ma.BBKB(**GIVEN, batch_ratio=3.0)]


def bowl(point) -> float:
    return float(-((point[0] - 0.3) ** 2) - 2 * (point[1] - 0.8) ** 2)


def asked(run: ma.Optimizer, times: int, n: int | None = None) -> list[np.ndarray]:
    """The points of this many batches, each answered with the bowl."""
    found = []
    for _ in range(times):
        batch = run.ask(n)
        points = run.pool.take(batch.arms)
        run.tell(batch, [bowl(point) for point in points])
        found.append(points)
    return found


def test_a_box_makes_a_run_of_its_own_class() -> None:
    assert type(ma.Optimizer(UNIT)) is ma.BoxOptimizer
    assert type(ma.Optimizer(ma.Pool([[0.0], [1.0]]))) is ma.Optimizer
    assert ma.Optimizer(UNIT).domain is UNIT


def test_the_default_finds_the_top_of_a_bowl() -> None:
    result = ma.maximize(lambda arm: bowl(arm.features), UNIT, 30)
    assert np.abs(result.best.features - [0.3, 0.8]).max() < 0.01
    assert result.best.features.tolist() == result.optimizer.pool.features[result.best.arm].tolist()
    assert UNIT.contains(result.optimizer.pool.take(result.arms)).all()
    why = {reason for record in result.optimizer.trace for reason in record.why}
    assert why == {"initial design", "expected improvement", "exploration"}


@pytest.mark.parametrize("policy", POLICIES)
def test_minimising_is_maximising_the_negative(policy) -> None:
    up = ma.maximize(lambda arm: bowl(arm.features), UNIT, 14, policy)
    down = ma.minimize(lambda arm: -bowl(arm.features), UNIT, 14, policy)
    np.testing.assert_array_equal(up.optimizer.pool.take(up.arms), down.optimizer.pool.take(down.arms))
    assert up.best.mean == pytest.approx(-down.best.mean)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_saved_run_continues_bit_for_bit(policy, tmp_path: Path) -> None:
    box = ma.Box([0.0, 1.0, 1], [1.0, 100.0, 5], log=[1], integer=[2])

    def step(run: ma.Optimizer) -> np.ndarray:
        batch = run.ask(at_most=3)
        points = run.pool.take(batch.arms)
        run.tell(batch, [bowl([p[0], np.log(p[1]) / 5]) - 0.1 * p[2] for p in points])
        return points

    run = ma.Optimizer(box, policy, seed=4, budget=200)
    for _ in range(9):
        step(run)
    pending = run.ask(2)
    run.save(tmp_path / "run.npz")
    loaded = ma.Optimizer.load(tmp_path / "run.npz")
    assert isinstance(loaded, ma.BoxOptimizer)
    assert loaded.domain == box
    assert loaded.pending == run.pending
    for each in (run, loaded):
        each.tell(pending.tickets, [-0.5, -0.6])
    for _ in range(5):
        np.testing.assert_array_equal(step(run), step(loaded))
    np.testing.assert_array_equal(run.predict()[0], loaded.predict()[0])
    np.testing.assert_array_equal(run.partition.tree.low, loaded.partition.tree.low)


def test_a_damaged_box_is_refused(tmp_path: Path) -> None:
    run = ma.Optimizer(UNIT)
    run.save(tmp_path / "run.npz")
    with pytest.raises(CheckpointError):
        ma.Optimizer.load(tmp_path / "missing.npz")
    data = (tmp_path / "run.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(CheckpointError):
        ma.Optimizer.load(tmp_path / "cut.npz")


@pytest.mark.parametrize("policy", POLICIES)
def test_pending_points_are_not_asked_for_again(policy) -> None:
    run = ma.Optimizer(UNIT, policy)
    asked(run, 10)
    batches = [run.ask(4), run.ask(4)]
    points = np.concatenate([run.points(batch) for batch in batches])
    assert len(run.pending) == 8
    if policy is None:
        assert len(np.unique(points, axis=0)) == 8
    else:
        assert len(np.unique(points, axis=0)) > 4
    run.forget(batches[0])
    assert len(run.pending) == 4


def test_an_early_large_batch_is_a_design() -> None:
    run = ma.Optimizer(UNIT)
    batch = run.ask(25)
    assert len(np.unique(run.points(batch), axis=0)) == 25
    assert set(batch.why) == {"initial design"}
    more = run.ask(3)  # nothing is known yet: far from everything pending
    assert len(more.arms) == 3


def test_the_whole_loop_on_an_executor_and_resumed() -> None:
    with ThreadPoolExecutor(2) as executor:
        result = ma.maximize(lambda arm: bowl(arm.features), UNIT, 12, executor=executor)
    more = ma.maximize(lambda arm: bowl(arm.features), UNIT, 16, resume=result)
    assert len(more.rewards) == 16
    with pytest.raises(InvalidParameterError, match="resume"):
        ma.maximize(lambda arm: 0.0, ma.Box([0.0], [1.0]), 30, resume=more)


def test_integers_and_logarithms_are_respected() -> None:
    box = ma.Box([1, 1e-5, -3], [64, 1.0, 3], integer=[0, 2], log=[0, 1])

    def f(arm) -> float:
        n, rate, k = arm.features
        return float(-((np.log(n / 16)) ** 2) - (np.log10(rate) + 3) ** 2 - (k - 1) ** 2)

    result = ma.maximize(f, box, 40)
    points = result.optimizer.pool.take(result.arms)
    assert box.contains(points).all()
    assert len(np.unique(points, axis=0)) == 40  # a point is not tried again before all others
    assert result.rewards.max() > -0.1
    assert result.best.features[2] == 1


def test_a_small_discrete_box_is_tried_once_before_repeats() -> None:
    box = ma.Box([0, 0], [2, 2], integer=True)
    result = ma.maximize(lambda arm: float(arm.features.sum()), box, 12)
    points = result.optimizer.pool.take(result.arms)
    assert len(np.unique(points[:9], axis=0)) == 9
    assert result.best.features.tolist() == [2.0, 2.0]
    forbidden = ma.maximize(lambda arm: float(arm.features.sum()), box, 12, repeats="forbid")
    assert len(forbidden.rewards) == 9


def test_a_limit_on_repeats_is_kept() -> None:
    box = ma.Box([0], [3], integer=True)
    result = ma.maximize(lambda arm: float(arm.features[0]), box, 20, repeats=2)
    counts = np.unique(result.optimizer.pool.take(result.arms)[:, 0], return_counts=True)[1]
    assert counts.tolist() == [2, 2, 2, 2]


def test_failed_points_are_left() -> None:
    def f(arm) -> float:
        if arm.features[0] > 0.5:
            raise RuntimeError("too hot")
        return bowl(arm.features)

    result = ma.maximize(f, UNIT, 25)
    assert 0 < len(result.failures) < 20
    assert np.abs(result.best.features - [0.3, 0.8]).max() < 0.05


def test_results_at_other_points_count() -> None:
    run = ma.Optimizer(UNIT)
    rng = np.random.default_rng(0)
    points = rng.random((30, 2))
    run.tell(points=points, rewards=[bowl(point) for point in points])
    run.tell(points=[0.25, 0.75], rewards=[bowl([0.25, 0.75])])
    run.tell(points=points[:2], rewards=[bowl(point) for point in points[:2]])  # the same arms again
    assert len(run.history) == 31
    assert run.history.pulls == 33
    batch = run.ask(1)
    assert batch.why == ("expected improvement",)
    assert np.abs(run.points(batch)[0] - [0.3, 0.8]).max() < 0.2


def test_predictions_anywhere() -> None:
    for policy in POLICIES:
        run = ma.Optimizer(UNIT, policy)
        asked(run, 8)
        mean, std = run.predict()
        there, spread = run.predict_at(run.pool.features)
        np.testing.assert_allclose(there, mean, atol=1e-6)
        np.testing.assert_allclose(spread, std, atol=1e-5)


def test_the_polished_point_is_better_on_a_smooth_function() -> None:
    result = ma.maximize(lambda arm: bowl(arm.features), UNIT, 25, ma.BKB(kernel=ma.RBF(0.4), noise_std=0.01))
    polished = result.optimizer.polished()
    assert UNIT.contains(polished.features[None]).all()
    assert polished.mean >= result.best.mean - 1e-9
    assert bowl(polished.features) >= bowl(result.best.features) - 1e-3
    assert len(result.optimizer.history) <= 25  # nothing was evaluated


BAD_SETTINGS = [
    ({"policy": ma.SGPTS(kernel=ma.RBF(0.3))}, "upper bounds"),
    ({"policy": ma.RFFTS(kernel=ma.RBF(0.3))}, "upper bounds"),
    ({"policy": ma.EpsGreedy(kernel=ma.RBF(0.3))}, "upper bounds"),
    ({"policy": "BKB"}, "policy"),
    ({"policy": ma.BKB(**GIVEN), "repeats": "forbid"}, "repeats"),
    ({"parts": 1}, "parts"),
    ({"max_depth": 0}, "max_depth"),
    ({"max_splits": 0}, "max_splits"),
    ({"prepared": 3}, "prepared"),
    ({"budget": 0}, "budget"),
    ({"minimize": "yes"}, "minimize"),
    ({"repeats": "sometimes"}, "repeats"),
]


@pytest.mark.parametrize(("settings", "says"), BAD_SETTINGS)
def test_bad_settings_are_refused_and_named(settings: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidParameterError, match=says):
        ma.Optimizer(UNIT, **settings)


@pytest.mark.parametrize("policy", [None, ma.BKB(**GIVEN)])
def test_a_failed_call_changes_nothing(policy) -> None:
    run = ma.Optimizer(UNIT, policy, budget=12)
    asked(run, 5, 1)
    state, arms, tree = run.state, run.pool.n_arms, run.partition
    calls = [
        (InvalidParameterError, lambda: run.tell(points=[[0.5, 2.0]], rewards=[1.0])),
        (InvalidParameterError, lambda: run.tell(points=[[0.5]], rewards=[1.0])),
        (InvalidRewardError, lambda: run.tell(points=[[0.5, 0.4]], rewards=[np.nan])),
        (InvalidRewardError, lambda: run.tell(points=[[0.5, 0.4]], rewards=[1.0, 2.0])),
        (InvalidParameterError, lambda: run.tell([0], [1.0], points=[[0.5, 0.4]])),
        (InvalidParameterError, lambda: run.ask(eligible=[0])),
        (InvalidParameterError, lambda: run.ask(2, at_most=3)),
        (BudgetSpentError, lambda: run.ask(8)),
        (InvalidParameterError, lambda: run.add_arms([[0.5, 0.5]])),
        (InvalidParameterError, lambda: run.predict_at([[0.5, -0.1]])),
    ]
    for error, call in calls:
        with pytest.raises(error):
            call()
        assert run.state is state
        assert run.pool.n_arms == arms
        assert run.partition is tree


def test_nothing_to_recommend_or_to_ask() -> None:
    with pytest.raises(NoResultsError):
        ma.Optimizer(UNIT).best()
    run = ma.Optimizer(ma.Box([0], [1], integer=True), repeats="forbid")
    run.tell(points=[[0], [1]], rewards=[0.0, 1.0])
    with pytest.raises(NothingToAskError):
        run.ask()


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    runs = [ma.maximize(lambda arm: bowl(arm.features), UNIT, 15, seed=seed) for seed in (1, 1, 2)]
    points = [run.optimizer.pool.take(run.arms) for run in runs]
    np.testing.assert_array_equal(points[0], points[1])
    assert not np.array_equal(points[0], points[2])
