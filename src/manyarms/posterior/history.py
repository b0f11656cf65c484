"""What has been measured: pull counts, reward sums and sums of squares, one entry per arm ever pulled."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from manyarms.errors import InvalidRewardError
from manyarms.support.validation import Floats, Ints, arm_index, arm_indices, count, finite_rewards


class History:
    """Sufficient statistics of all rewards; its size is the number of *different* arms pulled."""

    def __init__(self, n_arms: int) -> None:
        self.n_arms = count("n_arms", n_arms)
        self._place: dict[int, int] = {}
        self._arms: list[int] = []
        self._totals = np.zeros((3, 16))  # counts, sums, squares, by order of first pull

    def __len__(self) -> int:
        return len(self._arms)

    @property
    def pulls(self) -> int:
        """t, the number of rewards seen."""
        return int(self._totals[0].sum())

    @property
    def arms(self) -> Ints:
        """Different arms pulled, in order of their first pull."""
        return np.array(self._arms, dtype=np.int64)

    @property
    def counts(self) -> Floats:
        """Pulls of each of `arms`."""
        return self._totals[0, : len(self)].copy()

    @property
    def sums(self) -> Floats:
        """Sum of rewards of each of `arms`."""
        return self._totals[1, : len(self)].copy()

    @property
    def squares(self) -> Floats:
        """Sum of squared rewards of each of `arms`."""
        return self._totals[2, : len(self)].copy()

    def count_of(self, arm: int) -> int:
        """Pulls of one arm, zero when it was never pulled."""
        place = self._place.get(arm_index(arm, self.n_arms))
        return 0 if place is None else int(self._totals[0, place])

    def add(self, arms: ArrayLike, rewards: ArrayLike) -> None:
        """Count these pulls; nothing changes when one of them is invalid."""
        indices = arm_indices(arms, self.n_arms)
        self.record(indices, finite_rewards(rewards, len(indices)))

    def record(self, indices: Ints, values: Floats) -> None:
        """`add` for arms and rewards known to be right; only a sum that overflows is refused."""
        if len(indices) == 1:  # the usual step
            self._add_one(int(indices[0]), float(values[0]))
            return
        different, inverse = np.unique(indices, return_inverse=True)
        fresh = [arm for arm in dict.fromkeys(indices.tolist()) if arm not in self._place]
        new_place = {arm: len(self) + i for i, arm in enumerate(fresh)}
        places = [new_place.get(arm, self._place.get(arm, -1)) for arm in different.tolist()]
        self._reserve(len(self) + len(fresh))
        totals = self._totals[:, places]
        with np.errstate(over="ignore"):
            for row, amount in enumerate((np.ones_like(values), values, values * values)):
                np.add.at(totals[row], inverse, amount)  # one by one: the same sums however pulls are batched
        too_large = np.asarray(~np.isfinite(totals).all(axis=0))[inverse]
        if too_large.any():
            raise InvalidRewardError(f"reward {values[too_large][0]} is too large: its square overflows")
        self._totals[:, places] = totals
        self._arms += fresh
        self._place.update(new_place)

    def _add_one(self, arm: int, value: float) -> None:
        place = self._place.get(arm, len(self))
        if not math.isfinite(value * value):
            raise InvalidRewardError(f"reward {value} is too large: its square overflows")
        self._reserve(place + 1)
        total = self._totals[:, place] + (1.0, value, value * value)
        if not math.isfinite(total[2]):
            raise InvalidRewardError(f"reward {value} is too large: the sum of squares overflows")
        self._totals[:, place] = total
        if place == len(self):
            self._arms.append(arm)
            self._place[arm] = place

    def restore(self, arms: Ints, counts: Floats, sums: Floats, squares: Floats) -> None:
        """Replace everything by statistics read from another history."""
        self._arms = arms.tolist()
        self._place = {arm: place for place, arm in enumerate(self._arms)}
        self._totals = np.array([counts, sums, squares], dtype=np.float64)

    def _reserve(self, size: int) -> None:
        if size > self._totals.shape[1]:
            self._totals = np.pad(self._totals, ((0, 0), (0, 2 * size - self._totals.shape[1])))


def grouped(arms: Ints, rewards: Floats) -> tuple[Ints, Floats, Floats]:
    """Different arms (in order of appearance), pulls of each and reward sum of each."""
    if len(arms) == 1:  # the usual step
        return arms, np.ones(1), rewards.copy()
    unique, first, inverse = np.unique(arms, return_index=True, return_inverse=True)
    order = np.argsort(first)
    counts = np.bincount(inverse, minlength=len(unique)).astype(np.float64)
    sums = np.bincount(inverse, weights=rewards, minlength=len(unique)).astype(np.float64)
    return unique[order].astype(np.int64), counts[order], sums[order]
