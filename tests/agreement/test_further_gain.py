"""The expected gain of measurements against a plain simulation with dense matrices; units and sign."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import BudgetSpentError, InvalidParameterError, NoResultsError, NothingToAskError
from manyarms.run import further_gain
from tests.runs import Problem

NOISE = 0.1
ALPHA = 1e-4  # of each comparison of a simulation with the estimate; the seeds are fixed


def run_of(problem: Problem, pulls: int, **settings) -> ma.Optimizer:
    policy = ma.GPUCB(kernel=problem.kernel, noise_std=NOISE, width=2.0)
    opt = ma.Optimizer(problem.pool, policy, seed=problem.seed, **settings)
    problem.run(opt, pulls)
    return opt


def dense(opt: ma.Optimizer) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of every arm, by the textbook formulas."""
    X, history = opt.pool.features, opt.history
    rows = np.repeat(history.arms, history.counts.astype(int))
    averages = np.repeat(history.sums / history.counts, history.counts.astype(int))
    K = opt.policy.kernel.matrix(X, X)
    solved = np.linalg.solve(K[np.ix_(rows, rows)] + NOISE**2 * np.eye(len(rows)), K[rows])
    return solved.T @ averages, K - K[rows].T @ solved


def simulated(opt: ma.Optimizer, waiting: list[int], new: list[int], n: int = 20_000) -> np.ndarray:
    """The gain in n draws: draw f and all results, condition on them, and compare two recommendations."""
    mean, covariance = dense(opt)
    rng = np.random.default_rng(5)
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(mean)))
    f = mean + rng.standard_normal((n, len(mean))) @ root.T
    known = np.unique(opt.history.arms)

    def recommended(pulls: list[int], results: np.ndarray) -> np.ndarray:
        between = covariance[np.ix_(pulls, pulls)] + NOISE**2 * np.eye(len(pulls))
        after = mean + (results - mean[pulls]) @ np.linalg.solve(between, covariance[pulls])
        among = np.union1d(known, pulls).astype(int)
        return among[np.argmax(after[:, among], axis=1)]

    pulls = [*waiting, *new]
    results = f[:, pulls] + NOISE * rng.standard_normal((n, len(pulls)))
    then, each = recommended(pulls, results), np.arange(n)
    before = recommended(waiting, results[:, : len(waiting)]) if waiting else np.full(n, opt.best().arm)
    return f[each, then] - f[each, before]


def agree(gain: ma.ExpectedGain, draws: np.ndarray) -> bool:
    """Whether the difference of two estimates is what chance explains, by a two-sided test."""
    from scipy.stats import norm

    error = np.hypot(gain.std_error, draws.std() / np.sqrt(len(draws)))
    return bool(abs(gain.gain - draws.mean()) <= norm.ppf(1 - ALPHA / 2) * error)


@pytest.mark.parametrize(("seed", "n"), [(0, 1), (1, 6), (2, 15)])
def test_it_is_what_a_plain_simulation_finds(seed, n):
    opt = run_of(Problem(seed, n_arms=60), 12)
    found = opt.expected_gain(n)
    batch = ma.Optimizer.of(opt.context, opt.state).ask(n).arms.tolist()
    draws = simulated(opt, [], batch)
    assert found.measurements == n
    assert found.gain > 3 * found.std_error
    assert agree(found, draws), (found, draws.mean())
    assert not agree(found, 1.5 * draws), "the comparison could not fail"


def test_pending_pulls_are_measured_in_any_case():
    opt = run_of(Problem(3, n_arms=60), 10)
    waiting = opt.ask(8).arms.tolist()
    found = opt.expected_gain(4)
    batch = ma.Optimizer.of(opt.context, opt.state).ask(4).arms.tolist()
    assert agree(found, simulated(opt, waiting, batch))
    alone = simulated(opt, [], batch)
    assert alone.mean() > found.gain + 3 * found.std_error, "the test would not notice what is pending"


def test_an_arm_of_a_batch_may_be_measured_several_times():
    opt = run_of(Problem(4, n_arms=60), 50)
    batch = ma.Optimizer.of(opt.context, opt.state).ask(12).arms.tolist()
    assert len(set(batch)) < 12
    assert agree(opt.expected_gain(12), simulated(opt, [], batch))


def test_nothing_changes_and_the_answer_is_repeated():
    opt = run_of(Problem(5, n_arms=60), 10)
    before, state = repr(opt), opt.state
    first = opt.expected_gain(5)
    assert opt.expected_gain(5) == first
    assert (repr(opt), opt.state) == (before, state)
    assert opt.expected_gain().measurements == len(opt.ask())


def test_minimising_and_units_change_only_the_scale():
    """The same rewards with the other sign and in other units: the same gain, in these units."""
    problem = Problem(6, n_arms=80)
    rng = np.random.default_rng(1)
    arms = rng.choice(80, 30, replace=False)
    rewards = problem.truth[arms] + 0.05 * rng.standard_normal(30)
    found = []
    for scale, minimize in ((1.0, False), (-1000.0, True)):
        opt = ma.Optimizer(problem.pool, seed=0, minimize=minimize)
        opt.tell(arms=arms, rewards=scale * rewards)
        found.append(opt.expected_gain(8))
    assert found[1].gain == pytest.approx(1000 * found[0].gain, rel=1e-6)
    assert found[1].std_error == pytest.approx(1000 * found[0].std_error, rel=1e-6)


def test_the_mean_of_a_transformed_normal_variable():
    """Equally likely values stand for the variable: close to the mean of many draws of an exponential."""
    problem = Problem(7, n_arms=80)
    arms = np.arange(40)
    opt = ma.Optimizer(problem.pool, seed=0)
    opt.tell(arms=arms, rewards=np.exp(4 * problem.truth[arms]))
    belief = opt._looked_ahead().belief
    mean, std = np.array([0.3, -0.5]), np.array([0.2, 0.1])
    draws = belief.model.transform.inverse(
        belief.model.mean + mean + std * np.random.default_rng(0).standard_normal((200_000, 2))
    ).mean(axis=0)
    assert further_gain._expected_reward(belief, mean, std) == pytest.approx(draws, rel=0.01)
    bent = belief.model.transform.inverse(belief.model.mean + mean)
    assert not np.allclose(bent, draws, rtol=1e-3), "the rewards are not bent, so this shows nothing"


def test_refusals():
    problem = Problem(8, n_arms=30)
    empty = ma.Optimizer(problem.pool, seed=0)
    with pytest.raises(NoResultsError, match="no result has been recorded"):
        empty.expected_gain(3)
    opt = run_of(problem, 10, budget=14, repeats="forbid")
    for n, error in ((0, InvalidParameterError), (2.5, InvalidParameterError), (5, BudgetSpentError)):
        with pytest.raises(error):
            opt.expected_gain(n)
    opt.budget = None
    with pytest.raises(InvalidParameterError, match="at most 1000"):
        opt.expected_gain(1001)
    with pytest.raises(NothingToAskError):
        opt.expected_gain(21)
    box = ma.Optimizer(ma.Box([0.0], [1.0]), seed=0)
    with pytest.raises(InvalidParameterError, match="a pool"):
        box.expected_gain(3)


@pytest.mark.parametrize("shards", [1, 3])
def test_shards_change_nothing(shards):
    rng = np.random.default_rng(0)
    features = rng.uniform(size=(5_000, 2))
    opt = ma.Optimizer(ma.Pool(features), seed=1, engine=ma.engines.Local(shards=shards))
    opt.tell(arms=np.arange(40), rewards=np.sin(6 * features[:40, 0]))
    alone = ma.Optimizer(ma.Pool(features), seed=1)
    alone.tell(arms=np.arange(40), rewards=np.sin(6 * features[:40, 0]))
    assert opt.expected_gain(8) == alone.expected_gain(8)
