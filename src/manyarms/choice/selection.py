"""Which arm next: the ways to fill a batch, each a small object shared by the policies that use it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from manyarms.choice.lazy_argmax import LazyArgmax
from manyarms.choice.prior_draws import CorrectedPrior
from manyarms.choice.stopping import Meter, Pick, StoppingRule
from manyarms.choice.thompson_draws import draws_in_turn
from manyarms.posterior.hallucination import Hallucination
from manyarms.posterior.posterior import Posterior
from manyarms.support.validation import Floats, share


@dataclass(frozen=True)
class BatchContext:
    """Everything a chooser may look at when it fills one batch.

    `overlay` already holds the pulls whose results are still out. `allowed` says how often each arm may
    be chosen. `limit` caps the batch; with `exactly` the batch has that size whatever the ending says.
    `width` is β at the last feedback and holds while variances shrink by at most `batch_ratio`. `prior`
    is where Thompson sampling draws from.
    """

    posterior: Posterior
    overlay: Hallucination
    stopping_rule: StoppingRule
    width: float
    batch_ratio: float
    allowed: Floats
    limit: int | None
    exactly: bool
    stream: Callable[[str], np.random.Generator]
    lazy: bool = True
    prior: CorrectedPrior | None = None


@dataclass(frozen=True)
class FilledBatch:
    """A batch: its arms in order, why it ended, how far variances may have shrunk, and why each arm."""

    arms: list[int]
    ended_because: str
    ratio: float
    why: list[str]  # what chose each arm


class SelectionRule(Protocol):
    """A way to fill a batch."""

    def fill(self, context: BatchContext) -> FilledBatch:
        """Choose arms until the ending, the limit or the pool says stop; no arms when none is allowed."""


# What chose an arm (`Batch.why`).
INITIAL_DESIGN, UPPER_BOUND, EXPLORATION = "initial design", "upper bound", "exploration"
FINAL_BATCH, THOMPSON_DRAW, HIGHEST_MEAN = "final batch", "Thompson draw", "highest mean"
REQUESTED = "requested"

LONGEST_BATCH = 10_000  # picks, when nothing else ends a batch: arms without variance never exhaust a ratio


def _started_meter(context: BatchContext) -> Meter:
    """A meter that has already counted the pulls still out, one after the other."""
    meter = context.stopping_rule.meter(context.posterior, context.overlay)
    if not context.overlay.pulls:
        return meter
    leverage, replayed = context.posterior.leverage, Hallucination(context.posterior)
    for arm in context.overlay.pulls:
        meter.count(Pick(arm, float(leverage[arm]), float(replayed.leverage([arm])[0])))
        replayed.pull(arm)
    return meter


def _verdict(context: BatchContext, meter: Meter, pick: Pick) -> str | None:
    """Why the ending would stop here; a batch of exactly n does not ask."""
    if context.exactly:
        meter.count(pick)
        return None
    return meter.add(pick)


def _reason_to_stop(context: BatchContext, size: int, reason: str | None) -> str | None:
    """The batch's own limit beside the ending's verdict."""
    if context.limit is not None and size >= context.limit:
        return "size asked for" if context.exactly else reason or "limit"
    if context.exactly:
        return None
    return reason or ("longest batch" if size >= LONGEST_BATCH else None)


@dataclass(frozen=True)
class UpperBounds:
    """The arm with the highest μ̃ + β σ̃_t (theory §5.1), mean frozen and variances hallucinated in a batch.

    β is valid while no variance has shrunk by more than `batch_ratio` since the last feedback. Beyond
    (a batch of exactly n, or many results still out) it grows by the square root of the excess (theory §6.7).
    """

    def fill(self, context: BatchContext) -> FilledBatch:
        """UCB picks, each hallucinated before the next."""
        meter = _started_meter(context)
        leverage = context.posterior.leverage
        contest = LazyArgmax(
            context.posterior, context.overlay, _widened(context, meter), context.allowed, lazy=context.lazy
        )
        arms: list[int] = []
        while True:
            arm, current = contest.top()
            if arm < 0:
                return FilledBatch(arms, "no arm left", meter.ratio, [UPPER_BOUND] * len(arms))
            arms.append(arm)
            reason = _verdict(context, meter, Pick(arm, float(leverage[arm]), current))
            stop = _reason_to_stop(context, len(arms), reason)
            if stop is not None:
                return FilledBatch(arms, stop, meter.ratio, [UPPER_BOUND] * len(arms))
            context.overlay.pull(arm)
            contest.chosen(arm)
            width = _widened(context, meter)
            if width != contest.width:
                contest.widen(width)


def _widened(context: BatchContext, meter: Meter) -> float:
    if math.isinf(context.batch_ratio):
        return context.width
    return context.width * math.sqrt(max(1.0, meter.ratio / context.batch_ratio))


@dataclass(frozen=True)
class RepeatTop:
    """mini-GP-UCB: the arm with the highest bound, then B = max(1, ⌊(C²−1)/σ²⌋) pulls of it (theory §5.6)."""

    growth: float  # C

    def fill(self, context: BatchContext) -> FilledBatch:
        """One arm, many times; a batch of a given size is filled by upper bounds like any other."""
        if context.exactly:
            return UpperBounds().fill(context)
        meter = _started_meter(context)
        contest = LazyArgmax(
            context.posterior, context.overlay, _widened(context, meter), context.allowed, lazy=context.lazy
        )
        arm, current = contest.top()
        if arm < 0:
            return FilledBatch([], "no arm left", meter.ratio, [])
        wanted = (self.growth**2 - 1) / max(current, 1e-300)
        size, reason = max(1, int(min(wanted, LONGEST_BATCH))), "repeats of one arm"
        most = min(math.inf if context.limit is None else context.limit, context.allowed[arm])
        if size > most:
            size, reason = int(most), "limit"
        feedback = float(context.posterior.leverage[arm])
        for _ in range(size):
            meter.count(Pick(arm, feedback, current))
        return FilledBatch([arm] * size, reason, meter.ratio, [UPPER_BOUND] * size)


@dataclass(frozen=True)
class EpsilonGreedy:
    """The highest mean, or with probability `explore` a random arm; none twice in a batch (theory §5.15)."""

    explore: float

    def __post_init__(self) -> None:
        share("explore", self.explore)

    def fill(self, context: BatchContext) -> FilledBatch:
        """Greedy and random picks."""
        rng, meter = context.stream("explore"), _started_meter(context)
        leverage = context.posterior.leverage
        allowed = context.allowed
        means = np.where(allowed > 0, context.posterior.mean, -np.inf)
        arms: list[int] = []
        why: list[str] = []
        while True:
            if context.exactly and means.max() == -np.inf:  # every arm is in the batch: go round once more
                means = np.where(allowed > 0, context.posterior.mean, -np.inf)
            if means.max() == -np.inf:
                return FilledBatch(arms, "no arm left", meter.ratio, why)
            left = np.flatnonzero(means > -np.inf)
            random = rng.random() < self.explore
            arm = int(rng.choice(left)) if random else int(np.argmax(means))
            means[arm] = -np.inf
            allowed[arm] -= 1
            arms.append(arm)
            why.append(EXPLORATION if random else HIGHEST_MEAN)
            reason = _verdict(context, meter, Pick(arm, float(leverage[arm]), float(leverage[arm])))
            stop = _reason_to_stop(context, len(arms), reason)
            if stop is not None:
                return FilledBatch(arms, stop, meter.ratio, why)


@dataclass(frozen=True)
class ThompsonDraws:
    """Thompson sampling: each pick is the best arm of a function of its own, drawn from the posterior.

    The draws of a batch are independent of each other and of pending pulls (theory §7.5). `distinct` keeps an
    arm from entering a batch twice: a draw whose best arm is taken gives its next best.
    """

    batch_size: int = 1
    distinct: bool = False

    def fill(self, context: BatchContext) -> FilledBatch:
        """One pass over the pool for as many draws as fit into memory together."""
        meter, allowed, leverage = _started_meter(context), context.allowed, context.posterior.leverage
        scale = context.width / math.sqrt(context.posterior.ridge)
        limit = math.inf if context.limit is None else context.limit
        wanted = int(limit if context.exactly else min(self.batch_size, limit))
        arms: list[int] = []
        draws = draws_in_turn(context.posterior, context.prior, scale, wanted, context.stream("thompson"))
        left = allowed > 0
        for values in draws:
            if context.exactly and not left.any():  # every arm is in the batch: go round once more
                left = allowed > 0
            if not left.any():
                return FilledBatch(arms, "no arm left", meter.ratio, [THOMPSON_DRAW] * len(arms))
            arm = int(np.argmax(np.where(left, values, -np.inf)))
            allowed[arm] -= 1
            left[arm] = allowed[arm] > 0 and not self.distinct
            arms.append(arm)
            reason = _verdict(context, meter, Pick(arm, float(leverage[arm]), float(leverage[arm])))
            stop = _reason_to_stop(context, len(arms), reason)
            if stop is not None:
                return FilledBatch(arms, stop, meter.ratio, [THOMPSON_DRAW] * len(arms))
        return FilledBatch(arms, "fixed size", meter.ratio, [THOMPSON_DRAW] * len(arms))


@dataclass(frozen=True)
class FromDesign:
    """Arms settled before there was anything to learn from: an initial design, or what is left of it."""

    arms: tuple[int, ...]

    def fill(self, context: BatchContext) -> FilledBatch:
        """As many of them as may be, in order; a larger batch before any result is filled up at random."""
        most = len(self.arms) if context.limit is None else context.limit
        picked = [arm for arm in self.arms if context.allowed[arm] > 0][:most]
        context.allowed[picked] -= 1
        if context.exactly and len(picked) < most:
            picked += UniformStart().fill(replace(context, limit=most - len(picked))).arms
        return FilledBatch(
            picked, "initial design", _counted(context, picked), [INITIAL_DESIGN] * len(picked)
        )


@dataclass(frozen=True)
class StartWith:
    """Arms that are all in the batch anyway, then whatever fills the rest of it."""

    arms: tuple[int, ...]
    rest: SelectionRule
    why: str

    def fill(self, context: BatchContext) -> FilledBatch:
        """The arms in order, hallucinated, and as many more as are wanted."""
        assert context.limit is not None, "only a batch of a given size can need more than there are"
        for arm in self.arms:
            context.overlay.pull(arm)
        context.allowed[list(self.arms)] -= 1
        more = self.rest.fill(replace(context, limit=context.limit - len(self.arms)))
        return replace(more, arms=[*self.arms, *more.arms], why=[*[self.why] * len(self.arms), *more.why])


@dataclass(frozen=True)
class UniformStart:
    """The first pull of a run: one arm uniformly at random, its own batch (theory §5.1)."""

    def fill(self, context: BatchContext) -> FilledBatch:
        """As many different random arms as were asked for exactly, else one."""
        size = context.limit if context.exactly and context.limit is not None else 1
        rng, picked = context.stream("start"), np.empty(0, dtype=np.int64)
        while len(picked) < size:  # more than one turn only when every arm is taken and repeats are allowed
            left = np.flatnonzero(context.allowed > 0)
            turn = rng.permutation(left)[: size - len(picked)]
            context.allowed[turn] -= 1
            picked = np.concatenate([picked, turn])
        reason, arms = "first arm" if size == 1 else "size asked for", picked.tolist()
        return FilledBatch(arms, reason, _counted(context, arms), [INITIAL_DESIGN] * len(arms))


def _counted(context: BatchContext, arms: list[int]) -> float:
    """The ratio after picks that no rule had to stop."""
    meter = _started_meter(context)
    for arm in arms:
        level = float(context.posterior.leverage[arm])
        meter.count(Pick(arm, level, level))
    return meter.ratio
