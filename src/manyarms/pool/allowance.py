"""How often each arm may still be chosen, without an array of the size of the pool."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.support.validation import Ints

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


class Allowance:
    """The number of times that each arm may still be chosen (infinite if there is no limit).

    Most arms share one number; the others are exceptions. A `mask` that the caller gives excludes arms. Only
    the mask, if there is one, has the size of the pool.
    """

    def __init__(
        self,
        n_arms: int,
        times: float = math.inf,
        *,
        exceptions: Mapping[int, float] | None = None,
        mask: NDArray[np.bool_] | None = None,
    ) -> None:
        self.n_arms, self.times, self.mask = n_arms, times, mask
        self._changed: dict[int, float] = {}  # what `take` and `close` changed
        given = exceptions or {}
        if not given:
            self._arms, self._limits = _NO_ARMS, _NO_LIMITS
            return
        arms = np.fromiter(given.keys(), dtype=np.int64, count=len(given))
        order = np.argsort(arms)
        self._arms = arms[order]
        self._limits = np.fromiter(given.values(), dtype=np.float64, count=len(given))[order]

    @classmethod
    def of(cls, times: ArrayLike) -> Allowance:
        """The allowance with these numbers, one per arm."""
        numbers = np.asarray(times, dtype=np.float64).tolist()
        return cls(len(numbers), 0.0, exceptions=dict(enumerate(numbers)))

    def copy(self) -> Allowance:
        """An allowance that can be changed without changing this one."""
        other = copy.copy(self)
        other._changed = dict(self._changed)
        return other

    def __getitem__(self, arm: int) -> float:
        return 0.0 if self.mask is not None and not self.mask[arm] else self._times_of(int(arm))

    def close(self, arms: Iterable[int]) -> None:
        """Exclude these arms."""
        self._changed |= {int(arm): 0.0 for arm in arms}

    def take(self, arms: Iterable[int]) -> None:
        """Count each of these arms as chosen once more."""
        for arm in arms:
            now = self._times_of(int(arm))
            if now != math.inf:
                self._changed[int(arm)] = now - 1.0

    def _times_of(self, arm: int) -> float:
        """The number for an arm, whatever the mask says."""
        if arm in self._changed:
            return self._changed[arm]
        place = int(np.searchsorted(self._arms, arm))
        return (
            float(self._limits[place]) if place < len(self._arms) and self._arms[place] == arm else self.times
        )

    # ------------------------------------------------------------------ the arms that may be chosen

    @property
    def total(self) -> float:
        """The number of pulls that are allowed in all."""
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
        return np.flatnonzero(self.within(0, self.n_arms).flags(self.n_arms))
