"""How often each arm may still be chosen, without an array of the size of the pool."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.pool.completion import Cells, Completion
from manyarms.pool.costs import CostLimit
from manyarms.pool.purse import Purse
from manyarms.support.validation import Floats, Ints

_NO_ARMS, _NO_LIMITS = np.empty(0, dtype=np.int64), np.empty(0)


@dataclass(frozen=True)
class OpenArms:
    """Which arms of one range may be chosen: all or none, except some, and within a mask if there is one.

    `exceptions` are positions within the range. This is what a shard is told of an allowance.
    """

    by_default: bool
    exceptions: Ints
    mask: NDArray[np.bool_] | None

    @property
    def all_open(self) -> bool:
        """Whether every arm of the range may be chosen."""
        return self.by_default and not len(self.exceptions) and self.mask is None

    def flags(self, n_arms: int) -> NDArray[np.bool_]:
        """For each arm of the range, whether it may be chosen."""
        flags = np.full(n_arms, self.by_default)
        flags[self.exceptions] = not self.by_default
        return flags if self.mask is None else flags & self.mask


@dataclass(frozen=True, eq=False)
class GroupLimit:
    """At most `most` of the arms that are chosen may belong to one group.

    `groups` holds the number of each arm's group, from 0 to `n_groups` − 1.
    """

    groups: Ints
    n_groups: int
    most: int


class Allowance:
    """The number of times that each arm may still be chosen (infinite if there is no limit).

    Most arms share one number; the others are exceptions. A `mask` that the caller gives excludes arms. With
    `limits`, a group of arms is excluded as soon as enough of them have been chosen. With several limits, an
    arm may also leave a batch of `needed` arms that cannot be completed; `confirms` says so, also of an arm
    that costs more than `cost_limit` leaves for it. Only the mask, the groups of the limits and the costs, if
    there are any, have the size of the pool.
    """

    def __init__(
        self,
        n_arms: int,
        times: float = math.inf,
        *,
        exceptions: Mapping[int, float] | None = None,
        mask: NDArray[np.bool_] | None = None,
        limits: Sequence[GroupLimit] = (),
        needed: int = 0,
        cost_limit: CostLimit | None = None,
    ) -> None:
        self.n_arms, self.times, self.mask = n_arms, times, mask
        self._changed: dict[int, float] = {}  # what `take` and `close` changed
        self._limited = tuple(limits)
        self._taken = tuple(np.zeros(limit.n_groups, dtype=np.int64) for limit in limits)  # by group
        given = exceptions or {}
        self._arms, self._limits = _NO_ARMS, _NO_LIMITS
        if given:
            arms = np.fromiter(given.keys(), dtype=np.int64, count=len(given))
            order = np.argsort(arms)
            self._arms = arms[order]
            self._limits = np.fromiter(given.values(), dtype=np.float64, count=len(given))[order]
        self._needed = needed
        self._completion = self._begun() if len(self._limited) > 1 and needed > 1 else None
        self._purse: Purse | None = None
        if cost_limit is not None:
            self._purse = Purse(cost_limit, max(needed, 1), self._open_flags, self._times_of)
            self._close_costly()

    def _begun(self) -> Completion:
        """What is needed to complete the batch, before any arm was chosen."""
        cells = Cells.of(
            [limit.groups for limit in self._limited], [limit.n_groups for limit in self._limited]
        )
        times = self._all_times(self._needed)
        available = np.bincount(cells.of_arms, times, len(cells.groups)).astype(np.int64)
        left = [np.full(limit.n_groups, limit.most) for limit in self._limited]
        return Completion(cells, available, left, self._needed)

    def _all_times(self, most: int) -> Floats:
        """The number for every arm, at most so many."""
        times = np.full(self.n_arms, max(self.times, 0.0))
        times[self._arms] = self._limits
        times[list(self._changed)] = list(self._changed.values())
        times = np.clip(times, 0.0, most)  # so that no number is infinite
        if self.mask is not None:
            times[~self.mask] = 0.0
        return np.asarray(times)

    @classmethod
    def of(cls, times: ArrayLike) -> Allowance:
        """The allowance with these numbers, one per arm."""
        numbers = np.asarray(times, dtype=np.float64).tolist()
        return cls(len(numbers), 0.0, exceptions=dict(enumerate(numbers)))

    def copy(self) -> Allowance:
        """An allowance that can be changed without changing this one."""
        other = copy.copy(self)
        other._changed = dict(self._changed)
        other._taken = tuple(taken.copy() for taken in self._taken)
        other._completion = self._completion and self._completion.copy()
        other._purse = self._purse and self._purse.copy()
        return other

    def __getitem__(self, arm: int) -> float:
        if self.mask is not None and not self.mask[arm]:
            return 0.0
        limited = zip(self._limited, self._taken, strict=True)
        rooms: list[float] = [limit.most - int(taken[limit.groups[arm]]) for limit, taken in limited]
        if self._purse is not None:
            rooms.append(max(self._purse.times(arm), 1.0))  # `confirms` says whether even one is too many
        return min([self._times_of(int(arm)), *rooms])

    def close(self, arms: Iterable[int]) -> None:
        """Exclude these arms."""
        closed = {int(arm): 0.0 for arm in arms}
        if self._completion is not None:
            for arm in closed:
                if self.mask is None or self.mask[arm]:
                    self._completion.fewer(arm, int(min(self._times_of(arm), self._needed)))
        if self._purse is not None:
            for arm in closed:
                self._purse.close(arm)
        self._changed |= closed

    def confirms(self, arm: int) -> bool:
        """Whether the batch can be completed after this arm; if not, the arm is excluded.

        If the arm costs too much, so does every arm that costs more, and all of these are excluded.
        """
        if self._purse is not None and not self._purse.times(arm) > 0:
            self._close_costly()
            return False
        now = self._completion
        if now is None or now.allows(arm):
            return True
        open_cells = now.refused(arm)[now.cells.of_arms]
        self.mask = open_cells if self.mask is None else self.mask & open_cells
        return False

    def _close_costly(self) -> None:
        """Exclude the arms that cost more than there is room for."""
        assert self._purse is not None
        cheap = self._purse.costs <= self._purse.room
        if not cheap.all():
            self.mask = cheap if self.mask is None else self.mask & cheap

    def take(self, arms: Iterable[int]) -> None:
        """Count each of these arms as chosen once more."""
        for arm in arms:
            if self._purse is not None:
                self._purse.take(int(arm))
            now = self._times_of(int(arm))
            if now != math.inf:
                self._changed[int(arm)] = now - 1.0
            if self._completion is not None:
                self._completion.take(arm)
                if now <= self._needed:
                    self._completion.fewer(arm, 1)
            for limit, taken in zip(self._limited, self._taken, strict=True):
                group = limit.groups[arm]
                taken[group] += 1
                if taken[group] == limit.most:
                    others = limit.groups != group  # a new mask: copies of this allowance share the old one
                    self.mask = others if self.mask is None else self.mask & others

    def take_possible(self, arms: Iterable[int]) -> list[int]:
        """Take these arms in order, leaving out those that may not be chosen any more; returns the others."""
        taken = []
        for arm in arms:
            if self[arm] > 0 and self.confirms(arm):
                self.take([arm])
                taken.append(arm)
        return taken

    def _times_of(self, arm: int) -> float:
        """The number for an arm, whatever the mask says."""
        if arm in self._changed:
            return self._changed[arm]
        place = int(np.searchsorted(self._arms, arm))
        return (
            float(self._limits[place]) if place < len(self._arms) and self._arms[place] == arm else self.times
        )

    # ------------------------------------------------------------------ the arms that may be chosen

    def allows(self, n: int) -> bool:
        """Whether so many pulls are allowed, as many as the batch was said to need if there are limits."""
        possible = self._completion is None or self._completion.possible
        return self.total >= n and possible and (self._purse is None or self._purse.possible)

    def cheapest_total(self, n: int) -> float:
        """What the n cheapest pulls cost that are allowed; n is at most the number that was needed."""
        return 0.0 if self._purse is None else self._purse.cheapest_total(n)

    @property
    def has_group_limits(self) -> bool:
        """Whether only so many arms of a group may be chosen."""
        return bool(self._limited)

    @property
    def total(self) -> float:
        """The number of pulls that are allowed in all; with several limits, an upper bound on it."""
        return min([self._total_without_limits(), *map(self._total_within, range(len(self._limited)))])

    def _total_within(self, place: int) -> float:
        """The number of pulls that are allowed in all if only this limit is kept."""
        limit, taken = self._limited[place], self._taken[place]
        times = self._all_times(limit.most)
        by_group = np.bincount(limit.groups, times, limit.n_groups)
        return float(np.minimum(by_group, limit.most - taken).sum())

    def _total_without_limits(self) -> float:
        if self.mask is None and not len(self._arms) and not self._changed:
            return max(self.times, 0.0) * self.n_arms
        exceptions = dict(zip(self._arms.tolist(), self._limits.tolist(), strict=True)) | self._changed
        if self.mask is not None:
            exceptions = {arm: times for arm, times in exceptions.items() if self.mask[arm]}
        ordinary = (self.n_arms if self.mask is None else int(np.count_nonzero(self.mask))) - len(exceptions)
        most = max(self.times, 0.0) * ordinary if ordinary else 0.0
        return float(most + sum(max(times, 0.0) for times in exceptions.values()))

    @property
    def n_open(self) -> int:
        """The number of arms that may be chosen."""
        if self.mask is not None:
            return len(self._open_list())
        exceptional = len(self._exceptional())
        return self.n_arms - exceptional if self.times > 0 else exceptional

    def nth_open(self, ranks: Ints) -> Ints:
        """The arms with these ranks (from 0) among those that may be chosen, in order of index."""
        if self.mask is not None or self.times <= 0:
            return np.asarray(self._open_list()[ranks])
        closed = self._exceptional()
        skipped = np.searchsorted(closed - np.arange(len(closed)), ranks, side="right")
        return np.asarray(ranks + skipped, dtype=np.int64)

    def open_arms(self) -> Ints:
        """All arms that may be chosen, in order."""
        return self._open_list() if self.mask is not None else self.nth_open(np.arange(self.n_open))

    def within(self, first: int, stop: int) -> OpenArms:
        """Which arms from `first` to before `stop` may be chosen."""
        exceptional = self._exceptional()
        if (first, stop) != (0, self.n_arms):
            begin, end = np.searchsorted(exceptional, [first, stop])
            exceptional = exceptional[begin:end] - first
        mask = None if self.mask is None else self.mask[first:stop]
        return OpenArms(self.times > 0, exceptional, mask)

    def _exceptional(self) -> Ints:
        """The arms that may be chosen if the others may not, or the other way round, in order."""
        if not len(self._arms) and not self._changed:
            return self._arms
        ordinary = self.times > 0
        arms = self._arms[(self._limits > 0) != ordinary]
        if not self._changed:
            return np.asarray(arms)
        changed = np.fromiter(self._changed.keys(), dtype=np.int64, count=len(self._changed))
        now = np.fromiter(self._changed.values(), dtype=np.float64, count=len(changed))
        arms = arms[~np.isin(arms, changed)]
        return np.asarray(np.sort(np.concatenate([arms, changed[(now > 0) != ordinary]])))

    def _open_list(self) -> Ints:
        return np.flatnonzero(self._open_flags(0, self.n_arms))

    def _open_flags(self, first: int, stop: int) -> NDArray[np.bool_]:
        return self.within(first, stop).flags(stop - first)
