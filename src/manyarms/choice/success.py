"""Choice by what a trial is worth if it may fail: values are multiplied by the probability of success.

A trial that succeeds with the probability p is worth p log(1 + e^((U − r)/s)): the amount by which its upper
bound U exceeds a reference r, smoothed at r on the scale s so that p also counts below it (theory §5.20).
What is compared is the logarithm. The median of the posterior means of the arms tried is r, and s a share
of their standard deviation. Where arms are chosen by value per cost, the expected improvement is multiplied
by p. Within a batch p, r and s are frozen, so that these values can only fall with the bounds, and the
contest of `lazy_argmax.py` remains exact.

The probabilities of all arms live with the shards, which compute them.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from manyarms.engines.base import Shards
from manyarms.learning.success_model import SuccessModel
from manyarms.pool.pool import Pool
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.shard import Shard
from manyarms.support.column_room import ColumnRoom
from manyarms.support.validation import Floats, Ints

if TYPE_CHECKING:
    from manyarms.choice.per_cost import GainPerCost, ValuePerCost

SMOOTHED = 0.3  # s as a share of the standard deviation of the posterior means of the arms tried
_FAR = -40.0
_KEYS = count(1 << 41)  # apart from those of costs and of Thompson draws


@dataclass(frozen=True, eq=False)
class TimesSuccess:
    """Upper bounds, or with `gain` values per cost, times the probability of success.

    `key` addresses the probabilities that the shards keep.
    """

    reference: float  # r
    scale: float  # s
    key: int
    gain: GainPerCost | None = None

    def values(self, bounds: Floats, success: Floats) -> Floats:
        """The logarithm of what arms with these upper bounds are worth."""
        above = (np.asarray(bounds, dtype=np.float64) - self.reference) / self.scale
        near = np.maximum(above, _FAR)  # farther below, log(1 + e^x) is e^x to all digits
        return np.asarray(np.where(above > _FAR, np.log(np.logaddexp(0.0, near)), above) + np.log(success))

    def in_shard(self, shard: Shard, mean: Floats, std: Floats) -> Floats:
        """The values of all arms of a shard."""
        success: Floats = shard.placed[self.key]
        if self.gain is not None:
            return np.asarray(self.gain.in_shard(shard, mean, std) + np.log(success))
        return self.values(mean + std, success)


class PlacedSuccess:
    """The probability of success of every arm, with the shards, until nothing refers to this object."""

    def __init__(self, model: SuccessModel, pool: Pool, shards: Shards) -> None:
        self.model, self.pool, self.shards, self.key = model, pool, shards, next(_KEYS)
        self._known: tuple[Ints, Floats] = np.empty(0, dtype=np.int64), np.empty(0)
        shards.each("place", [(self.key, _probabilities, model)] * (len(shards.starts) - 1))
        weakref.finalize(self, shards.release, "displace", self.key).atexit = False

    def of(self, arms: Ints) -> Floats:
        """The probabilities of a few arms. Those asked for last, which mostly come first, are remembered."""
        before, found = self._known
        if not np.array_equal(before, arms[: len(before)]):
            before, found = before[:0], found[:0]
        if len(arms) > len(before):
            more = self.model.probabilities(self.pool.take(arms[len(before) :]))
            self._known = arms.copy(), np.concatenate([found, more])
        return self._known[1][: len(arms)]

    def likely(self, arms: Ints, rng: np.random.Generator) -> Ints:
        """Those of these arms that remain if each is kept with its probability of success."""
        return np.asarray(arms[rng.random(len(arms)) < self.of(arms)])


def _probabilities(pool: Pool, _: ColumnRoom, model: SuccessModel) -> Floats:
    """The probabilities of all arms of a shard, in the blocks of every pass."""
    width = 1 if model.points is None else len(model.points)
    return np.concatenate([model.probabilities(block) for _, block in pool.blocks(bytes_per_arm=32 * width)])


@dataclass(frozen=True, eq=False)
class ValueWithSuccess:
    """The value of arms under one posterior, as the driver uses it."""

    gain: TimesSuccess
    placed: PlacedSuccess
    per_cost: ValuePerCost | None = None

    @classmethod
    def under(
        cls, posterior: Posterior, placed: PlacedSuccess, per_cost: ValuePerCost | None = None
    ) -> ValueWithSuccess:
        """The values under this posterior, which must include a result."""
        state = posterior.state
        means = state.at(state.arms).mean
        scale = SMOOTHED * (float(means.std()) or math.sqrt(state.prior_max) or 1.0)
        cost = None if per_cost is None else per_cost.gain
        gain = TimesSuccess(float(np.median(means)), scale, placed.key, cost)
        return cls(gain, placed, per_cost)

    def at(self, arms: Ints, mean: Floats, std: Floats) -> Floats:
        """The values of a few arms with these means and standard deviations."""
        success = self.placed.of(arms)
        if self.per_cost is not None:
            return np.asarray(self.per_cost.at(arms, mean, std) + np.log(success))
        return self.gain.values(mean + std, success)
