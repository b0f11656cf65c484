"""Selection rules, which choose the arms of a batch. Policies that choose in the same way share a rule."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from manyarms.choice.elimination import Elimination
from manyarms.choice.highest import BoundRule, peak
from manyarms.choice.lazy_argmax import LazyArgmax, TopArm
from manyarms.choice.prior_draws import CorrectedPrior
from manyarms.choice.stopping import Meter, Pick, StoppingRule
from manyarms.choice.thompson_draws import Maximisers
from manyarms.pool.allowance import Allowance
from manyarms.pool.costs import ArmCosts
from manyarms.posterior.hallucination import Hallucination
from manyarms.posterior.posterior import Posterior
from manyarms.support.validation import share

if TYPE_CHECKING:
    from manyarms.choice.success import PlacedSuccess, ValueWithSuccess


@dataclass(frozen=True)
class BatchContext:
    """Everything that a selection rule may use to fill one batch.

    `overlay` already contains the pulls whose results are pending. `allowed` holds the number of times that
    each arm may be chosen; rules count what they choose (`Allowance.take`). `limit` is the largest size of
    the batch; with `exactly`, the batch has that size whatever the stopping rule decides. `width` is β at the
    last feedback, which is valid while variances shrink by at most a factor of `batch_ratio`. `stream` gives
    the random generator for a purpose. `prior` is what Thompson draws start from.
    """

    posterior: Posterior
    overlay: Hallucination
    stopping_rule: StoppingRule
    width: float
    batch_ratio: float
    allowed: Allowance
    limit: int | None
    exactly: bool
    stream: Callable[[str], np.random.Generator]
    lazy: bool = True
    prior: CorrectedPrior | None = None
    elimination: Elimination | None = None  # of batched pure exploration
    costs: ArmCosts | None = None
    success: PlacedSuccess | None = None  # the probability of success of all arms, if it depends on them

    @property
    def value(self) -> ValueWithSuccess | None:
        """What upper bounds are worth where trials may fail; None where they are compared as they are."""
        if self.success is None:
            return None
        from manyarms.choice.success import ValueWithSuccess  # imported when it is needed

        return ValueWithSuccess.under(self.posterior, self.success)


@dataclass(frozen=True)
class FilledBatch:
    """A batch: its arms in order, why it ended, how far variances may have shrunk, and why each arm."""

    arms: list[int]
    ended_because: str
    ratio: float
    why: list[str]  # for each arm, what chose it
    elimination: Elimination | None = None  # after this batch


class SelectionRule(Protocol):
    """A rule that chooses the arms of a batch."""

    def fill(self, context: BatchContext) -> FilledBatch:
        """Choose arms until the stopping rule, the limit or the pool ends the batch, which may be empty."""


# The reasons for which an arm is chosen (`Batch.why`).
INITIAL_DESIGN, UPPER_BOUND, EXPLORATION = "initial design", "upper bound", "exploration"
FINAL_BATCH, THOMPSON_DRAW, HIGHEST_MEAN = "final batch", "Thompson draw", "highest mean"
REQUESTED, RANDOM_START, HIGHEST_VARIANCE = "requested", "random start", "highest variance"
GAIN_PER_COST = "gain per cost"
AGAIN = ", again after a failure"  # follows the reason of an arm that failed before

_MEAN_ALONE = BoundRule(width=0.0)
NO_ARM_LEFT = "no arm left"
LONGEST_BATCH = 10_000  # picks; needed because arms without variance never increase the ratio


def _started_meter(context: BatchContext) -> Meter:
    """A meter for this batch that has already counted the pending pulls, one after the other."""
    meter = context.stopping_rule.meter(context.posterior, context.overlay)
    overlay = context.overlay
    for pick in zip(overlay.pulls, overlay.feedback_leverage, overlay.leverage_before, strict=True):
        meter.count(Pick(*pick))
    return meter


def _level(context: BatchContext, arm: int) -> float:
    """σ̃² of an arm at the last feedback."""
    return float(context.posterior.state.at(np.array([arm])).leverage[0])


def _reason_from_rule(context: BatchContext, meter: Meter, pick: Pick) -> str | None:
    """Count a pick; the stopping rule's reason to end the batch here, never one for a batch of exactly n."""
    if context.exactly:
        meter.count(pick)
        return None
    return meter.add(pick)


def _reason_to_stop(context: BatchContext, size: int, reason: str | None) -> str | None:
    """The reason to end a batch of this size, from its limits and from the stopping rule (`reason`)."""
    if context.limit is not None and size >= context.limit:
        return "size asked for" if context.exactly else reason or "limit"
    if context.exactly:
        return None
    return reason or ("longest batch" if size >= LONGEST_BATCH else None)


@dataclass(frozen=True)
class UpperBounds:
    """The arm with the highest μ̃ + β σ̃_t (theory §5.1); a batch fixes the mean and hallucinates variances.

    β is valid while no variance has shrunk by a factor of more than `batch_ratio` since the last feedback.
    Beyond that (in a batch of exactly n arms, or with many results pending), β is multiplied by the square
    root of the excess (theory §6.7).
    """

    def fill(self, context: BatchContext) -> FilledBatch:
        """Repeatedly pick the highest upper bound and hallucinate the pull."""
        argmax = LazyArgmax(
            context.posterior, context.overlay, _widened(context), context.allowed,
            lazy=context.lazy, value=context.value,
        )  # fmt: skip
        return highest_first(context, argmax, _widened, UPPER_BOUND)


def highest_first(
    context: BatchContext, argmax: LazyArgmax, width: Callable[[BatchContext], float], why: str
) -> FilledBatch:
    """The arms that win the contest one after the other, each pull hallucinated, at the present width."""
    meter = _started_meter(context)
    arms: list[int] = []
    while True:
        top = argmax.top()
        if top.arm < 0:
            return _filled(context, arms, NO_ARM_LEFT, meter, why)
        arms.append(top.arm)
        reason = _reason_from_rule(context, meter, _picked(top))
        stop = _reason_to_stop(context, len(arms), reason)
        if stop is not None:
            return _filled(context, arms, stop, meter, why)
        context.overlay.pull(top.arm)
        argmax.chosen(top.arm)
        now = width(context)
        if now != argmax.width:
            argmax.widen(now)


def _picked(top: TopArm) -> Pick:
    return Pick(top.arm, top.feedback_leverage, top.leverage)


def _filled(
    context: BatchContext, arms: list[int], ended_because: str, meter: Meter, reason: str
) -> FilledBatch:
    """A batch of highest bounds. If its size was given, its ratio is realised, not bounded by the rule."""
    why = [reason] * len(arms)
    if not context.exactly or not arms:
        return FilledBatch(arms, ended_because, meter.ratio, why)
    if len(arms) == 1 and not context.overlay.pulls:  # the usual case
        level = context.posterior.state.look(np.array(arms)).leverage
        return FilledBatch(arms, ended_because, 1.0 + float(level[0]), why)
    if ended_because != NO_ARM_LEFT:
        context.overlay.pull(arms[-1])
    return FilledBatch(arms, ended_because, context.overlay.realised_ratio(), why)


def _widened(context: BatchContext) -> float:
    """β, times the square root of the excess of the realised ratio over the one that β allows for."""
    return context.width * math.sqrt(context.overlay.excess(context.batch_ratio))


@dataclass(frozen=True)
class RepeatTop:
    """mini-GP-UCB: B = max(1, ⌊(C²−1)/σ²⌋) pulls of the arm with the highest bound (theory §5.6)."""

    growth: float  # C

    def fill(self, context: BatchContext) -> FilledBatch:
        """One arm several times; a batch of exactly n arms is filled by `UpperBounds` instead."""
        if context.exactly:
            return UpperBounds().fill(context)
        meter = _started_meter(context)
        argmax = LazyArgmax(
            context.posterior, context.overlay, _widened(context), context.allowed,
            lazy=context.lazy, value=context.value,
        )  # fmt: skip
        top = argmax.top()
        arm = top.arm
        if arm < 0:
            return FilledBatch([], NO_ARM_LEFT, meter.ratio, [])
        wanted = (self.growth**2 - 1) / max(top.leverage, 1e-300)
        size, reason = max(1, int(min(wanted, LONGEST_BATCH))), "repeats of one arm"
        most = min(math.inf if context.limit is None else context.limit, context.allowed[arm])
        if size > most:
            size, reason = int(most), "limit"
        for _ in range(size):
            meter.count(_picked(top))
        return FilledBatch([arm] * size, reason, meter.ratio, [UPPER_BOUND] * size)


@dataclass(frozen=True)
class HighestVariance:
    """GP-BUCB's initialisation phase: the arm with the highest σ̃_t until there are `pulls` (theory §5.4)."""

    pulls: int  # T_init, with pending pulls
    rest: SelectionRule  # chooses the arms afterwards

    def fill(self, context: BatchContext) -> FilledBatch:
        """What is left of the phase as one batch; a larger batch of exactly n arms is filled by `rest`."""
        left = self.pulls - context.posterior.state.pulls - len(context.overlay.pulls)
        if left <= 0:
            return self.rest.fill(context)
        limit = left if context.limit is None else min(left, context.limit)
        meter = _started_meter(context)
        argmax = LazyArgmax(
            context.posterior, context.overlay, 1.0, context.allowed, lazy=context.lazy, mean=False
        )
        arms: list[int] = []
        while len(arms) < limit:
            top = argmax.top()
            if top.arm < 0:
                break
            arms.append(top.arm)
            meter.count(_picked(top))
            context.overlay.pull(top.arm)
            argmax.chosen(top.arm)
        why = [HIGHEST_VARIANCE] * len(arms)
        if len(arms) < limit or len(arms) == context.limit or not context.exactly:
            stop = _reason_to_stop(context, len(arms), "initialisation" if len(arms) == left else None)
            return FilledBatch(arms, stop or NO_ARM_LEFT, meter.ratio, why)
        assert context.limit is not None
        more = self.rest.fill(replace(context, limit=context.limit - len(arms)))
        return replace(more, arms=[*arms, *more.arms], why=[*why, *more.why])


@dataclass(frozen=True)
class PureExploration:
    """BPE: the active arm with the largest variance given the picks of this batch (theory §5.17)."""

    lengths: tuple[int, ...]  # of the batches
    oversampling: float

    def fill(self, context: BatchContext) -> FilledBatch:
        """What is left of the present batch, or as much of it as was asked for."""
        now = context.elimination
        assert now is not None, "begun before a batch is filled"
        left = self.lengths[now.number] - len(now.arms)
        size = left if context.limit is None else min(left, context.limit)
        if context.exactly and context.limit is not None:
            size = context.limit  # which may be more than the batch was to have
        later = now.explored(
            context.posterior, size, context.allowed, self.oversampling, context.stream("pure exploration")
        )
        arms = later.arms[len(now.arms) :].tolist()
        reason = "batch of pure exploration" if len(arms) == left else None
        stop = _reason_to_stop(context, len(arms), reason) if arms else None
        why = [HIGHEST_VARIANCE] * len(arms)
        return FilledBatch(arms, stop or NO_ARM_LEFT, _ratio_after(context, arms), why, later)


@dataclass(frozen=True)
class EpsilonGreedy:
    """The highest mean or, with probability `explore`, a random arm; none twice in a batch (theory §5.15)."""

    explore: float

    def __post_init__(self) -> None:
        share("explore", self.explore)

    def fill(self, context: BatchContext) -> FilledBatch:
        """Pick arms greedily or uniformly at random."""
        rng, meter, allowed = context.stream("explore"), _started_meter(context), context.allowed
        rule = _MEAN_ALONE if context.value is None else replace(_MEAN_ALONE, gain=context.value.gain)
        left = allowed.copy()  # without the arms of this batch
        arms: list[int] = []
        why: list[str] = []
        while True:
            if context.exactly and not left.n_open:  # every arm is in the batch: go round once more
                left = allowed.copy()
            if not (n_left := left.n_open):
                return FilledBatch(arms, NO_ARM_LEFT, meter.ratio, why)
            random = rng.random() < self.explore
            if random:
                arm = int(left.nth_open(rng.integers(n_left, size=1))[0])
            else:
                arm = peak(context.posterior.state.over_pool, rule, left, tie=0.0).arm
            if not left.confirms(arm):
                continue
            left.take([arm])
            left.close([arm])
            allowed.take([arm])
            arms.append(arm)
            why.append(EXPLORATION if random else HIGHEST_MEAN)
            level = _level(context, arm)
            reason = _reason_from_rule(context, meter, Pick(arm, level, level))
            stop = _reason_to_stop(context, len(arms), reason)
            if stop is not None:
                return FilledBatch(arms, stop, meter.ratio, why)


@dataclass(frozen=True)
class ThompsonDraws:
    """Thompson sampling: each pick is the maximiser of its own function drawn from the posterior.

    The draws of a batch are independent of each other and of pending pulls (theory §7.5). With `distinct`, no
    arm is in a batch twice: if the maximiser of a draw is already in the batch, the next best arm is taken.
    """

    batch_size: int = 1
    distinct: bool = False

    def fill(self, context: BatchContext) -> FilledBatch:
        """Draw functions and pick their maximisers; draws that fit into memory together share one pass."""
        meter, allowed = _started_meter(context), context.allowed
        scale = context.width / math.sqrt(context.posterior.ridge)
        limit = math.inf if context.limit is None else context.limit
        wanted = int(limit if context.exactly else min(self.batch_size, limit))
        arms: list[int] = []
        left = allowed.copy()
        maximisers = Maximisers(
            context.posterior, context.prior, scale, wanted, context.stream("thompson"),
            once=self.distinct or allowed.times != math.inf,
        )  # fmt: skip
        for _ in range(wanted):
            if context.exactly and not left.n_open:  # every arm is in the batch: go round once more
                left = allowed.copy()
            if not left.n_open:
                return FilledBatch(arms, NO_ARM_LEFT, meter.ratio, [THOMPSON_DRAW] * len(arms))
            arm = maximisers.next(left)
            while not left.confirms(arm):
                if context.exactly and not left.n_open:
                    left = allowed.copy()
                if not left.n_open:
                    break
                arm = maximisers.again(left)
            if not left[arm] > 0:
                return FilledBatch(arms, NO_ARM_LEFT, meter.ratio, [THOMPSON_DRAW] * len(arms))
            allowed.take([arm])
            left.take([arm])
            if self.distinct:
                left.close([arm])
            arms.append(arm)
            level = _level(context, arm)
            reason = _reason_from_rule(context, meter, Pick(arm, level, level))
            stop = _reason_to_stop(context, len(arms), reason)
            if stop is not None:
                return FilledBatch(arms, stop, meter.ratio, [THOMPSON_DRAW] * len(arms))
        return FilledBatch(arms, "fixed size", meter.ratio, [THOMPSON_DRAW] * len(arms))


@dataclass(frozen=True)
class FromDesign:
    """The arms of an initial design that have not been handed out yet, in order."""

    arms: tuple[int, ...]

    def fill(self, context: BatchContext) -> FilledBatch:
        """As many arms of the design as fit; a batch of exactly n arms is filled up with random arms."""
        most = len(self.arms) if context.limit is None else context.limit
        picked = [arm for arm in self.arms if context.allowed[arm] > 0][:most]
        picked = context.allowed.take_possible(picked)
        why = [INITIAL_DESIGN] * len(picked)
        if context.exactly and len(picked) < most:
            more = UniformStart().fill(replace(context, limit=most - len(picked)))
            picked, why = picked + more.arms, why + more.why
        return FilledBatch(picked, "initial design", _ratio_after(context, picked), why)


@dataclass(frozen=True)
class StartWith:
    """Given arms first, then the arms of another selection rule."""

    arms: tuple[int, ...]
    rest: SelectionRule  # fills the rest of the batch
    why: str  # the reason recorded for `arms`

    def fill(self, context: BatchContext) -> FilledBatch:
        """Hallucinate the pulls of the given arms, then let the other rule fill what is left of the batch."""
        assert context.limit is not None, "only batches of a given size start with given arms"
        first = context.allowed.take_possible(self.arms)
        if len(first) == context.limit:
            ratio, why = _ratio_after(context, first), [self.why] * len(first)
            return FilledBatch(first, "size asked for", ratio, why)
        for arm in first:
            context.overlay.pull(arm)
        more = self.rest.fill(replace(context, limit=context.limit - len(first)))
        return replace(more, arms=[*first, *more.arms], why=[*[self.why] * len(first), *more.why])


@dataclass(frozen=True)
class UniformStart:
    """The first batch of a run: one arm, chosen uniformly at random (theory §5.1)."""

    def fill(self, context: BatchContext) -> FilledBatch:
        """Exactly n different random arms if n were asked for, otherwise one."""
        size = context.limit if context.exactly and context.limit is not None else 1
        rng, allowed, arms = context.stream("start"), context.allowed, list[int]()
        # More than one turn only if n exceeds the number of allowed arms, or if groups of arms are limited.
        while len(arms) < size and (n_open := allowed.n_open):
            ranks = rng.choice(n_open, size=min(n_open, size - len(arms)), replace=False)
            arms += allowed.take_possible(allowed.nth_open(ranks).tolist())
        reason = "first arm" if size == 1 else "size asked for"
        return FilledBatch(arms, reason, _ratio_after(context, arms), [RANDOM_START] * len(arms))


def _ratio_after(context: BatchContext, arms: list[int]) -> float:
    """The variance ratio after these picks, which were made without the stopping rule."""
    meter = _started_meter(context)
    levels = context.posterior.state.at(np.array(arms, dtype=np.int64)).leverage.tolist()
    for arm, level in zip(arms, levels, strict=True):
        meter.count(Pick(arm, level, level))
    return meter.ratio
