"""Which arm next: the ways to fill a batch, each a small object shared by the policies that use it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from manyarms.choice.lazy_argmax import Contest
from manyarms.choice.prior_draws import Prior
from manyarms.choice.stopping import Ending, Meter, Pick
from manyarms.choice.thompson_draws import draws_in_turn
from manyarms.posterior.hallucination import Hallucination
from manyarms.posterior.posterior import Posterior
from manyarms.support.validation import Floats, share


@dataclass(frozen=True)
class Round:
    """Everything a chooser may look at when it fills one batch.

    `overlay` already holds the pulls whose results are still out. `allowed` says how often each arm may
    be chosen. `limit` caps the batch; with `exactly` the batch has that size whatever the ending says.
    `width` is β at the last feedback and holds while variances shrink by at most `batch_ratio`. `prior`
    is where Thompson sampling draws from.
    """

    posterior: Posterior
    overlay: Hallucination
    ending: Ending
    width: float
    batch_ratio: float
    allowed: Floats
    limit: int | None
    exactly: bool
    stream: Callable[[str], np.random.Generator]
    lazy: bool = True
    prior: Prior | None = None


@dataclass(frozen=True)
class Filled:
    """A batch: its arms in order, why it ended, and how far variances may have shrunk by its end."""

    arms: list[int]
    ended_because: str
    ratio: float


class Chooser(Protocol):
    """A way to fill a batch."""

    def fill(self, round: Round) -> Filled:
        """Choose arms until the ending, the limit or the pool says stop; no arms when none is allowed."""


LONGEST_BATCH = 10_000  # picks, when nothing else ends a batch: arms without variance never exhaust a ratio


def _started_meter(round: Round) -> Meter:
    """A meter that has already counted the pulls still out, one after the other."""
    meter = round.ending.meter(round.posterior, round.overlay)
    if not round.overlay.pulls:
        return meter
    leverage, replayed = round.posterior.leverage, Hallucination(round.posterior)
    for arm in round.overlay.pulls:
        meter.count(Pick(arm, float(leverage[arm]), float(replayed.leverage([arm])[0])))
        replayed.pull(arm)
    return meter


def _verdict(round: Round, meter: Meter, pick: Pick) -> str | None:
    """Why the ending would stop here; a batch of exactly n does not ask."""
    if round.exactly:
        meter.count(pick)
        return None
    return meter.add(pick)


def _reason_to_stop(round: Round, size: int, reason: str | None) -> str | None:
    """The batch's own limit beside the ending's verdict."""
    if round.limit is not None and size >= round.limit:
        return "size asked for" if round.exactly else reason or "limit"
    if round.exactly:
        return None
    return reason or ("longest batch" if size >= LONGEST_BATCH else None)


@dataclass(frozen=True)
class UpperBounds:
    """The arm with the highest mean + β σ̃_t, the mean frozen and variances hallucinated inside a batch.

    β is valid while no variance has shrunk by more than `batch_ratio` since the last feedback. Beyond
    (a batch of exactly n, or many results still out) it is widened by the square root of the excess.
    """

    def fill(self, round: Round) -> Filled:
        """UCB picks, each hallucinated before the next."""
        meter = _started_meter(round)
        leverage = round.posterior.leverage
        contest = Contest(
            round.posterior, round.overlay, _widened(round, meter), round.allowed, lazy=round.lazy
        )
        arms: list[int] = []
        while True:
            arm, current = contest.top()
            if arm < 0:
                return Filled(arms, "no arm left", meter.ratio)
            arms.append(arm)
            reason = _verdict(round, meter, Pick(arm, float(leverage[arm]), current))
            stop = _reason_to_stop(round, len(arms), reason)
            if stop is not None:
                return Filled(arms, stop, meter.ratio)
            round.overlay.pull(arm)
            contest.chosen(arm)
            width = _widened(round, meter)
            if width != contest.width:
                contest.widen(width)


def _widened(round: Round, meter: Meter) -> float:
    if math.isinf(round.batch_ratio):
        return round.width
    return round.width * math.sqrt(max(1.0, meter.ratio / round.batch_ratio))


@dataclass(frozen=True)
class RepeatTop:
    """mini-GP-UCB: the arm with the highest bound, then B = max(1, ⌊(C²−1)/σ²⌋) pulls of it as one batch."""

    growth: float  # C

    def fill(self, round: Round) -> Filled:
        """One arm, many times; a batch of a given size is filled by upper bounds like any other."""
        if round.exactly:
            return UpperBounds().fill(round)
        meter = _started_meter(round)
        contest = Contest(
            round.posterior, round.overlay, _widened(round, meter), round.allowed, lazy=round.lazy
        )
        arm, current = contest.top()
        if arm < 0:
            return Filled([], "no arm left", meter.ratio)
        wanted = (self.growth**2 - 1) / max(current, 1e-300)
        size, reason = max(1, int(min(wanted, LONGEST_BATCH))), "repeats of one arm"
        most = min(math.inf if round.limit is None else round.limit, round.allowed[arm])
        if size > most:
            size, reason = int(most), "limit"
        feedback = float(round.posterior.leverage[arm])
        for _ in range(size):
            meter.count(Pick(arm, feedback, current))
        return Filled([arm] * size, reason, meter.ratio)


@dataclass(frozen=True)
class EpsilonGreedy:
    """The highest mean, or with probability `explore` a uniformly random arm; no arm twice in a batch."""

    explore: float

    def __post_init__(self) -> None:
        share("explore", self.explore)

    def fill(self, round: Round) -> Filled:
        """Greedy and random picks."""
        rng, meter = round.stream("explore"), _started_meter(round)
        leverage = round.posterior.leverage
        allowed = round.allowed
        means = np.where(allowed > 0, round.posterior.mean, -np.inf)
        arms: list[int] = []
        while True:
            if round.exactly and means.max() == -np.inf:  # every arm is in the batch: go round once more
                means = np.where(allowed > 0, round.posterior.mean, -np.inf)
            if means.max() == -np.inf:
                return Filled(arms, "no arm left", meter.ratio)
            left = np.flatnonzero(means > -np.inf)
            random = rng.random() < self.explore
            arm = int(rng.choice(left)) if random else int(np.argmax(means))
            means[arm] = -np.inf
            allowed[arm] -= 1
            arms.append(arm)
            reason = _verdict(round, meter, Pick(arm, float(leverage[arm]), float(leverage[arm])))
            stop = _reason_to_stop(round, len(arms), reason)
            if stop is not None:
                return Filled(arms, stop, meter.ratio)


@dataclass(frozen=True)
class ThompsonDraws:
    """Thompson sampling: each pick is the best arm of a function of its own, drawn from the posterior.

    The draws of a batch are independent, and results still out do not change them. `distinct` keeps an
    arm from entering a batch twice: a draw whose best arm is taken gives its next best.
    """

    batch_size: int = 1
    distinct: bool = False

    def fill(self, round: Round) -> Filled:
        """One pass over the pool for as many draws as fit into memory together."""
        meter, allowed, leverage = _started_meter(round), round.allowed, round.posterior.leverage
        scale = round.width / math.sqrt(round.posterior.ridge)
        limit = math.inf if round.limit is None else round.limit
        wanted = int(limit if round.exactly else min(self.batch_size, limit))
        arms: list[int] = []
        draws = draws_in_turn(round.posterior, round.prior, scale, wanted, round.stream("thompson"))
        left = allowed > 0
        for values in draws:
            if round.exactly and not left.any():  # every arm is in the batch: go round once more
                left = allowed > 0
            if not left.any():
                return Filled(arms, "no arm left", meter.ratio)
            arm = int(np.argmax(np.where(left, values, -np.inf)))
            allowed[arm] -= 1
            left[arm] = allowed[arm] > 0 and not self.distinct
            arms.append(arm)
            reason = _verdict(round, meter, Pick(arm, float(leverage[arm]), float(leverage[arm])))
            stop = _reason_to_stop(round, len(arms), reason)
            if stop is not None:
                return Filled(arms, stop, meter.ratio)
        return Filled(arms, "fixed size", meter.ratio)


@dataclass(frozen=True)
class Planned:
    """Arms settled before there was anything to learn from: an initial design, or what is left of it."""

    arms: tuple[int, ...]

    def fill(self, round: Round) -> Filled:
        """As many of them as may be, in order; a larger batch before any result is filled up at random."""
        most = len(self.arms) if round.limit is None else round.limit
        picked = [arm for arm in self.arms if round.allowed[arm] > 0][:most]
        round.allowed[picked] -= 1
        if round.exactly and len(picked) < most:
            picked += UniformStart().fill(replace(round, limit=most - len(picked))).arms
        return Filled(picked, "initial design", _counted(round, picked))


@dataclass(frozen=True)
class FirstThese:
    """Arms that are all in the batch anyway, then whatever fills the rest of it."""

    arms: tuple[int, ...]
    rest: Chooser

    def fill(self, round: Round) -> Filled:
        """The arms in order, hallucinated, and as many more as are wanted."""
        assert round.limit is not None, "only a batch of a given size can need more than there are"
        for arm in self.arms:
            round.overlay.pull(arm)
        round.allowed[list(self.arms)] -= 1
        more = self.rest.fill(replace(round, limit=round.limit - len(self.arms)))
        return replace(more, arms=[*self.arms, *more.arms])


@dataclass(frozen=True)
class UniformStart:
    """The first pull of a run: one arm uniformly at random, its own batch (spec §4, "Start")."""

    def fill(self, round: Round) -> Filled:
        """As many different random arms as were asked for exactly, else one."""
        size = round.limit if round.exactly and round.limit is not None else 1
        picked = np.empty(0, dtype=np.int64)
        while len(picked) < size:  # more than one turn only when every arm is taken and repeats are allowed
            left = np.flatnonzero(round.allowed > 0)
            turn = round.stream("start").permutation(left)[: size - len(picked)]
            round.allowed[turn] -= 1
            picked = np.concatenate([picked, turn])
        reason = "first arm" if size == 1 else "size asked for"
        return Filled(picked.tolist(), reason, _counted(round, picked.tolist()))


def _counted(round: Round, arms: list[int]) -> float:
    """The ratio after picks that no rule had to stop."""
    meter = _started_meter(round)
    for arm in arms:
        level = float(round.posterior.leverage[arm])
        meter.count(Pick(arm, level, level))
    return meter.ratio
