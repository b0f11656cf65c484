"""The conditions of a certificate: which hold, which are assumed, and which do not hold (theory §4.11)."""

from __future__ import annotations

from dataclasses import dataclass

from manyarms.choice.selection import EpsilonGreedy
from manyarms.policies import Policy, Sparse
from manyarms.run.context import LEARN, RunContext
from manyarms.run.state import RunState
from manyarms.sketch.inducing import IncrementalLeverage, LeverageScores, theoretical_oversampling

HOLDS, ASSUMED, FAILS = "holds", "assumed", "does not hold"
BOUNDS, RATE = "bounds", "sublinear regret"
REQUESTED_SIZE = "size asked for"  # why a batch ended that the stopping rule did not end
# Widths without a theorem: the authors' script, and a constant on slides.
_WITHOUT_THEOREM = ("authors", "authors-bkb", "authors-bbkb", "bkb-slides")


@dataclass(frozen=True)
class Condition:
    """One condition: what it says, its status, and what depends on it.

    `status` is "holds", "assumed" (by the user, it cannot be checked) or "does not hold". `needed_for` is
    "bounds" (the gap, the regret and the bounds of the certificate) or "sublinear regret" (a promise about
    the future, which the certificate does not depend on).
    """

    text: str
    status: str
    needed_for: str


def conditions_of(context: RunContext, state: RunState, *, proved: bool) -> tuple[Condition, ...]:
    """The conditions of this run; an estimate depends on its model alone and promises no rate."""
    if not proved:
        return (Condition(_estimated_from(state), ASSUMED, BOUNDS),)
    found = [*_of_the_bounds(state), _width(state.belief.policy), _repeats(context)]
    if context.costs is not None:
        found.append(Condition("costs neither limit nor guide the choice of arms", FAILS, RATE))
    if context.failures == LEARN and state.tickets.failures:
        found.append(Condition("failures do not guide the choice of arms", FAILS, RATE))
    if 0 < state.n_batches == len(state.trace.batches):  # the trace is complete
        requested = sum(record.ended_because == REQUESTED_SIZE for record in state.trace.batches)
        found.append(batches_condition(requested))
    return (*found, _sketch(state.belief.policy, state.belief.state.pulls))


def _estimated_from(state: RunState) -> str:
    if state.belief.model is not None:
        return "kernel, noise, mean and scale of the rewards are as learned from the results"
    if isinstance(state.belief.policy.norm_bound, str):
        return "rewards are drawn from the given kernel and noise; the norm bound is only a guess"
    return "rewards are drawn from the model in use"


def _of_the_bounds(state: RunState) -> list[Condition]:
    policy, tickets = state.belief.policy, state.tickets
    complete = not tickets.pending and not tickets.failures
    return [
        Condition(f"the kernel is {policy.kernel!r}", ASSUMED, BOUNDS),
        Condition(f"the noise is sub-Gaussian with scale {policy.noise_std:g}", ASSUMED, BOUNDS),
        Condition(f"the RKHS norm of the mean reward is at most {policy.norm_bound:g}", ASSUMED, BOUNDS),
        Condition(
            "whether a result is missing does not depend on its noise", HOLDS if complete else ASSUMED, BOUNDS
        ),
    ]


def _width(policy: Policy) -> Condition:
    chosen = isinstance(policy.width, str) and policy.width not in _WITHOUT_THEOREM
    has_rule = not isinstance(policy.selection_rule(), EpsilonGreedy)
    text = f"arms are chosen with the width of a theorem (width = {policy.width!r})"
    return Condition(text, HOLDS if chosen and has_rule else FAILS, RATE)


def _repeats(context: RunContext) -> Condition:
    text = f"an arm may be pulled any number of times (repeats = {context.repeats!r})"
    return Condition(text, HOLDS if context.repeats == "allow" else FAILS, RATE)


def batches_condition(requested: int) -> Condition:
    """Whether the stopping rule ended every batch; `requested` batches had a size that was asked for."""
    exceptions = f" ({requested} had a size that was asked for)" if requested else ""
    text = f"every batch is ended by the stopping rule{exceptions}"
    return Condition(text, FAILS if requested else HOLDS, RATE)


def _sketch(policy: Policy, pulls: int) -> Condition:
    """Accuracy of the sketch by BKB Theorem 1; an exact posterior needs none."""
    rule = policy.inducing_rule()
    if not isinstance(policy, Sparse):
        return Condition("the posterior is exact", HOLDS, RATE)
    if not isinstance(rule, LeverageScores | IncrementalLeverage):
        return Condition("inducing arms are drawn by leverage scores", FAILS, RATE)
    needed, used = theoretical_oversampling(max(pulls, 1), policy.delta), policy.oversampling_at(pulls)
    text = f"the oversampling is that of BKB Theorem 1 ({used:.3g} is used, {needed:.3g} is needed)"
    accurate = used >= needed * (1 - 1e-12) and isinstance(rule, LeverageScores)
    return Condition(text, HOLDS if accurate else FAILS, RATE)
