"""Costs: lazy choice equals eager choice, and limits agree with an enumeration of all batches."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

import manyarms as ma
from manyarms.choice import lazy_argmax
from manyarms.engines import Local
from manyarms.errors import CostLimitError
from manyarms.pool.allowance import Allowance
from manyarms.pool.costs import CostLimit
from tests.runs import Problem


def costs_of(problem: Problem, seed: int = 0) -> np.ndarray:
    costs = np.random.default_rng(seed).lognormal(0.0, 1.0, problem.pool.n_arms)
    half = problem.pool.n_arms // 2
    costs[half : half + 5] = costs[:5]  # equal rows with equal costs, and with different ones
    return costs


@pytest.mark.parametrize("budget", [None, 60.0])
@pytest.mark.parametrize("seed", range(6))
def test_lazy_equals_eager_by_value_per_cost(seed, budget):
    problem = Problem(seed)
    costs = ma.Costs(costs_of(problem), budget=budget, per_cost=True)
    policy = ma.BBKB(**problem.settings(batch_ratio=3.0, local=seed % 3 == 0))
    runs = [ma.Optimizer(problem.pool, policy, seed=seed, lazy=lazy, costs=costs) for lazy in (True, False)]
    picked = []
    for run in runs:
        arms = problem.run(run, 25)
        arms += run.ask(6).arms.tolist() + run.ask(5).arms.tolist()  # with pending pulls
        picked.append(arms)
    assert picked[0] == picked[1]


@pytest.mark.parametrize("per_cost", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_lazy_equals_eager_where_the_money_is_short(seed, per_cost):
    problem = Problem(seed)
    values = costs_of(problem)
    policy = ma.BBKB(**problem.settings(batch_ratio=50.0))
    picked = []
    for lazy in (True, False):
        costs = ma.Costs(values, budget=40.0, per_cost=per_cost)
        run = ma.Optimizer(problem.pool, policy, seed=seed, lazy=lazy, costs=costs, repeats="forbid")
        batch = run.ask(5)
        run.tell(batch, problem.rewards(batch))
        batch = run.ask(12, max_cost=14.0)
        assert values[batch.arms].sum() <= 14.0 + 1e-9
        run.tell(batch, problem.rewards(batch))
        rest = run.ask()
        assert rest.ended_because == "cost limit"
        assert run.cost_spent <= 40.0 + 1e-9
        left = np.setdiff1d(np.arange(len(values)), run.history.arms)
        left = np.setdiff1d(left, rest.arms)
        assert values[left].min() > 40.0 - run.cost_spent, "a candidate that fits was left out"
        picked.append([*batch.arms.tolist(), *rest.arms.tolist()])
    assert picked[0] == picked[1]


@pytest.mark.parametrize("storage", [np.float64, np.float32])
@pytest.mark.parametrize("most", [20, 3])
def test_a_contest_with_few_tracked_arms_has_the_same_winners(most, storage, monkeypatch):
    monkeypatch.setattr(lazy_argmax, "MOST_WATCHED", most)
    for seed in range(3):
        problem = Problem(seed, n_arms=200)
        costs = ma.Costs(costs_of(problem), per_cost=True)
        policy = ma.BBKB(**problem.settings(batch_ratio=3.0))
        picked = []
        for lazy in (False, True):
            run = ma.Optimizer(problem.pool, policy, seed=seed, storage=storage, lazy=lazy, costs=costs)
            picked.append(problem.run(run, 20) + run.ask(20).arms.tolist())
        assert picked[0] == picked[1], f"seed {seed}"


def test_the_arms_do_not_depend_on_the_number_of_shards():
    rng = np.random.default_rng(0)
    features = rng.random((40_000, 2))
    values, costs = np.sin(5 * features).sum(1), ma.Costs(rng.uniform(1, 9, 40_000), per_cost=True)
    picked = []
    for shards in (1, 3):
        policy = ma.BBKB(kernel=ma.RBF(0.3), noise_std=0.1, width=2.0)
        run = ma.Optimizer(ma.Pool(features), policy, costs=costs, engine=Local(shards=shards, threads=2))
        run.tell(arms=np.arange(30), rewards=values[:30])
        picked.append(run.ask(10).arms.tolist())
    assert picked[0] == picked[1]


def test_every_pick_has_the_highest_expected_improvement_per_cost():
    problem = Problem(3, n_arms=80)
    values, power = costs_of(problem), 0.7
    costs = ma.Costs(values, per_cost=True, power=power)
    opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings(batch_ratio=4.0)), seed=1, costs=costs)
    told = np.arange(0, 80, 3)
    opt.tell(arms=told, rewards=problem.truth[told])
    checked = 0
    while checked < 40:
        batch = opt.ask()
        assert set(batch.why) == {"gain per cost"}
        state = opt.posterior.state
        Z = opt.posterior.rows(range(80))
        V = (Z[state.arms].T * state.counts) @ Z[state.arms] + 0.2 * np.eye(state.sketch_size)
        K = problem.kernel.matrix(problem.pool.features, problem.pool.features)
        C = K - Z @ Z.T + 0.2 * Z @ np.linalg.solve(V, Z.T)
        best = state.mean[state.arms].max()
        for arm in batch.arms:
            std = np.sqrt(np.maximum(np.diag(C), 1e-300))
            z = (state.mean - best) / std
            gain = std * (z * norm.cdf(z) + norm.pdf(z)) / values**power
            assert gain[arm] >= gain.max() * (1 - 1e-6), (arm, gain[arm], gain.max())
            C = C - np.outer(C[:, arm], C[arm]) / (0.2 + C[arm, arm])
            checked += 1
        opt.tell(batch, problem.rewards(batch))


def test_the_choice_is_the_same_after_a_constant_is_added_and_in_other_units():
    problem = Problem(5)
    told = np.arange(0, 300, 10)
    picked = []
    for shift, unit in ((0.0, 1.0), (0.0, 250.0)):
        costs = ma.Costs(costs_of(problem) * unit, per_cost=True)
        run = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings(width=2.0)), costs=costs)
        run.tell(arms=told, rewards=problem.truth[told] + shift)
        picked.append(run.ask(8).arms.tolist())
    assert picked[0] == picked[1], "the unit of the costs does not matter"
    learned = []
    for shift in (0.0, 1000.0):
        run = ma.Optimizer(problem.pool, costs=ma.Costs(costs_of(problem), per_cost=True))
        run.tell(arms=told, rewards=problem.truth[told] + shift)
        learned.append(run.ask(8).arms.tolist())
    assert learned[0] == learned[1], "a constant that is added to all rewards does not matter"


@pytest.mark.parametrize("times", [1.0, 2.0, math.inf])
def test_an_arm_is_confirmed_exactly_if_a_batch_with_it_fits(times, rng):
    """Against all batches of the size, for limits from too little to plenty."""
    seen = set()
    for _ in range(150):
        n_arms, n = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        costs = rng.integers(1, 8, n_arms).astype(float)
        pulls = [arm for arm in range(n_arms) for _ in range(int(min(times, n)))]
        batches = {tuple(sorted(each)) for each in combinations(pulls, n)}
        most = float(rng.integers(1, 8 * n))
        limit = CostLimit(costs, most, "", most, of_budget=False)
        allowance = Allowance(n_arms, times, needed=n, cost_limit=limit)
        fitting = [each for each in batches if costs[list(each)].sum() <= most]
        assert allowance.allows(n) == bool(fitting)
        if batches:
            assert allowance.cheapest_total(n) == min(costs[list(each)].sum() for each in batches)
        chosen: list[int] = []
        while fitting and len(chosen) < n:
            possible = set()
            for arm in range(n_arms):
                here = allowance.copy()
                longer = sorted([*chosen, arm])
                if here[arm] > 0 and here.confirms(arm):
                    possible.add(arm)
                exact = any(_contains(each, longer) for each in fitting)
                assert (arm in possible) == exact, (costs, most, n, chosen, arm)
                seen.add(exact)
            arm = int(rng.choice(sorted(possible)))
            allowance.take([arm])
            chosen.append(arm)
    assert seen == {True, False}


def _contains(batch: tuple[int, ...], part: list[int]) -> bool:
    left = list(batch)
    for arm in part:
        if arm not in left:
            return False
        left.remove(arm)
    return True


POLICIES = [
    ma.BKB(kernel=ma.RBF(0.5), noise_std=0.1, width=2.0),
    ma.BBKB(kernel=ma.RBF(0.5), noise_std=0.1, width=2.0),
    ma.GPBUCB(kernel=ma.RBF(0.5), noise_std=0.1, width=2.0, initial_pulls=12),
    ma.MiniGPUCB(kernel=ma.RBF(0.5), noise_std=0.1, width=2.0),
    ma.EpsGreedy(kernel=ma.RBF(0.5), noise_std=0.1),
    ma.SGPTS(kernel=ma.RBF(0.5), noise_std=0.1, width=1.0),
    ma.SGPTS(kernel=ma.RBF(0.5), noise_std=0.1, width=1.0, batch_size=4, distinct=True),
    ma.BPE(horizon=200, kernel=ma.RBF(0.5), noise_std=0.1, width=2.0),
    ma.BBKB(),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize("repeats", ["allow", "forbid", "fresh"])
@pytest.mark.parametrize("n", [3, 24])
def test_no_policy_exceeds_the_limit_and_every_exact_batch_is_complete(policy, repeats, n):
    rng = np.random.default_rng(7)
    features, values = rng.uniform(size=(60, 2)), rng.uniform(1, 10, 60)
    run = ma.Optimizer(ma.Pool(features), policy, seed=3, repeats=repeats, costs=ma.Costs(values))
    told = rng.choice(60, 8, replace=False)
    run.tell(arms=told, rewards=np.sin(6 * features[told, 0]))
    again = repeats == "allow"
    others = values if again else np.delete(values, told)
    cheapest = n * values.min() if again else np.sort(others)[:n].sum()
    with pytest.raises(CostLimitError, match=f"at least {cheapest * 1.0:.6g} together"):
        run.ask(n, max_cost=cheapest * 0.999)
    for factor in (1.0, 1.3):
        batch = run.ask(n, max_cost=cheapest * factor)
        assert len(batch) == n
        assert values[batch.arms].sum() <= cheapest * factor * (1 + 1e-9)
        assert np.array_equal(batch.costs, values[batch.arms])
        run.forget(batch)
    batch = run.ask(at_most=n, max_cost=2.5)
    assert values[batch.arms].sum() <= 2.5
    assert run.cost_spent == pytest.approx(values[batch.arms].sum())
