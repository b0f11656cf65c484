"""Lazy evaluation of the highest upper confidence bound, for bounds that only decrease within a batch.

The bound of an arm at the last feedback remains valid as an upper limit for the whole batch. It is therefore
enough to track the exact bounds of a few arms: as long as the best of them exceeds the old bounds of all
other arms, no other arm has to be evaluated (BBKB l. 7–8, theory §5.1). The shards return a shortlist with
the bound of the next arm, and are asked again only if the contest falls below it. The arms chosen are the
same as with eager evaluation of every arm.

In a dense pool a pull lowers the bounds of very many arms. When too many would have to be tracked, the shards
compute the bounds of all arms after the pulls so far, in one pass, and the contest begins again from these.
What is kept here is therefore limited, whatever the size of the pool.

Ties go to the lowest index. Arms with equal features are then chosen by index, and the choice does not depend
on the order of summation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np

from manyarms.choice.highest import TIE, BoundRule, Gain, PullsSoFar, highest, peak
from manyarms.pool.allowance import Allowance
from manyarms.posterior.hallucination import Hallucination
from manyarms.posterior.posterior import Posterior
from manyarms.support.validation import Floats, Ints

_FIRST_SHORTLIST = 64
MOST_WATCHED = 1 << 16  # arms that are tracked at the same time
_NUMBERS = count()


class Value(Protocol):
    """A value of arms, for the shards and for a few arms here."""

    @property
    def gain(self) -> Gain:
        """The value as the shards compute it."""

    def at(self, arms: Ints, mean: Floats, std: Floats) -> Floats:
        """The values of a few arms."""


class _TooMany(Exception):  # noqa: N818
    """More arms would have to be tracked than are kept here."""


@dataclass(frozen=True)
class TopArm:
    """The arm with the highest bound (−1 if no arm is left), its σ̃² at the last feedback and at present."""

    arm: int
    feedback_leverage: float
    leverage: float


_NO_ARM = TopArm(-1, 0.0, 0.0)


class LazyArgmax:
    """The allowed arm with the highest upper bound mean + width·σ̃_t, pick after pick within one batch.

    `overlay` holds the hallucinated pulls, and `allowed` the number of times that each arm may still be
    chosen, which is decremented here. `lazy=False` evaluates every arm at every pick and serves as the
    reference. `mean=False` compares width·σ̃_t alone. With `value`, arms are compared by this value of
    their mean and their standard deviation, for which width·σ̃_t is taken.
    """

    def __init__(
        self,
        posterior: Posterior,
        overlay: Hallucination,
        width: float,
        allowed: Allowance,
        lazy: bool = True,
        mean: bool = True,
        value: Value | None = None,
    ) -> None:
        self._overlay, self._lazy, self._allowed = overlay, lazy, allowed
        self._over_pool = posterior.state.over_pool
        self._tie = TIE[posterior.storage]
        self._uses_mean, self._value = mean, value
        self._spare = self._tie * posterior.state.prior_max / posterior.ridge
        self._after: PullsSoFar | None = None  # the pulls that the shards' bounds take into account
        self._pulls_then = 0  # how many these are
        self._tracked = set(overlay.watched.tolist())
        self._open = np.array([allowed[arm] > 0 for arm in overlay.watched.tolist()], dtype=bool)
        self.widen(width)

    def widen(self, width: float) -> None:
        """Use another width from now on; this is the only event within a batch that can raise a bound."""
        self.width, self._rule = width, self._bound_rule(width, self._after)
        self._slack: float | None = None  # known once the shards have been asked
        self._shortlist: Ints = np.empty(0, dtype=np.int64)
        self._bounds = np.empty(0)  # of the shortlist
        self._next = 0
        self._outside = np.inf  # no bound outside the shortlist is higher

    def _bound_rule(self, width: float, after: PullsSoFar | None) -> BoundRule:
        return BoundRule(width, self._uses_mean, after, None if self._value is None else self._value.gain)

    def top(self) -> TopArm:
        """The arm with the highest current bound after which the batch can be completed."""
        while True:
            found = self._highest()
            if found.arm < 0 or self._allowed.confirms(found.arm):
                return found
            self._reopen()

    def _highest(self) -> TopArm:
        """The arm with the highest current bound."""
        if not self._overlay.pulls and self._lazy:  # before the first pull, all stored bounds are exact
            first = peak(self._over_pool, self._rule, self._allowed, self._tie)
            self._slack = self._tie * first.scale
            return TopArm(first.arm, first.leverage, first.leverage) if first.arm >= 0 else _NO_ARM
        if not self._lazy:
            self._track(np.array([a for a in self._allowed.open_arms() if a not in self._tracked], dtype=int))
        try:
            return self._won()
        except _TooMany:
            self._begin_again()
        try:
            return self._won()
        except _TooMany:  # so many are tied
            return self._said_by_shards()

    def _won(self) -> TopArm:
        """The winner of the contest among the tracked arms and all that may rival them."""
        if self._slack is None:
            self._extend_shortlist()
        while True:
            watched, leverage = self._overlay.watched_rows, self._overlay.watched_leverage
            bounds = self.width * np.sqrt(leverage)
            if self._value is not None:
                bounds = self._value.at(self._overlay.watched, watched.mean, bounds)
            elif self._uses_mean:
                bounds += watched.mean
            bounds[~self._open] = -np.inf
            best = float(bounds.max(initial=-np.inf))
            assert self._slack is not None
            if not self._track_rivals(best - self._slack):
                break
        if best == -np.inf:
            return _NO_ARM
        tied = np.flatnonzero(bounds >= best - self._slack)
        place = tied[np.argmin(self._overlay.watched[tied])]
        arm = int(self._overlay.watched[place])
        return TopArm(arm, float(watched.leverage[place]), float(leverage[place]))

    def _begin_again(self) -> None:
        """Track no arm, and let the shards take the pulls so far into account."""
        if self._pulls_then != len(self._overlay.pulls):
            self._after = PullsSoFar(self._overlay.message(), next(_NUMBERS), self._spare)
            self._pulls_then = len(self._overlay.pulls)
        self._overlay.forget_watched()
        self._tracked, self._open = set(), np.empty(0, dtype=bool)
        self.widen(self.width)

    def _said_by_shards(self) -> TopArm:
        """The arm with the highest bound according to the shards, which know all pulls so far."""
        after = PullsSoFar(self._overlay.message(), next(_NUMBERS))
        rule = self._bound_rule(self.width, after)
        first = peak(self._over_pool, rule, self._allowed, self._tie)
        self.widen(self.width)  # the shortlist was left in the middle of a contest
        if first.arm < 0:
            return _NO_ARM
        now = self._overlay.leverage(np.array([first.arm]))
        return TopArm(first.arm, first.leverage, float(now[0]))

    def chosen(self, arm: int) -> None:
        """Record that `arm` was chosen; the caller has added the pull to the overlay."""
        mask = self._allowed.mask
        self._allowed.take([arm])
        if arm not in self._tracked:
            self._track(np.array([arm], dtype=np.int64), at_any_size=True)
        if self._allowed.mask is not mask:  # a group of arms has been closed
            self._reopen()
        elif not self._allowed[arm] > 0:
            self._open[np.flatnonzero(self._overlay.watched == arm)[0]] = False

    def _reopen(self) -> None:
        """Look again at which of the tracked arms may be chosen."""
        watched = self._overlay.watched.tolist()
        self._open = np.array([self._allowed[each] > 0 for each in watched], dtype=bool)

    def _track_rivals(self, threshold: float) -> bool:
        """Track arms whose old bound reaches the threshold; False if there are none."""
        while True:
            rest = slice(self._next, len(self._shortlist))
            arms = self._shortlist[rest][self._bounds[rest] >= max(threshold, -1e308)]
            if len(arms):
                # Highest bounds first and only some of them: the first few may already raise the threshold.
                arms = arms[: max(16, len(self._overlay.watched) // 2)]
                self._next += len(arms)
                fresh = [arm for arm in arms.tolist() if arm not in self._tracked]
                if fresh:
                    self._track(np.array(fresh, dtype=np.int64))
                    return True
                continue
            if self._next < len(self._shortlist) or self._outside < threshold or self._outside == -np.inf:
                return False
            self._extend_shortlist()

    def _extend_shortlist(self) -> None:
        """Ask the shards for the highest bounds of arms not tracked yet; twice as many each time."""
        size = max(_FIRST_SHORTLIST, 2 * len(self._shortlist))
        found = highest(self._over_pool, self._rule, self._allowed, self._overlay.watched, size)
        self._shortlist, self._bounds, self._next = found.arms, found.bounds, 0
        self._outside, self._slack = found.beyond, self._tie * found.scale

    def _track(self, arms: Ints, at_any_size: bool = False) -> None:
        too_many = len(self._tracked) + len(arms) > MOST_WATCHED
        if too_many and self._lazy and not at_any_size:
            raise _TooMany
        if len(arms):
            self._tracked.update(arms.tolist())
            self._open = np.concatenate([self._open, [self._allowed[arm] > 0 for arm in arms.tolist()]])
            self._overlay.watch(arms)
