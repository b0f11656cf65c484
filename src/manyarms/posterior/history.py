"""The history of a run: pull count, reward sum and sum of squared rewards of every arm ever pulled."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manyarms.errors import InvalidRewardError
from manyarms.posterior.own_noise import ROWS, OwnNoise
from manyarms.support.append_log import AppendLog
from manyarms.support.validation import Floats, Ints, arm_index, arm_indices, count, finite_rewards


class History:
    """Sufficient statistics of all rewards (theory §2.1); `len` is the number of *different* arms pulled.

    `n_arms` is the number of arms of the pool. `added` returns a longer history and does not modify this one;
    `add` modifies it in place. See theory §2.1. Once a result has come with its own noise, `own` has what a
    learned model needs of it (theory §8.10); until then all results are single measurements of equal noise.
    """

    def __init__(self, n_arms: int) -> None:
        self.n_arms = count("n_arms", n_arms)
        self._arms: AppendLog[int] = AppendLog()
        self._places: dict[int, int] = {}  # arm → column of _totals; a hint, shared with extended copies
        # 3 × arms: counts, sums, squares, in order of the first pull; 9 × arms with the rows of `own`
        self._totals: Floats = np.zeros((3, 0))

    def __len__(self) -> int:
        return len(self._arms)

    @property
    def pulls(self) -> int:
        """t, the number of rewards."""
        return int(self._totals[0].sum())

    @property
    def arms(self) -> Ints:
        """The different arms pulled, in order of their first pull."""
        return np.fromiter(self._arms, dtype=np.int64, count=len(self))

    @property
    def counts(self) -> Floats:
        """The number of pulls of each of `arms`."""
        return np.array(self._totals[0])

    @property
    def sums(self) -> Floats:
        """The sum of the rewards of each of `arms`."""
        return np.array(self._totals[1])

    @property
    def squares(self) -> Floats:
        """The sum of the squared rewards of each of `arms`."""
        return np.array(self._totals[2])

    @property
    def own(self) -> Floats:
        """By arm (columns): of results with the learned noise, the number of measurements behind them, with
        these weights the sums of rewards and of squared rewards, and the number of results; of results with a
        stated noise, the sums of 1/noise² and of rewards/noise².
        """
        if len(self._totals) > 3:
            return np.array(self._totals[3:])
        return _usual(self._totals)

    @property
    def has_own_noise(self) -> bool:
        """Whether any result came with its own noise."""
        return len(self._totals) > 3

    def count_of(self, arm: int) -> int:
        """The number of pulls of one arm (an index); 0 if it was never pulled."""
        place = self._place(arm_index(arm, self.n_arms))
        return 0 if place is None else int(self._totals[0, place])

    def add(self, arms: ArrayLike, rewards: ArrayLike) -> None:
        """Record one reward for each of these arm indices; if one is invalid, nothing is recorded."""
        self.__dict__.update(self.added(arms, rewards).__dict__)

    def added(self, arms: ArrayLike, rewards: ArrayLike) -> History:
        """A new history with one more reward for each of these arm indices (repetition allowed)."""
        indices = arm_indices(arms, self.n_arms)
        return self.recorded(indices, finite_rewards(rewards, len(indices)))

    def recorded(self, indices: Ints, values: Floats, noise: OwnNoise | None = None) -> History:
        """`added` for arms and rewards that are already validated; an overflowing sum is an error."""
        if not len(indices):
            return self
        own = self.has_own_noise or not (noise is None or noise.is_usual)
        if len(indices) == 1 and not own:  # the common case
            return self._with_one(int(indices[0]), float(values[0]))
        places: dict[int, int] = {}
        fresh: list[int] = []
        for arm in dict.fromkeys(indices.tolist()):
            place = self._place(arm)
            if place is None:
                place = len(self) + len(fresh)
                fresh.append(arm)
            places[arm] = place
        totals = np.zeros((3 + ROWS * own, len(self) + len(fresh)))
        totals[:3, : len(self)] = self._totals[:3]
        with np.errstate(over="ignore", invalid="ignore"):
            where = [places[arm] for arm in indices.tolist()]
            amounts = [np.ones_like(values), values, values * values]
            if own:
                totals[3:, : len(self)] = self.own
                amounts += (noise or OwnNoise.usual(len(values))).rows(values)
            for row, amount in enumerate(amounts):
                np.add.at(totals[row], where, amount)  # one by one, so that batches do not change the sums
        if not np.isfinite(totals).all():
            overflow = np.asarray(~np.isfinite(totals).all(axis=0))
            reward = next(v for arm, v in zip(indices.tolist(), values, strict=True) if overflow[places[arm]])
            raise _too_large(reward)
        return self._with(self.n_arms, self._arms.added(fresh), {arm: places[arm] for arm in fresh}, totals)

    def _with_one(self, arm: int, value: float) -> History:
        place = self._place(arm)
        new = {} if place is not None else {arm: len(self)}
        at = len(self) if place is None else place
        totals = np.zeros((3, len(self) + len(new)))
        totals[:, : len(self)] = self._totals
        sums, squares = float(totals[1, at]) + value, float(totals[2, at]) + value * value
        if not math.isfinite(squares):
            raise _too_large(value)
        totals[:, at] = totals[0, at] + 1.0, sums, squares
        return self._with(self.n_arms, self._arms.added(new), new, totals)

    def on(self, n_arms: int) -> History:
        """The same results on a pool of `n_arms` arms that begins with the present ones."""
        return self._with(n_arms, self._arms, {}, self._totals)

    def relabelled(self, label: Callable[[Ints], Ints], n_arms: int) -> History:
        """The same results with arm indices mapped by `label`, on a pool of `n_arms` arms."""
        return History.from_plain(self.to_plain() | {"arms": label(self.arms)}, n_arms)

    def with_rewards(self, sums: Floats, squares: Floats) -> History:
        """The same pulls with other rewards: their sums and sums of squares, in the order of `arms`."""
        return History.from_plain(self.to_plain() | {"sums": sums, "squares": squares}, self.n_arms)

    def negated(self) -> History:
        """The same pulls with every reward negated."""
        signs = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0, -1.0])[: len(self._totals), None]
        return self._with(self.n_arms, self._arms, {}, signs * self._totals + 0.0)  # never −0

    def to_plain(self) -> dict[str, Any]:
        """The history as arrays with an entry for each arm."""
        plain = {"arms": self.arms, "counts": self.counts, "sums": self.sums, "squares": self.squares}
        return plain | ({"own": self.own} if self.has_own_noise else {})

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], n_arms: int) -> History:
        """The history that `to_plain` wrote."""
        arms = np.asarray(plain["arms"], dtype=np.int64).tolist()
        totals = np.array(
            [plain["counts"], plain["sums"], plain["squares"], *plain.get("own", ())], dtype=np.float64
        )
        places = {arm: place for place, arm in enumerate(arms)}
        return cls(n_arms)._with(n_arms, AppendLog(arms), places, totals)

    def _with(self, n_arms: int, arms: AppendLog[int], new: dict[int, int], totals: Floats) -> History:
        longer = History.__new__(History)
        self._places.update(new)
        longer.n_arms, longer._arms, longer._places, longer._totals = n_arms, arms, self._places, totals
        return longer

    def _place(self, arm: int) -> int | None:
        place = self._places.get(arm)
        if place is None or (place < len(self) and self._arms[place] == arm):
            return place
        return next((place for place, known in enumerate(self._arms) if known == arm), None)


def _usual(totals: Floats) -> Floats:
    """The rows of `History.own` if every result is a single measurement with the noise of the model."""
    counts, sums, squares = totals
    return np.array([counts, sums, squares, counts, np.zeros_like(counts), np.zeros_like(counts)])


def _too_large(reward: float) -> InvalidRewardError:
    return InvalidRewardError(f"reward {reward} is too large: the sum of squared rewards overflows")


def grouped(arms: Ints, rewards: Floats, weights: Floats | None = None) -> tuple[Ints, Floats, Floats]:
    """The different arms in order of appearance, and the number of pulls and reward sum of each.

    With `weights`, a result counts as that many pulls with its reward.
    """
    if weights is None:
        weights = np.ones(len(arms))
    if len(arms) == 1:  # the common case
        return arms, weights.copy(), weights * rewards
    unique, first, inverse = np.unique(arms, return_index=True, return_inverse=True)
    order = np.argsort(first)
    counts = np.bincount(inverse, weights=weights, minlength=len(unique)).astype(np.float64)
    sums = np.bincount(inverse, weights=weights * rewards, minlength=len(unique)).astype(np.float64)
    return unique[order].astype(np.int64), counts[order], sums[order]
