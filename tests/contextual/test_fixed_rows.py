"""If every round brings the same rows, the bandit chooses what the optimizer chooses on that pool."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import manyarms as ma
from tests.runs import Problem

KERNEL = ma.RBF(0.3)
EVERY_ARM = {"kernel": KERNEL, "oversampling": 1e6}  # every pulled arm is inducing
POLICIES = {
    "GPUCB": ma.GPUCB(kernel=KERNEL),
    "BKB": ma.BKB(**EVERY_ARM),
    "BKB by number": ma.BKB(width=2.0, **EVERY_ARM),
    "BKB theory": ma.BKB(kernel=KERNEL, oversampling="theory", width="bkb"),
    "BKB q = 2": ma.BKB(kernel=KERNEL, width=2.0),
    "BKB union": ma.BKB(kernel=KERNEL, width=2.0, inducing="union"),
    "BKB double": ma.BKB(norm_bound="double", **EVERY_ARM),
    "BBKB": ma.BBKB(**EVERY_ARM),
    "BBKB by number": ma.BBKB(width=2.0, **EVERY_ARM),
    "BBKB authors": ma.BBKB(width="authors", batch_ratio=4.0, **EVERY_ARM),
    "GPBUCB": ma.GPBUCB(kernel=KERNEL),
    "GPBUCB gain": ma.GPBUCB(kernel=KERNEL, stop="information"),
    "GPBUCB fixed": ma.GPBUCB(kernel=KERNEL, stop="fixed", batch_size=5),
    "EpsGreedy": ma.EpsGreedy(kernel=KERNEL),
    "OFUL": ma.OFUL(),
    "OFUL bias": ma.OFUL(kernel=ma.Linear(bias=0.5)),
    "SOFUL": ma.SOFUL(size=2),
    "CBRAP": ma.CBRAP(size=1),
}


def pool_choices(problem: Problem, policy: ma.Policy, pulls: int, delay: int = 0) -> list[int]:
    opt, arms, out = ma.Optimizer(problem.pool, policy, seed=3), [], []
    while len(arms) < pulls:
        batch = opt.ask()
        for arm, ticket in zip(batch.arms.tolist(), batch.tickets.tolist(), strict=True):
            arms.append(arm)
            out.append((ticket, arm))
            if len(out) > delay:
                ticket_due, arm_due = out.pop(late(len(arms), len(out)))
                opt.tell([ticket_due], [reward(problem, ticket_due, arm_due)])
    return arms[:pulls]


def bandit_choices(problem: Problem, policy: ma.Policy, pulls: int, delay: int = 0) -> list[int]:
    bandit, arms, out = ma.ContextualBandit(policy, seed=3), [], []
    for _ in range(pulls):
        pick = bandit.ask(problem.pool.features)
        arms.append(pick.index)
        out.append((pick.ticket, pick.index))
        if len(out) > delay:
            ticket, arm = out.pop(late(len(arms), len(out)))
            bandit.tell(ticket, reward(problem, ticket, arm))
    return arms


def late(turn: int, n: int) -> int:
    """Which of n results comes next: not in the order of the tickets, and the same for both."""
    return (7 * turn) % n


def reward(problem: Problem, ticket: int, arm: int) -> float:
    return float(problem.truth[arm] + problem.noise_std * problem._noise[ticket])


@pytest.mark.parametrize("name", POLICIES)
def test_same_arms_as_the_pool(name):
    problem, policy = Problem(0, n_arms=60), POLICIES[name]
    assert bandit_choices(problem, policy, 120) == pool_choices(problem, policy, 120)


@pytest.mark.parametrize("name", ["GPUCB", "BKB", "BKB by number", "OFUL", "SOFUL", "CBRAP", "EpsGreedy"])
def test_same_arms_as_the_pool_with_late_rewards(name):
    """Rewards come 7 pulls late and out of order."""
    problem = Problem(1, n_arms=60)
    policy = POLICIES[name]
    assert bandit_choices(problem, policy, 120, delay=7) == pool_choices(problem, policy, 120, delay=7)


@pytest.mark.parametrize(
    "policy",
    [
        ma.SGPTS(kernel=KERNEL, noise_std=0.5, width=1.0, prior_map="joint"),
        pytest.param(ma.GPTS(kernel=KERNEL, noise_std=0.5, width=1.0), marks=pytest.mark.slow),
    ],
)
def test_thompson_choices_have_the_distribution_of_the_pool(policy):
    """The arm of a draw after 15 results, 400 seeds each: a two-sample χ² test at α = 0.001."""
    pool = ma.Pool(np.random.default_rng(2).random((8, 2)))
    counts, start = np.zeros((2, 8)), np.arange(15) % 8
    rewards = np.random.default_rng(3).normal(size=15)
    for seed in range(400):
        opt = ma.Optimizer(pool, policy, seed=seed)
        opt.tell(arms=start, rewards=rewards)
        bandit = ma.ContextualBandit(policy, seed=seed)
        bandit.tell(rows=pool.features[start], rewards=rewards)
        counts[0, opt.ask().arms[0]] += 1
        counts[1, bandit.ask(pool.features).index] += 1
    seen = counts[:, counts.sum(axis=0) >= 10]
    rest = counts.sum(axis=1, keepdims=True) - seen.sum(axis=1, keepdims=True)
    table = np.hstack([seen, rest]) if rest.sum() >= 10 else seen
    assert table.shape[1] > 2
    assert stats.chi2_contingency(table).pvalue > 0.001, counts
