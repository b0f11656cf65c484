"""GP-BUCB against an implementation of its own: dense matrices, no sketch, every arm at every pick."""

from __future__ import annotations

import math

import numpy as np
import pytest

import manyarms as ma
from tests.runs import Problem

RIDGE = 0.2
TIED = 1e-10
AT_MOST = 30  # later picks of a long batch differ by rounding errors only


class PlainGPBUCB:
    """The exact posterior recomputed from all results; variances conditioned on pending pulls one by one."""

    def __init__(self, problem: Problem, width: float) -> None:
        features = problem.pool.features
        self.K, self.width = problem.kernel.matrix(features, features), width
        self.at_most = math.inf
        self.arms: list[int] = []
        self.rewards: list[float] = []

    def batch(self, ends, pending=()) -> list[int]:
        """Arms until `ends(arm, variance at feedback, variance now)` says so; pending pulls count as made."""
        known = np.array(self.arms, dtype=int)
        noisy = self.K[np.ix_(known, known)] + RIDGE * np.eye(len(known))
        mean = self.K[:, known] @ np.linalg.solve(noisy, self.rewards)
        C = (self.K - self.K[:, known] @ np.linalg.solve(noisy, self.K[known])) / RIDGE
        feedback = np.diag(C).copy()
        for arm in pending:
            ends(arm, feedback[arm], C[arm, arm])
            C = C - np.outer(C[:, arm], C[arm]) / (1 + C[arm, arm])
        chosen: list[int] = []
        while True:
            bounds = mean + self.width * np.sqrt(RIDGE) * np.sqrt(np.maximum(np.diag(C), 0.0))
            arm = int(np.flatnonzero(bounds >= bounds.max() - TIED)[0])
            chosen.append(arm)
            if ends(arm, feedback[arm], C[arm, arm]) or len(chosen) == self.at_most:
                return chosen
            C = C - np.outer(C[:, arm], C[arm]) / (1 + C[arm, arm])


class Product:
    """Π(1 + σ²) > C̃, with variances at feedback or now."""

    def __init__(self, bound: float, now: bool) -> None:
        self.bound, self.now, self.product = bound, now, 1.0

    def __call__(self, arm: int, feedback: float, now: float) -> bool:
        self.product *= 1 + (now if self.now else feedback)
        return self.product > self.bound


class Size:
    def __init__(self, size: int) -> None:
        self.left = size

    def __call__(self, *_: object) -> bool:
        self.left -= 1
        return self.left == 0


RULES = {
    "product": lambda: Product(3.0, now=False),
    "information": lambda: Product(3.0, now=True),
    "fixed": lambda: Size(6),
}


@pytest.mark.parametrize("stop", RULES)
@pytest.mark.parametrize("seed", range(4))
def test_every_stopping_mode_is_the_plain_one_pick_for_pick(stop, seed):
    problem = Problem(seed, n_arms=250)
    policy = ma.GPBUCB(**problem.settings(stop=stop, batch_size=6, batch_ratio=3.0, width=2.0))
    opt, plain = ma.Optimizer(problem.pool, policy, seed=seed), PlainGPBUCB(problem, 2.0)
    plain.at_most, sizes = AT_MOST, set()
    for number in range(18):
        batch = opt.ask(at_most=AT_MOST)
        if number:
            assert batch.arms.tolist() == plain.batch(RULES[stop]()), f"batch {number}"
            sizes.add(len(batch))
        rewards = problem.rewards(batch)
        opt.tell(batch, rewards)
        plain.arms += batch.arms.tolist()
        plain.rewards += rewards.tolist()
    assert max(sizes) > 2


@pytest.mark.parametrize("policy", [ma.GPBUCB, ma.BBKB])
@pytest.mark.parametrize("seed", range(3))
def test_a_batch_of_a_given_size_and_asks_without_results_are_exact(seed, policy):
    """All pulled arms are inducing (for BBKB by a large q̄): eight asks without a result, then more."""
    problem = Problem(seed, n_arms=300)
    more = {} if policy is ma.GPBUCB else {"oversampling": 1e9}
    opt = ma.Optimizer(problem.pool, policy(**problem.settings(width=2.0, **more)), seed=seed)
    plain = PlainGPBUCB(problem, 2.0)
    first = opt.ask(5)
    rewards = problem.rewards(first)
    opt.tell(first, rewards)
    plain.arms, plain.rewards = first.arms.tolist(), rewards.tolist()
    pending: list[int] = []
    for size in (1, 3, 8, 1, 1, 20, 2, 12):
        batch = opt.ask(size)
        # pending pulls are hallucinated in the order of their arms; the result does not depend on it
        assert batch.arms.tolist() == plain.batch(Size(size + len(pending)), pending)
        pending += batch.arms.tolist()
    assert len(set(pending)) > 10, "a large batch spreads out"


def test_a_large_batch_with_a_given_kernel_spreads_out():
    """48 of 4 000 arms: through z alone, three different arms were chosen."""
    problem = Problem(0, n_arms=4000)
    opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings(width=2.0)), seed=0)
    problem.run(opt, 20)
    assert len(set(opt.ask(48).arms.tolist())) > 30
    other = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings(width=2.0)), seed=0)
    problem.run(other, 20)
    assert len({int(other.ask(1).arms[0]) for _ in range(8)}) >= 6


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2))])
def test_the_regret_of_six_batches_of_48_is_that_of_exact_gp_bucb(seed):
    """The pulls of both meet the same noise, without which two exact runs differ by more than a tenth."""
    problem = Problem(seed, n_arms=1000)
    exact, arms = PlainGPBUCB(problem, 2.0), []
    opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings(width=2.0)), seed=seed)
    first = opt.ask(48)
    opt.tell(first, problem.rewards(first))
    exact.arms, exact.rewards = first.arms.tolist(), problem.rewards(first).tolist()
    for _ in range(5):
        batch = opt.ask(48)
        rewards = problem.rewards(batch)
        opt.tell(batch, rewards)
        arms += batch.arms.tolist()
        chosen = exact.batch(Size(48))
        exact.arms += chosen
        exact.rewards += (problem.truth[chosen] + rewards - problem.truth[batch.arms]).tolist()
    regret, expected = (problem.regret(each)[-1] for each in (arms, exact.arms[48:]))
    assert regret <= 1.1 * expected, (regret, expected)


@pytest.mark.parametrize("seed", range(3))
def test_the_initialisation_is_uncertainty_sampling_in_one_batch(seed):
    """After the first arm, the arm of highest variance given all before, then upper bounds."""
    problem = Problem(seed, n_arms=120, n_features=3)
    policy = ma.GPBUCB(**problem.settings(ridge=RIDGE, width=2.0), initial_pulls=15)
    opt = ma.Optimizer(problem.pool, policy, seed=seed)
    first = opt.ask()
    opt.tell(first, problem.rewards(first))
    batch = opt.ask()
    features = problem.pool.features
    C = problem.kernel.matrix(features, features) / RIDGE
    chosen = [int(first.arms[0])]
    for _ in range(15):
        C = C - np.outer(C[:, chosen[-1]], C[chosen[-1]]) / (1 + C[chosen[-1], chosen[-1]])
        top = np.diag(C)
        chosen.append(int(np.flatnonzero(top >= top.max() * (1 - 1e-10))[0]))
    assert batch.arms.tolist() == chosen[1:15]
    assert batch.ended_because == "initialisation"
    assert set(batch.why) == {"highest variance"}
    opt.tell(batch, problem.rewards(batch))
    assert set(opt.ask().why) == {"upper bound"}


def test_an_initialisation_keeps_to_sizes_and_limits():
    problem = Problem(5, n_arms=50)
    settings = problem.settings(ridge=RIDGE, width=2.0)
    opt = ma.Optimizer(problem.pool, ma.GPBUCB(**settings, initial_pulls=10), seed=5)
    problem.run(opt, 1)
    short = opt.ask(at_most=3)
    assert (len(short), short.ended_because) == (3, "limit")
    exact = opt.ask(9)
    assert exact.why == ("highest variance",) * 6 + ("upper bound",) * 3
    assert exact.ended_because == "size asked for"
    few = ma.Optimizer(problem.pool.first(4), ma.GPBUCB(**settings, initial_pulls=10), repeats="forbid")
    problem.run(few, 1)
    assert (len(few.ask()), few.trace[-1].ended_because) == (3, "no arm left")


def test_a_negative_initialisation_is_refused():
    with pytest.raises(ma.errors.InvalidParameterError, match="initial_pulls"):
        ma.GPBUCB(kernel=ma.RBF(), initial_pulls=-1)
