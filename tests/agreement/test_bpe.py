"""BPE against a plain implementation on the exact posterior, and against the parts it shares with DUETS."""

from __future__ import annotations

import math

import numpy as np
import pytest

import manyarms as ma
from manyarms.agents.active_set import ActivePool, DrawnPoints
from manyarms.agents.duets.epoch import Exploration
from manyarms.agents.duets.schedule import epoch_lengths
from manyarms.agents.duets.settings import DuetsSettings
from manyarms.choice.elimination import batch_lengths
from manyarms.errors import (
    BudgetSpentError,
    CheckpointError,
    InvalidParameterError,
    NothingToAskError,
)
from tests.runs import Problem

WIDTH = 2.5


def plain_bpe(problem: Problem, horizon: int, rewards_of) -> tuple[list[list[int]], list[list[int]]]:
    """Algorithm 1 of Li & Scarlett, all matrices written out: the batches and the active sets."""
    X, kernel, ridge = problem.pool.features, problem.kernel, 0.2
    K = kernel.matrix(X, X)
    active, batches, sets, length, used = list(range(len(X))), [], [], 1, 0
    while used < horizon:
        length = math.ceil(math.sqrt(horizon * length))
        batch: list[int] = []
        while len(batch) < length and used + len(batch) < horizon:
            variance = np.diag(K).copy()
            if batch:
                noisy = K[np.ix_(batch, batch)] + ridge * np.eye(len(batch))
                variance -= np.einsum("ij,ji->i", K[:, batch], np.linalg.solve(noisy, K[batch]))
            largest = variance[active].max()
            batch.append(next(arm for arm in active if variance[arm] >= largest - 1e-11))
        sets.append(list(active))
        batches.append(batch)
        rewards = rewards_of(batch, used)
        used += len(batch)
        noisy = K[np.ix_(batch, batch)] + ridge * np.eye(len(batch))
        mean = K[:, batch] @ np.linalg.solve(noisy, rewards)
        variance = np.diag(K) - np.einsum("ij,ji->i", K[:, batch], np.linalg.solve(noisy, K[batch]))
        spread = WIDTH * np.sqrt(np.maximum(variance, 0.0))
        lowest = max(mean[arm] - spread[arm] for arm in active)
        active = [arm for arm in active if mean[arm] + spread[arm] >= lowest]
    return batches, sets


def policy_for(problem: Problem, horizon: int, **changes) -> ma.BPE:
    settings = problem.settings(**{"width": WIDTH, "oversampling": 1e9, **changes})
    return ma.BPE(horizon=horizon, **settings)


def answered(problem: Problem, opt: ma.Optimizer, batch: ma.Batch) -> None:
    opt.tell(batch, problem.rewards(batch))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_batches_and_active_sets_agree_with_the_plain_form(seed):
    problem, horizon = Problem(seed, n_arms=80), 150
    expected, sets = plain_bpe(
        problem,
        horizon,
        lambda arms, first: (
            problem.truth[arms] + problem.noise_std * problem._noise[first : first + len(arms)]
        ),
    )
    opt = ma.Optimizer(problem.pool, policy_for(problem, horizon), seed=seed)
    for batch_arms, active in zip(expected, sets, strict=True):
        batch = opt.ask()
        assert opt.state.elimination.active.tolist() == active
        assert batch.arms.tolist() == batch_arms
        assert batch.ended_because == "batch of pure exploration"
        assert set(batch.why) == {"highest variance"}
        answered(problem, opt, batch)
    assert len(sets[-1]) < 70  # arms were eliminated
    with pytest.raises(BudgetSpentError, match="150 trials of the horizon"):
        opt.ask()


def test_minimising_eliminates_the_other_end():
    problem = Problem(3, n_arms=60)
    up = ma.Optimizer(problem.pool, policy_for(problem, 100))
    down = ma.Optimizer(problem.pool, policy_for(problem, 100), minimize=True)
    for _ in range(3):
        for opt, sign in ((up, 1), (down, -1)):
            batch = opt.ask()
            opt.tell(batch, sign * problem.rewards(batch))
        np.testing.assert_array_equal(up.state.elimination.active, down.state.elimination.active)


@pytest.mark.parametrize("horizon", [2, 3, 10, 50, 300, 1000, 10**6])
def test_batch_lengths(horizon):
    lengths = batch_lengths(horizon)
    assert sum(lengths) == horizon
    assert len(lengths) <= math.ceil(math.log2(max(math.log2(horizon), 1))) + 2
    before = 1
    for length in lengths[:-1]:
        assert (length - 1) ** 2 < horizon * before <= length**2
        before = length


def test_the_schedule_is_that_of_duets_where_no_root_is_rounded():
    assert batch_lengths(2**16) == epoch_lengths(2**16, 2**8)


def test_a_batch_handed_out_in_parts_is_the_same_batch():
    problem = Problem(4, n_arms=60)
    whole = ma.Optimizer(problem.pool, policy_for(problem, 200))
    parts = ma.Optimizer(problem.pool, policy_for(problem, 200))
    for _ in range(2):
        batch = whole.ask()
        answered(problem, whole, batch)
        arms: list[int] = []
        while len(arms) < len(batch):
            part = parts.ask(at_most=7)
            assert part.ended_because in ("limit", "batch of pure exploration")
            arms += list(part)
            parts.tell(part, problem.rewards(part))
        assert arms == list(batch)


def test_a_sparse_posterior_eliminates_few_arms_wrongly():
    """q̄ = 2: the best arm stays active in every batch of 10 runs, with the width of the theorem."""
    for seed in range(10):
        problem = Problem(seed, n_arms=150)
        opt = ma.Optimizer(problem.pool, ma.BPE(horizon=150, **problem.settings()), seed=seed)
        for _ in range(len(opt.policy.batches)):
            batch = opt.ask()
            assert int(np.argmax(problem.truth)) in opt.state.elimination.active
            answered(problem, opt, batch)


def test_one_epoch_of_duets_with_one_agent_has_the_same_posterior():
    """On the same draws: equal means and leverages, and BPE's pointwise trim keeps a part of DUETS'."""
    problem = Problem(5, n_arms=100)
    opt = ma.Optimizer(problem.pool, policy_for(problem, 120))
    batch = opt.ask()
    rewards = problem.rewards(batch)
    opt.tell(batch, rewards)
    opt.ask()
    kept = opt.state.elimination.active
    kernel, features = problem.kernel, problem.pool.features
    settings = DuetsSettings(kernel, 0.2, n_agents=1, horizon=120)
    active = ActivePool(problem.pool, kernel, np.arange(100))
    exploration = Exploration.of(settings, active, [DrawnPoints(batch.arms)])
    keys = np.unique(batch.arms)
    sums = np.array([rewards[batch.arms == key].sum() for key in keys])
    closed = exploration.solve(
        features[keys], kernel.matrix(features[keys], features[keys]) @ sums, width=WIDTH
    )
    leverage = exploration.exact.leverage(features)
    weights = closed.posterior.weights(kernel.matrix(features[keys], features[keys]) @ sums)
    mean = kernel.matrix(features, features[keys]) @ weights
    spread = WIDTH * np.sqrt(0.2 * leverage)
    np.testing.assert_array_equal(kept, np.flatnonzero(mean + spread >= (mean - spread).max() - 1e-9))
    assert set(kept.tolist()) <= set(active.trimmed(closed.trim).arms.tolist())


# ---------------------------------------------------------------------- the run


def test_the_next_batch_needs_all_results():
    problem = Problem(0, n_arms=60)
    opt = ma.Optimizer(problem.pool, policy_for(problem, 100))
    batch = opt.ask()
    opt.tell(batch.tickets[2:], problem.rewards(batch)[2:])
    state = opt.state
    with pytest.raises(NothingToAskError, match="2 results of the present batch are pending"):
        opt.ask()
    assert opt.state is state
    assert len(opt.ask(3)) == 3  # makes the batch longer
    opt.forget(opt.state.elimination.first_ticket + len(batch) + np.arange(3))
    opt.tell(batch.tickets[:1], failed=True)
    opt.forget(batch.tickets[1:2])
    assert len(opt.ask()) > 0
    assert opt.state.elimination.number == 1


def test_a_batch_without_any_result_eliminates_nothing():
    problem = Problem(0, n_arms=60)
    opt = ma.Optimizer(problem.pool, policy_for(problem, 100), max_failures=None)
    opt.tell(opt.ask(), failed=True)
    opt.ask()
    assert len(opt.state.elimination.active) == 60


def test_the_active_set_is_saved(tmp_path):
    problem = Problem(1, n_arms=80)
    opt = ma.Optimizer(problem.pool, policy_for(problem, 150, width=1.0), seed=2)
    for _ in range(2):
        answered(problem, opt, opt.ask())
    part = opt.ask(at_most=10)
    opt.save(tmp_path / "run.npz")
    again = ma.Optimizer.load(tmp_path / "run.npz")
    np.testing.assert_array_equal(again.state.elimination.active, opt.state.elimination.active)
    assert len(again.state.elimination.active) < 80
    for run in (opt, again):
        answered(problem, run, part)
    for _ in range(2):
        batches = [run.ask() for run in (opt, again)]
        assert batches[0].arms.tolist() == batches[1].arms.tolist()
        for run, batch in zip((opt, again), batches, strict=True):
            answered(problem, run, batch)
    with pytest.raises(CheckpointError, match="compact"):
        opt.compact()


def test_added_arms_are_active():
    problem = Problem(1, n_arms=80)
    opt = ma.Optimizer(problem.pool, policy_for(problem, 150))
    for _ in range(2):
        answered(problem, opt, opt.ask())
    opt.ask(at_most=1)
    assert 80 not in opt.state.elimination.active
    opt.add_arms(np.full((2, 2), 9.0))
    assert opt.state.elimination.active[-2:].tolist() == [80, 81]
    assert set(opt.ask(at_most=5)) & {80, 81}  # nothing is known there


def test_maximize_runs_the_batches():
    problem = Problem(2, n_arms=80)
    noise = iter(problem._noise)
    result = ma.maximize(
        lambda arm: problem.truth[arm.index] + 0.1 * next(noise), problem.pool, 150, policy_for(problem, 150)
    )
    assert len(result.optimizer.trace) == len(batch_lengths(150)) == 4
    assert problem.truth.max() - problem.truth[result.best.arm] < 0.1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": "auto", "noise_std": None, "ridge": None}, "kernel"),
        ({"horizon": 1}, "horizon"),
        ({"horizon": 2.5}, "horizon"),
        ({"width": "bkb"}, "width"),
        ({"norm_bound": "double"}, "norm_bound"),
    ],
)
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(InvalidParameterError, match=message):
        ma.BPE(**{"horizon": 100, "kernel": ma.RBF(1.0), **changes})


def test_a_budget_beyond_the_horizon_is_refused_before_the_first_trial():
    """It was refused after the last batch, and `maximize` lost all results."""
    problem, tried = Problem(2, n_arms=80), []
    policy = policy_for(problem, 100)
    with pytest.raises(InvalidParameterError, match="budget must be at most 100, the horizon"):
        ma.maximize(lambda arm: tried.append(arm) or 0.0, problem.pool, 101, policy)
    assert not tried
    opt = ma.Optimizer(problem.pool, policy, budget=100)
    with pytest.raises(InvalidParameterError, match="budget must be at most 100, the horizon"):
        opt.budget = 200
    assert opt.budget == 100


def test_widths():
    """F + ξ√((2/λ) log(2B|X|/δ)), and √2 F more for the sketch, on √λσ̃."""
    given = {"horizon": 1000, "kernel": ma.RBF(1.0), "noise_std": 0.1, "norm_bound": 2.0, "delta": 0.01}
    printed = 2.0 + math.sqrt(2 * math.log(2 * 4 * 500 / 0.01))
    assert ma.BPE(width="printed", **given).trim_width(500) == pytest.approx(0.1 * printed)
    assert ma.BPE(**given).trim_width(500) == pytest.approx(0.1 * (printed + 2 * math.sqrt(2)))
    assert ma.BPE(width=3.0, **given).trim_width(500) == pytest.approx(0.3)
