"""Choice by value per cost: the expected improvement over the best arm found, by a power of the cost.

What is compared is the logarithm, log E max(f(x) − τ, 0) − ρ log c(x), with τ the highest posterior mean
among the arms that were pulled (theory §5.19). It does not change if a constant is added to all rewards.
Within a batch the mean and τ are frozen, and the expectation increases with the standard deviation, so it
can only fall, like an upper bound: the contest of `lazy_argmax.py` remains exact.

The costs live with the shards: each keeps its part of the caller's array.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from manyarms.choice.acquisition import LogExpectedImprovement
from manyarms.engines.base import Shards
from manyarms.pool.costs import ArmCosts
from manyarms.pool.pool import Pool
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.shard import Shard
from manyarms.support.column_room import ColumnRoom
from manyarms.support.validation import Floats, Ints

_KEYS = count(1 << 40)  # apart from those of Thompson draws, which shards keep in the same place
_LOWEST = -100.0  # gains below e⁻¹⁰⁰ prior standard deviations count as equal: only their costs differ
_PART = 1 << 18  # arms that are computed together


@dataclass(frozen=True, eq=False)
class GainPerCost:
    """The value of arms: log E max(f − τ, 0) in units of the prior, minus ρ log c.

    `key` addresses the costs that the shards keep; `costs` are those of all arms, for the driver alone.
    """

    reference: float  # τ
    unit: float  # the largest prior standard deviation
    power: float  # ρ
    key: int

    def values(self, mean: Floats, std: Floats, costs: Floats) -> Floats:
        """The values of arms with these posterior means, standard deviations and costs."""
        found = np.empty(len(mean))
        improvement = LogExpectedImprovement(0.0)
        for start in range(0, len(mean), _PART):
            here = slice(start, start + _PART)
            above = (np.asarray(mean[here], dtype=np.float64) - self.reference) / self.unit
            spread = np.asarray(std[here], dtype=np.float64) / self.unit
            gain = np.maximum(improvement.values(above, spread**2), _LOWEST)
            found[here] = gain - self.power * np.log(costs[here])
        return found

    def in_shard(self, shard: Shard, mean: Floats, std: Floats) -> Floats:
        """The values of all arms of a shard."""
        costs: Floats = shard.placed[self.key]
        return self.values(mean, std, costs)


class PlacedCosts:
    """The costs of all arms with the shards of a pool, until nothing refers to this object any more."""

    def __init__(self, costs: ArmCosts, shards: Shards) -> None:
        self.shards, self.costs, self.key = shards, costs, next(_KEYS)
        ends = zip(shards.starts, shards.starts[1:], strict=False)
        shards.each("place", [(self.key, _kept, costs.values[first:stop]) for first, stop in ends])
        self._watch()

    def _watch(self) -> None:
        weakref.finalize(self, self.shards.release, "displace", self.key).atexit = False

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes)
        self._watch()

    def of(self, arms: Ints) -> Floats:
        """The costs of a few arms."""
        return self.costs.values[arms]


def _kept(_: Pool, __: ColumnRoom, costs: Floats) -> Floats:
    return costs


@dataclass(frozen=True, eq=False)
class ValuePerCost:
    """The value of arms under one posterior, as the driver uses it: with the costs of all arms."""

    gain: GainPerCost
    placed: PlacedCosts

    @classmethod
    def under(cls, posterior: Posterior, costs: ArmCosts) -> ValuePerCost:
        """The values under this posterior, which must include a result."""
        state = posterior.state
        placed = PlacedCosts(costs, state.over_pool.shards)
        reference = float(state.at(state.arms).mean.max())
        unit = math.sqrt(state.prior_max) or 1.0
        return cls(GainPerCost(reference, unit, costs.power, placed.key), placed)

    def at(self, arms: Ints, mean: Floats, std: Floats) -> Floats:
        """The values of a few arms with these means and standard deviations."""
        return self.gain.values(mean, std, self.placed.of(arms))
