"""Half of a batch is drawn among clearly worse arms while the rest would repeat what is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

import manyarms as ma
from manyarms.choice.exploration import AMONG
from manyarms.choice.scouts import CLEARLY, WithScouts, below_plateau
from manyarms.choice.selection import BatchContext
from manyarms.learning.plateau import spread
from manyarms.pool.allowance import Allowance
from manyarms.posterior.hallucination import Hallucination
from manyarms.support.random_streams import RandomStreams

N_ARMS = 400
FEATURES = np.column_stack([np.arange(N_ARMS) % 2, np.random.default_rng(0).random((N_ARMS, 2))])
ON_PLATEAU = FEATURES[:, 0] == 0
ALIKE = 0.001 * np.random.default_rng(1).normal(size=N_ARMS)
TRUTH = np.where(ON_PLATEAU, ALIKE, -1.0 - FEATURES[:, 1:].sum(axis=1))


def started(truth: np.ndarray = TRUTH, policy: ma.Policy | None = None) -> ma.Optimizer:
    run = ma.Optimizer(ma.Pool(FEATURES), policy, seed=1, repeats="forbid")
    run.tell(arms=np.arange(40), rewards=truth[:40])
    return run


def fresh_round(run: ma.Optimizer, size: int, number: int = 0) -> BatchContext:
    allowed = np.ones(N_ARMS)
    allowed[run.history.arms] = 0
    streams = RandomStreams(5)
    return BatchContext(
        posterior=run.posterior,
        overlay=Hallucination(run.posterior),
        stopping_rule=run.policy.stopping_rule(),
        width=run.trace[-1].width,
        batch_ratio=np.inf,
        allowed=Allowance.of(allowed),
        limit=size,
        exactly=True,
        stream=lambda purpose: streams.at(purpose, number),
    )


def possible_scouts(run: ma.Optimizer) -> set[int]:
    """The tenth of the worse arms with the highest upper bounds, all of them computed."""
    ceiling = below_plateau(fresh_round(run, 10))
    assert ceiling is not None
    mean, reach = run.posterior.mean, run.trace[-1].width * np.sqrt(run.posterior.leverage)
    worse = [arm for arm in np.flatnonzero(mean < ceiling) if arm not in set(run.history.arms.tolist())]
    ranked = sorted(worse, key=lambda arm: -(mean + reach)[arm])
    return {int(arm) for arm in ranked[: int(np.ceil(AMONG * len(worse)))]}


@pytest.mark.parametrize("size", [2, 10, 11, 30])
def test_half_of_a_batch_on_a_plateau_is_drawn_among_clearly_worse_arms(size):
    run = started()
    batch = run.ask(size)
    scouts = [arm for arm, why in zip(batch.arms.tolist(), batch.why, strict=True) if not ON_PLATEAU[arm]]
    assert len(set(batch.arms.tolist())) == size
    assert len(scouts) in (size // 2, (size + 1) // 2)
    assert set(scouts) <= possible_scouts(run)
    assert batch.why[: len(scouts)] == ("exploration",) * len(scouts)


def test_about_half_of_the_batches_of_one_are_a_scout():
    run = started()
    run.ask(1)
    rule = WithScouts(run.policy.selection_rule())
    batches = [rule.fill(fresh_round(run, 1, number)) for number in range(200)]
    assert all(len(batch.arms) == 1 for batch in batches)
    assert 70 <= sum(not ON_PLATEAU[batch.arms[0]] for batch in batches) <= 130  # ± 4 standard deviations


def test_every_possible_scout_is_drawn_equally_often():
    """χ² over the first scouts of 600 batches; level 0.001."""
    run = started()
    run.ask(10)
    rule, drawn = WithScouts(run.policy.selection_rule()), np.zeros(N_ARMS)
    for number in range(600):
        drawn[rule.fill(fresh_round(run, 10, number)).arms[0]] += 1
    possible = sorted(possible_scouts(run))
    assert len(possible) >= 5
    assert drawn.sum() == drawn[possible].sum()
    assert chisquare(drawn[possible]).pvalue > 1e-3


def test_scouts_are_worse_than_the_next_arm_by_a_quarter_of_the_spread_of_the_results():
    run = started()
    run.ask(10)
    ceiling = below_plateau(fresh_round(run, 10))
    state = run.posterior.state
    upper = run.posterior.mean + run.trace[-1].width * np.sqrt(run.posterior.leverage)
    upper[run.history.arms] = -np.inf
    expected = run.posterior.mean[upper.argmax()] - CLEARLY * spread(state.sums / state.counts)
    assert ceiling == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "truth",
    [
        -(FEATURES[:, 1:] ** 2).sum(axis=1),  # nothing is alike
        np.where(ON_PLATEAU, 0.0, TRUTH),  # capped: nothing is better
    ],
)
def test_without_a_plateau_there_are_no_scouts(truth):
    run = started(truth)
    batch = run.ask(10)
    assert below_plateau(fresh_round(run, 10)) is None
    assert set(batch.why) == {"upper bound"}


def test_a_batch_that_ends_by_its_own_rule_or_uses_up_the_budget_has_no_scouts():
    run = started()
    assert set(run.ask(at_most=10).why) == {"upper bound"}
    final = ma.Optimizer(ma.Pool(FEATURES), seed=1, repeats="forbid", budget=10)
    final.tell(arms=np.arange(40), rewards=TRUTH[:40])
    assert set(final.ask(10).why) == {"final batch"}


def test_where_no_arm_is_clearly_worse_there_are_no_scouts():
    run = started()
    batch = run.ask(10, eligible=np.flatnonzero(ON_PLATEAU))
    assert ON_PLATEAU[batch.arms].all()
    assert set(batch.why) == {"upper bound"}
