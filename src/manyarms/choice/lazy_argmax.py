"""Which arm has the highest upper confidence bound, when inside a batch bounds can only fall.

An arm's bound at the last feedback stays an upper limit for the whole batch. So it is enough to keep the
exact bound of a few contenders: while the best of them beats the old bound of everybody else, nobody
else needs a look (BBKB l. 7–8, theory §5.1). The sequence of arms is the eager one.

Ties go to the lowest index. Two bounds that differ by less than rounding can explain count as tied:
equal rows of features are then chosen by index, and the same arms come out whatever the order in which
sums were rounded.
"""

from __future__ import annotations

import numpy as np

from manyarms.posterior.hallucination import Hallucination
from manyarms.posterior.posterior import Posterior
from manyarms.support.validation import Floats, Ints

TIE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}
_FIRST_SHORTLIST = 64


class LazyArgmax:
    """The arms that may be chosen in one batch, by falling upper bounds mean + width·σ̃_t.

    `allowed` is how often each arm may still be chosen (inf for no limit); it is counted down here.
    `lazy=False` follows every arm at every pick and serves as the reference.
    """

    def __init__(
        self, posterior: Posterior, overlay: Hallucination, width: float, allowed: Floats, lazy: bool = True
    ) -> None:
        self._overlay, self._lazy = overlay, lazy
        self._mean = posterior.mean
        self._start = overlay.leverage() if overlay.pulls else posterior.leverage
        self._start_std = np.sqrt(self._start)
        self._allowed = allowed
        self._tie = TIE[posterior.storage]
        self._contending = np.zeros(len(allowed), dtype=bool)
        self._contending[overlay.watched] = True
        self.widen(width)

    def widen(self, width: float) -> None:
        """Use another width from now on; the only event in a batch that can raise a bound."""
        self.width = width
        self._bounds = self._mean + width * self._start_std  # upper limits for arms that do not contend yet
        self._slack = self._tie * max(float(np.abs(self._bounds).max()), 1e-300)
        self._bounds[self._contending | (self._allowed <= 0)] = -np.inf
        self._shortlist: Ints = np.empty(0, dtype=np.int64)
        self._next = 0
        self._outside = float(self._bounds.max())

    def top(self) -> tuple[int, float]:
        """The arm with the highest bound now, and its σ̃² now; (-1, 0) when no arm is left."""
        if not self._overlay.pulls and self._lazy:  # before the first pull all bounds are exact
            arm = _lowest_tied(self._bounds, self._outside - self._slack)
            return arm, float(self._start[arm]) if arm >= 0 else 0.0
        if not self._lazy:
            self._admit(np.flatnonzero(~self._contending & (self._allowed > 0)))
        while True:
            watched, leverage = self._overlay.watched, self._overlay.watched_leverage
            bounds = self._mean[watched] + self.width * np.sqrt(leverage)
            bounds[self._allowed[watched] <= 0] = -np.inf
            best = float(bounds.max(initial=-np.inf))
            if not self._admit_rivals(best - self._slack):
                break
        if best == -np.inf:
            return -1, 0.0
        tied = np.flatnonzero(bounds >= best - self._slack)
        place = tied[np.argmin(watched[tied])]
        return int(watched[place]), float(leverage[place])

    def chosen(self, arm: int) -> None:
        """`arm` was pulled (the overlay knows): one choice of it less is left."""
        self._allowed[arm] -= 1
        if not self._contending[arm]:
            self._admit(np.array([arm], dtype=np.int64))

    def _admit_rivals(self, threshold: float) -> bool:
        """Let in arms whose old bound reaches the threshold; False when there is none."""
        while True:
            rest = self._shortlist[self._next :]
            rivals = rest[self._bounds[rest] >= max(threshold, -1e308)]
            if len(rivals):
                # Best first and not all at once: the first few may already raise the bar for the others.
                rivals = rivals[: max(16, len(self._overlay.watched) // 2)]
                self._next += len(rivals)
                self._admit(rivals)
                return True
            if np.any(self._bounds[rest] > -np.inf) or self._outside < threshold or self._outside == -np.inf:
                return False
            self._extend_shortlist()

    def _extend_shortlist(self) -> None:
        """The highest remaining bounds, sorted; twice as many each time."""
        size = min(max(_FIRST_SHORTLIST, 2 * len(self._shortlist)), len(self._bounds))
        if size < len(self._bounds):
            candidates = np.argpartition(-self._bounds, size)[: size + 1]
        else:
            candidates = np.arange(len(self._bounds))
        order = candidates[np.lexsort((candidates, -self._bounds[candidates]))]
        order = order[self._bounds[order] > -np.inf]
        self._shortlist, self._next = order[:size], 0
        self._outside = float(self._bounds[order[size]]) if len(order) > size else -np.inf

    def _admit(self, arms: Ints) -> None:
        if len(arms):
            self._contending[arms] = True
            self._bounds[arms] = -np.inf
            self._overlay.watch(arms)


def _lowest_tied(bounds: Floats, threshold: float) -> int:
    return -1 if threshold == -np.inf else int(np.argmax(bounds >= threshold))
