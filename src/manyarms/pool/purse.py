"""What the next pick of a batch may cost, so that the batch stays within a limit on its whole cost.

If the batch must have n arms, the k − 1 picks after the next one cost at least the sum S of the k − 1
cheapest pulls that are left. A next pick may therefore cost what is left minus S. If that pick is itself
among the cheapest, another pull takes its place in the sum, and the whole costs as much as the k cheapest
pulls, which fits already. So the one number `room` decides for every arm exactly, and it never grows from
pick to pick.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from manyarms.pool.costs import CostLimit
from manyarms.support.validation import Floats, Ints

_PART = 1 << 18  # arms that are compared together


class Purse:
    """The picks that a batch still needs, and what they may cost.

    `needed` is the number of picks of a batch of exactly so many, otherwise 1: then any pick may be the last.
    """

    def __init__(
        self,
        limit: CostLimit,
        needed: int,
        open_arms: Callable[[int, int], NDArray[np.bool_]],
        times: Callable[[int], float],
    ) -> None:
        """`open_arms` gives a flag for each arm of a range, `times` how often an arm may be chosen."""
        self.costs, self.left, self.needed, self._exactly = limit.costs, limit.room, needed, needed > 1
        # Every pick takes at most one arm from the cheapest ones, so as many as the batch needs suffice.
        arms = _cheapest(limit.costs, open_arms, needed)
        self._places = {arm: place for place, arm in enumerate(arms.tolist())}
        self._prices = limit.costs[arms]
        self._times = np.array([min(times(arm), float(needed)) for arm in arms.tolist()])

    def copy(self) -> Purse:
        """One that can be changed without changing this one."""
        other = copy.copy(self)
        other._times = self._times.copy()
        return other

    def cheapest_total(self, n: int) -> float:
        """What the n cheapest pulls cost that are left; infinite if there are not so many."""
        if n <= 0:
            return 0.0
        before = np.concatenate([[0.0], np.cumsum(self._times)[:-1]])
        picks = np.clip(n - before, 0.0, self._times)
        return float(picks @ self._prices) if picks.sum() >= n else np.inf

    @property
    def possible(self) -> bool:
        """Whether as many picks as are needed cost no more than what is left."""
        return self.cheapest_total(max(1, self.needed)) <= self.left

    @property
    def room(self) -> float:
        """What the next pick may cost."""
        return self.left - self.cheapest_total(self.needed - 1)

    def times(self, arm: int) -> float:
        """How often this arm may be chosen in a row; 0 if not even once."""
        cost = float(self.costs[arm])
        if self._exactly:
            return np.inf if cost <= self.room else 0.0
        return float(self.left // cost)

    def take(self, arm: int) -> None:
        """Count a pick of this arm."""
        self.left -= float(self.costs[arm])
        self.needed = max(self.needed - 1, 0) if self._exactly else self.needed
        place = self._places.get(arm)
        if place is not None:
            self._times[place] = max(self._times[place] - 1.0, 0.0)

    def close(self, arm: int) -> None:
        """This arm cannot be chosen any more."""
        place = self._places.get(arm)
        if place is not None:
            self._times[place] = 0.0


def _cheapest(costs: Floats, open_arms: Callable[[int, int], NDArray[np.bool_]], most: int) -> Ints:
    """The cheapest open arms in order of their costs, ties by index; no array of the size of the pool."""
    found: Ints = np.empty(0, dtype=np.int64)
    for start in range(0, len(costs), _PART):
        stop = min(start + _PART, len(costs))
        here = np.flatnonzero(open_arms(start, stop)) + start
        if len(found) >= most:
            here = here[costs[here] < costs[found[-1]]]
        found = np.concatenate([found, here])
        found = found[np.lexsort((found, costs[found]))][:most]
    return found
