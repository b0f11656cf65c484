"""Lazy arm choice gives exactly the eager sequence of arms, and both are the true argmax."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.choice import lazy_argmax
from manyarms.support.column_store import Columns
from tests.runs import Problem

KERNELS = {"rbf": ma.RBF(0.3), "matern": ma.Matern(0.5, nu=1.5), "linear": ma.Linear(bias=0.5)}


@pytest.mark.parametrize(
    "name", ["rbf", *(pytest.param(n, marks=pytest.mark.slow) for n in list(KERNELS)[1:])]
)
def test_lazy_equals_eager_arm_for_arm(name):
    for seed in range(20):
        problem = Problem(seed, kernel=KERNELS[name])
        policy = ma.BBKB(**problem.settings(batch_ratio=3.0, local=seed % 3 == 0))
        lazy, eager = (ma.Optimizer(problem.pool, policy, seed=seed, lazy=flag) for flag in (True, False))
        assert problem.run(lazy, 120) == problem.run(eager, 120), f"seed {seed}"


@pytest.mark.parametrize("seed", range(5))
def test_lazy_equals_eager_for_batches_limits_and_pending_pulls(seed):
    problem = Problem(seed)
    policy = ma.BBKB(**problem.settings())
    runs = [ma.Optimizer(problem.pool, policy, seed=seed, lazy=flag, repeats=3) for flag in (True, False)]
    for opt in runs:
        problem.run(opt, 30)
    outstanding = [opt.ask(8) for opt in runs]
    assert outstanding[0].arms.tolist() == outstanding[1].arms.tolist()
    second = [opt.ask(12) for opt in runs]  # with eight results out
    assert second[0].arms.tolist() == second[1].arms.tolist()
    assert second[0].ratio == pytest.approx(second[1].ratio)
    for opt, first, then in zip(runs, outstanding, second, strict=True):
        opt.tell(then, problem.rewards(then))
        opt.tell(first, problem.rewards(first))
    assert problem.run(runs[0], 40) == problem.run(runs[1], 40)


def test_every_pick_of_a_batch_is_the_argmax_of_a_dense_recomputation():
    problem = Problem(3, n_arms=80)
    opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings(batch_ratio=4.0)), seed=1)
    problem.run(opt, 40)
    checked = 0
    while checked < 60:
        batch = opt.ask()
        state, width = opt.posterior.state, opt.trace[-1].width
        Z = opt.posterior.rows(range(80))
        V = (Z[state.arms].T * state.counts) @ Z[state.arms] + 0.2 * np.eye(state.sketch_size)
        K = problem.kernel.matrix(problem.pool.features, problem.pool.features)
        C = (K - Z @ Z.T) / 0.2 + Z @ np.linalg.solve(V, Z.T)
        for arm in batch.arms:
            leverage = np.maximum(np.diag(C), 0.0)
            bounds = state.mean + width * np.sqrt(leverage)
            assert bounds[arm] >= bounds.max() - 1e-9, (arm, bounds[arm], bounds.max())
            assert arm == np.flatnonzero(bounds >= bounds.max() - 1e-10)[0], "ties go to the lowest index"
            C = C - np.outer(C[:, arm], C[arm]) / (1.0 + C[arm, arm])
            checked += 1
        opt.tell(batch, problem.rewards(batch))


def test_a_run_of_repeats_costs_no_pass_over_the_pool():
    problem = Problem(0)
    opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings(batch_ratio=1e9)), seed=0)
    problem.run(opt, 20)
    passes = []
    columns = Columns
    original = columns.product
    columns.product = lambda self, forms, row: passes.append(forms.shape) or original(self, forms, row)
    try:
        opt.ask(at_most=1)  # takes the feedback in
        opt.forget(opt.pending.keys())
        passes.clear()
        batch = opt.ask(at_most=300)
    finally:
        columns.product = original
    assert len(batch) == 300
    assert passes == [], "a batch on fresh feedback reads no column of the whole pool"


@pytest.mark.parametrize("storage", [np.float64, np.float32])
@pytest.mark.parametrize(("most", "equal_rows"), [(100, True), (20, False), (3, False)])
def test_a_contest_with_few_tracked_arms_has_the_same_winners(most, equal_rows, storage, monkeypatch):
    """The shards take over when too many arms would be tracked; with 3 arms, they choose every one."""
    monkeypatch.setattr(lazy_argmax, "MOST_WATCHED", most)
    counted = []
    again = lazy_argmax.LazyArgmax._begin_again
    monkeypatch.setattr(lazy_argmax.LazyArgmax, "_begin_again", lambda self: counted.append(again(self)))
    for seed in range(3):
        problem = Problem(seed, n_arms=200)
        if equal_rows:
            problem.pool = ma.Pool(np.concatenate([problem.pool.features[:100]] * 2))
        policy = ma.BBKB(**problem.settings(batch_ratio=3.0, local=seed % 2 == 0))
        runs = [
            ma.Optimizer(problem.pool, policy, seed=seed, storage=storage, lazy=lazy)
            for lazy in (False, True)
        ]
        asked = [problem.run(opt, 30) + opt.ask(25).arms.tolist() for opt in runs]
        assert asked[0] == asked[1], f"seed {seed}"
    assert counted, "no contest had too many arms"
