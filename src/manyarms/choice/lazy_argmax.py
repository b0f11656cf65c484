"""Lazy evaluation of the highest upper confidence bound, for bounds that only decrease within a batch.

The bound of an arm at the last feedback remains valid as an upper limit for the whole batch. It is therefore
enough to track the exact bounds of a few arms: as long as the best of them exceeds the old bounds of all
other arms, no other arm has to be evaluated (BBKB l. 7–8, theory §5.1). The arms chosen are the
same as with eager evaluation of every arm.

Ties go to the lowest index. Two bounds count as tied if rounding errors can explain their difference. Arms
with equal features are then chosen by index, and the choice does not depend on the order of summation.
"""

from __future__ import annotations

import numpy as np

from manyarms.posterior.hallucination import Hallucination
from manyarms.posterior.posterior import Posterior
from manyarms.support.validation import Floats, Ints

TIE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}
_FIRST_SHORTLIST = 64


class LazyArgmax:
    """The allowed arm with the highest upper bound mean + width·σ̃_t, pick after pick within one batch.

    `overlay` holds the hallucinated pulls, and `allowed` the number of times that each arm may still be
    chosen (inf for no limit), which is decremented here. `lazy=False` evaluates every arm at every pick and
    serves as the reference. `mean=False` compares width·σ̃_t alone.
    """

    def __init__(
        self,
        posterior: Posterior,
        overlay: Hallucination,
        width: float,
        allowed: Floats,
        lazy: bool = True,
        mean: bool = True,
    ) -> None:
        self._overlay, self._lazy = overlay, lazy
        self._mean = posterior.mean if mean else np.zeros_like(posterior.mean)
        self._start = posterior.leverage
        self._start_std = np.sqrt(self._start)
        self._allowed = allowed
        self._tie = TIE[posterior.storage]
        self._tracked = np.zeros(len(allowed), dtype=bool)
        self._tracked[overlay.watched] = True
        self.widen(width)

    def widen(self, width: float) -> None:
        """Use another width from now on; this is the only event within a batch that can raise a bound."""
        self.width = width
        self._bounds = self._mean + width * self._start_std  # upper limits for arms not tracked yet
        self._slack = self._tie * max(float(np.abs(self._bounds).max()), 1e-300)
        self._bounds[self._tracked | (self._allowed <= 0)] = -np.inf
        self._shortlist: Ints = np.empty(0, dtype=np.int64)
        self._next = 0
        self._outside = float(self._bounds.max())

    def top(self) -> tuple[int, float]:
        """The arm with the highest current bound, and its current σ̃²; (-1, 0) if no arm is left."""
        if not self._overlay.pulls and self._lazy:  # before the first pull, all stored bounds are exact
            arm = _lowest_tied(self._bounds, self._outside - self._slack)
            return arm, float(self._start[arm]) if arm >= 0 else 0.0
        if not self._lazy:
            self._track(np.flatnonzero(~self._tracked & (self._allowed > 0)))
        while True:
            watched, leverage = self._overlay.watched, self._overlay.watched_leverage
            bounds = self._mean[watched] + self.width * np.sqrt(leverage)
            bounds[self._allowed[watched] <= 0] = -np.inf
            best = float(bounds.max(initial=-np.inf))
            if not self._track_rivals(best - self._slack):
                break
        if best == -np.inf:
            return -1, 0.0
        tied = np.flatnonzero(bounds >= best - self._slack)
        place = tied[np.argmin(watched[tied])]
        return int(watched[place]), float(leverage[place])

    def chosen(self, arm: int) -> None:
        """Record that `arm` was chosen; the caller has added the pull to the overlay."""
        self._allowed[arm] -= 1
        if not self._tracked[arm]:
            self._track(np.array([arm], dtype=np.int64))

    def _track_rivals(self, threshold: float) -> bool:
        """Track arms whose old bound reaches the threshold; False if there are none."""
        while True:
            rest = self._shortlist[self._next :]
            rivals = rest[self._bounds[rest] >= max(threshold, -1e308)]
            if len(rivals):
                # Highest bounds first and only some of them: the first few may already raise the threshold.
                rivals = rivals[: max(16, len(self._overlay.watched) // 2)]
                self._next += len(rivals)
                self._track(rivals)
                return True
            if np.any(self._bounds[rest] > -np.inf) or self._outside < threshold or self._outside == -np.inf:
                return False
            self._extend_shortlist()

    def _extend_shortlist(self) -> None:
        """Sort the highest remaining bounds; twice as many each time."""
        size = min(max(_FIRST_SHORTLIST, 2 * len(self._shortlist)), len(self._bounds))
        if size < len(self._bounds):
            candidates = np.argpartition(-self._bounds, size)[: size + 1]
        else:
            candidates = np.arange(len(self._bounds))
        order = candidates[np.lexsort((candidates, -self._bounds[candidates]))]
        order = order[self._bounds[order] > -np.inf]
        self._shortlist, self._next = order[:size], 0
        self._outside = float(self._bounds[order[size]]) if len(order) > size else -np.inf

    def _track(self, arms: Ints) -> None:
        if len(arms):
            self._tracked[arms] = True
            self._bounds[arms] = -np.inf
            self._overlay.watch(arms)


def _lowest_tied(bounds: Floats, threshold: float) -> int:
    return -1 if threshold == -np.inf else int(np.argmax(bounds >= threshold))
