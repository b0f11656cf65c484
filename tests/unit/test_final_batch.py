"""The batch that spends the budget takes what looks best: narrower bounds, and no exploration arms."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.choice.final_batch import NARROWED
from manyarms.posterior.hallucination import Hallucination

N_ARMS = 300
FEATURES = np.random.default_rng(0).random((N_ARMS, 2))
TRUTH = np.sin(6 * FEATURES[:, 0]) + np.cos(4 * FEATURES[:, 1])


def started(budget: int | None, policy: ma.Policy | None = None) -> ma.Optimizer:
    run = ma.Optimizer(ma.Pool(FEATURES), policy, seed=1, budget=budget, repeats="forbid")
    first = run.ask(30)
    run.tell(first, TRUTH[first.arms] + 0.3 * np.random.default_rng(1).normal(size=30))
    return run


def by_bounds(run: ma.Optimizer, factor: float, size: int) -> list[int]:
    """The plainest way to fill a batch: the highest bound, hallucinated, and again."""
    overlay, arms = Hallucination(run.posterior), []
    for _ in range(size):
        upper = run.posterior.mean + factor * run.trace[-1].width * np.sqrt(overlay.leverage())
        upper[[*run.history.arms, *arms]] = -np.inf
        arms.append(int(np.argmax(upper)))
        overlay.pull(arms[-1])
    return arms


@pytest.mark.parametrize("size", [5, 40])
def test_the_batch_that_spends_the_budget_is_chosen_with_narrower_bounds(size: int) -> None:
    run = started(30 + size)
    batch = run.ask(size).arms.tolist()
    assert batch == by_bounds(run, NARROWED, size)
    assert batch != by_bounds(run, 1.0, size), "else this shows nothing"


@pytest.mark.parametrize("budget", [None, 36])
def test_any_other_batch_is_not(budget: int | None) -> None:
    run = started(budget)
    assert run.ask(5).arms.tolist() == by_bounds(run, 1.0, 5)


@pytest.mark.parametrize(
    "policy", [ma.BBKB(local=True, width=2.0), ma.BBKB(kernel=ma.RBF(0.3), noise_std=0.3, width=2.0)]
)
def test_a_width_that_was_named_is_kept(policy: ma.Policy) -> None:
    ending, open_ended = started(35, policy), started(None, policy)
    assert ending.ask(5).arms.tolist() == open_ended.ask(5).arms.tolist()


def test_what_is_out_already_counts_as_spent() -> None:
    batches = []
    for budget in (75, 76):
        run = started(budget)
        assert run.ask(5).arms.tolist() == by_bounds(run, 1.0, 5)
        batches.append(run.ask(40).arms.tolist())
    assert batches[0] != batches[1]


def test_a_loaded_run_chooses_the_same(tmp_path) -> None:
    run = started(35)
    run.save(tmp_path / "run")
    again = ma.Optimizer.load(tmp_path / "run", ma.Pool(FEATURES))
    assert again.ask(5).arms.tolist() == run.ask(5).arms.tolist()


def test_the_last_batch_is_not_spent_on_what_is_left_of_the_design() -> None:
    run = ma.Optimizer(ma.Pool(FEATURES), seed=1, budget=55, repeats="forbid")  # a design of 11
    first = run.ask(10)
    run.tell(first, TRUTH[first.arms])
    assert run.ask(45).arms.tolist() == by_bounds(run, NARROWED, 45)


def test_a_batch_larger_than_what_is_left_of_the_design_is_filled_up_by_the_model() -> None:
    run = ma.Optimizer(ma.Pool(FEATURES), seed=1, repeats="forbid")  # a design of 20
    first = run.ask(12)
    run.tell(first, TRUTH[first.arms])
    batch = run.ask(18).arms.tolist()
    planned, overlay = batch[:8], Hallucination(run.posterior)
    assert set(planned) == set(run.state.design[12:])
    for arm in planned:
        overlay.pull(arm)
    upper = run.posterior.mean + run.trace[-1].width * np.sqrt(overlay.leverage())
    upper[[*run.history.arms, *planned]] = -np.inf
    assert batch[8] == int(np.argmax(upper))
    assert len(set(batch)) == 18
    assert run.ask(5).arms.tolist() != [], "results that are still out do not matter"


def test_the_last_arms_of_a_design_are_not_handed_out_twice_in_one_batch() -> None:
    """Fewer untried arms than the batch wants: those come first, then repeats."""
    run = ma.Optimizer(ma.Pool(FEATURES[:24]), seed=1)
    first = run.ask(12)
    run.tell(first, TRUTH[first.arms])
    batch = run.ask(16).arms.tolist()
    assert set(batch[:12]) == set(range(24)) - set(first.arms.tolist())
    assert len(batch) == 16
