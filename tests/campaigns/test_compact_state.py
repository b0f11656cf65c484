"""A run without its pool: small, restored alike every time, and the same model as before."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms import errors
from manyarms.run.compact_state import CompactState
from manyarms.run.context import RunContext
from manyarms.run.feedback import with_feedback
from manyarms.run.telling import told
from tests.runs import Problem

POLICIES = {
    "bbkb": lambda p: ma.BBKB(**p.settings()),
    "bkb incremental": lambda p: ma.BKB(**p.settings(inducing="incremental", norm_bound="double")),
    "eps-greedy": lambda p: ma.EpsGreedy(**p.settings()),
    "thompson": lambda p: ma.SGPTS(**p.settings(prior_size=200)),
    "fourier features": lambda p: ma.RFFTS(**p.settings()),
}


def half_told(problem, policy, **settings):
    opt = ma.Optimizer(problem.pool, policy, seed=3, **settings)
    problem.run(opt, 60)
    batch = opt.ask(9)
    rewards = problem.rewards(batch)
    opt.tell(batch.tickets[:4], rewards[:4])
    opt.forget(batch.tickets[4:5])
    return opt, batch.tickets[5:], rewards[5:]


def restored(data, pool, policy, seed=3):
    """A run from its bytes."""
    context = RunContext.checked(pool, policy, seed)
    return ma.Optimizer.of(context, CompactState.from_bytes(data).on(context))


@pytest.mark.parametrize("name", POLICIES)
def test_restored_runs_are_alike_and_agree_with_the_original(name):
    problem = Problem(6)
    policy = POLICIES[name](problem)
    opt, late, rewards = half_told(problem, policy)
    data = opt.compact().to_bytes()
    first, second = (restored(data, problem.pool, policy) for _ in range(2))
    for run in (opt, first, second):
        run.tell(late, rewards)
    for expected, found in zip(opt.predict(), first.predict(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (first.pending, first.spent, first.history.pulls) == (opt.pending, opt.spent, opt.history.pulls)
    assert problem.run(first, 40) == problem.run(second, 40)
    for one, other in zip(first.predict(), second.predict(), strict=True):
        assert one.tolist() == other.tolist()


def test_the_bytes_do_not_grow_with_the_pool():
    sizes = []
    for n_arms in (300, 6000):
        problem = Problem(6, n_arms=n_arms)
        opt, _, _ = half_told(problem, ma.BBKB(**problem.settings()))
        sizes.append(len(opt.compact().to_bytes()))
    assert max(sizes) < 30_000, sizes


def test_another_policy_goes_on_with_the_same_past():
    problem = Problem(6)
    opt, _, _ = half_told(problem, ma.BBKB(**problem.settings()))
    other = ma.BBKB(**problem.settings(ridge=0.5, kernel=ma.Matern(0.4)))
    run = restored(opt.compact().to_bytes(), problem.pool, other)
    fresh = ma.Posterior(problem.pool, other.kernel, 0.5)
    state = opt.posterior.state
    fresh.rebuild(state.inducing, np.repeat(state.arms, state.counts.astype(int)), _spread(state))
    np.testing.assert_allclose(run.posterior.mean, fresh.mean, atol=1e-9)
    assert run.posterior.ridge == 0.5


def _spread(state):
    """Every pull of an arm with its average."""
    return np.repeat(state.sums / state.counts, state.counts.astype(int))


def test_what_was_learned_can_be_read_without_the_pool():
    problem = Problem(6)
    opt, _, _ = half_told(problem, None)
    assert opt.model.n_pulls > 10
    assert CompactState.from_bytes(opt.compact().to_bytes()).model == opt.model
    given, _, _ = half_told(problem, ma.BBKB(**problem.settings()))
    assert CompactState.from_bytes(given.compact().to_bytes()).model is None


def test_a_restored_run_can_be_saved_whole_and_loaded(tmp_path):
    problem = Problem(6)
    policy = ma.BBKB(**problem.settings())
    opt, late, rewards = half_told(problem, policy)
    run = restored(opt.compact().to_bytes(), problem.pool, policy)
    problem.run(run, 10)
    run.save(tmp_path / "run.npz")
    again = ma.Optimizer.load(tmp_path / "run.npz")
    for each in (run, again):
        each.tell(late, rewards)
    assert problem.run(again, 20) == problem.run(run, 20)


def test_another_pool_and_damage_are_refused():
    problem = Problem(6)
    policy = ma.BBKB(**problem.settings())
    opt, _, _ = half_told(problem, policy)
    data = opt.compact().to_bytes()
    with pytest.raises(errors.CheckpointError, match="shape"):
        restored(data, Problem(6, n_arms=299).pool, policy)
    for broken in (b"", b"hello", data[: len(data) // 2]):
        with pytest.raises(errors.CheckpointError):
            CompactState.from_bytes(broken)


@pytest.mark.parametrize("n_told", [5, 400])
def test_learning_on_the_arms_pulled_is_learning_on_the_whole_pool(n_told):
    """The same sketch, the same model up to rounding, and the same record of pending tickets."""
    problem = Problem(6)
    policy = ma.BBKB(**problem.settings())
    opt, _, _ = half_told(problem, policy)
    arms = np.random.default_rng(0).integers(0, 300, n_told)
    saved = CompactState.from_bytes(opt.compact().to_bytes())
    whole = RunContext.checked(problem.pool, policy, 3)
    small, kept = saved.restricted(arms)
    few = RunContext.checked(ma.Pool(problem.pool.features[kept]), policy, 3)
    state = told(few, small.on(few), arms=np.searchsorted(kept, arms), rewards=problem.truth[arms])
    learned = CompactState.of(few, with_feedback(few, state)).expanded(kept, 300)
    found = ma.Optimizer.of(whole, learned.on(whole))
    opt.tell(arms=arms, rewards=problem.truth[arms])
    expected = with_feedback(opt.context, opt.state).belief.posterior
    assert set(found.posterior.inducing.tolist()) == set(expected.inducing.tolist())
    np.testing.assert_allclose(found.posterior.mean, expected.mean, atol=1e-7)
    np.testing.assert_allclose(found.posterior.variance, expected.variance, atol=1e-7)
    assert (found.pending, found.spent) == (opt.pending, opt.spent)
    assert dict(zip(found.history.arms, found.history.counts, strict=True)) == dict(
        zip(opt.history.arms, opt.history.counts, strict=True)
    )
