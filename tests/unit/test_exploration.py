"""A fifth of a large batch is drawn at random among the arms that may still be the best."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

import manyarms as ma
from manyarms.choice.exploration import AMONG, WithExploration, plausible_maximizers
from manyarms.choice.selection import BatchContext
from manyarms.pool.allowance import Allowance
from manyarms.posterior.hallucination import Hallucination
from manyarms.support.random_streams import RandomStreams

N_ARMS = 300
FEATURES = np.random.default_rng(0).random((N_ARMS, 2))
TRUTH = np.sin(6 * FEATURES[:, 0]) + np.cos(4 * FEATURES[:, 1])


def started(
    policy: ma.Policy | None = None, pulls: int = 30, seed: int = 1, noise: float = 0.0
) -> ma.Optimizer:
    run = ma.Optimizer(ma.Pool(FEATURES), policy, seed=seed)
    first = run.ask(pulls)
    run.tell(first, TRUTH[first.arms] + noise * np.random.default_rng(seed).normal(size=pulls))
    return run


def bounds(run: ma.Optimizer) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of all arms, of which those tried must not be chosen again."""
    reach = run.trace[-1].width * np.sqrt(run.posterior.leverage)
    lower, upper = run.posterior.mean - reach, run.posterior.mean + reach
    lower[run.history.arms] = upper[run.history.arms] = -np.inf
    return lower, upper


def plainly_in_question(run: ma.Optimizer) -> set[int]:
    lower, upper = bounds(run)
    left = N_ARMS - len(run.history)
    ranked = np.argsort(-upper)[: int(np.ceil(AMONG * left))]
    return {int(arm) for arm in ranked if upper[arm] >= lower.max()}


@pytest.mark.parametrize("pulls", [20, 40, 80])
def test_exploration_arms_come_first_and_the_others_are_the_highest_bounds_that_know_of_them(pulls):
    run = started(pulls=pulls)
    batch = run.ask(40)
    assert len(set(batch.arms.tolist())) == 40
    possible = plainly_in_question(run)
    exploration_arms = batch.arms[: min(8, len(possible))]
    assert set(exploration_arms.tolist()) <= possible
    overlay, (_, upper) = Hallucination(run.posterior), bounds(run)
    for arm in exploration_arms:
        overlay.pull(int(arm))
    for arm in batch.arms[len(exploration_arms) :]:
        now = run.posterior.mean + run.trace[-1].width * np.sqrt(overlay.leverage())
        now[upper == -np.inf] = -np.inf
        now[overlay.pulls] = -np.inf
        assert now[arm] >= now.max() - 1e-9
        overlay.pull(int(arm))


def test_every_arm_in_question_is_drawn_equally_often():
    """χ² over the first exploration arms of 600 batches; level 0.001."""
    run = started(noise=0.5)
    run.ask(20)
    rule, streams = WithExploration(run.policy.selection_rule()), RandomStreams(5)
    drawn = np.zeros(N_ARMS)
    for number in range(600):
        turn = fresh_round(run, streams, 20, number)
        drawn[rule.fill(turn).arms[0]] += 1
    possible = sorted(plainly_in_question(run))
    assert len(possible) >= 5
    assert drawn.sum() == drawn[possible].sum()
    assert chisquare(drawn[possible]).pvalue > 1e-3


def fresh_round(run: ma.Optimizer, streams: RandomStreams, size: int, number: int = 0) -> BatchContext:
    allowed = np.ones(N_ARMS)
    allowed[run.history.arms] = 0.0
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


def test_arms_that_nothing_tells_apart_are_all_in_question():
    """Not the first tenth of the table, which may be sorted by anything."""
    run = ma.Optimizer(ma.Pool(np.ones((N_ARMS, 1))), seed=0)
    first = run.ask(20)
    run.tell(first, np.zeros(20))
    run.ask(5)
    assert len(plausible_maximizers(fresh_round(run, RandomStreams(0), 5), N_ARMS)) == N_ARMS - 20


def test_results_still_out_are_known_to_exploration_arms():
    run = started()
    out = run.ask(40)
    more = run.ask(40)
    assert not set(out.arms.tolist()) & set(more.arms.tolist())
    turn = fresh_round(run, RandomStreams(0), 5)
    certain = plausible_maximizers(turn, N_ARMS)
    for arm in range(N_ARMS):
        turn.overlay.pull(arm, 1000)
    assert len(plausible_maximizers(turn, N_ARMS)) < len(certain), (
        "with all of them out, hardly any variance is left"
    )


@pytest.mark.parametrize(
    "policy", [ma.BBKB(local=True, width="bbkb"), ma.BBKB(kernel=ma.RBF(0.3), noise_std=0.1, width=1.5)]
)
def test_a_promise_is_kept_without_exploration_arms(policy):
    """With a width by name, or a kernel given, a batch begins with the highest bound."""
    run = started(policy)
    batch = run.ask(40)
    reach = run.trace[-1].width * np.sqrt(run.posterior.leverage)
    upper = run.posterior.mean + reach
    allowed = np.setdiff1d(np.arange(N_ARMS), run.history.arms) if run.repeats == "fresh" else slice(None)
    assert upper[batch.arms[0]] >= upper[allowed].max() - 1e-9


@pytest.mark.parametrize("size", [1, 19, None])
def test_small_and_adaptive_batches_have_none(size):
    run = started()
    batch = run.ask(size)
    _, upper = bounds(run)
    assert upper[batch.arms[0]] >= upper.max() - 1e-9


def test_a_saved_run_draws_the_same_exploration_arms(tmp_path):
    run = started()
    batch = run.ask(20)
    run.tell(batch, TRUTH[batch.arms])
    run.save(tmp_path / "run")
    again = ma.Optimizer.load(tmp_path / "run", ma.Pool(FEATURES))
    assert again.ask(20).arms.tolist() == run.ask(20).arms.tolist()
