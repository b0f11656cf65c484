"""By how much a batch may have shrunk the variance of each arm: 1 + Σ_s c(x, x_s)² / σ̃²_fb(x) (theory §6.5).

The increments of a pulled arm have one entry per arm of the pool. The shards keep them, and the sums so far,
for the batch in progress. The driver sends the whole batch each time, so a shard that has lost them, or that
was rebuilt elsewhere, computes them again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from manyarms.posterior.covariance import PulledCovariance, PulledSet
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.shard import Shard, Version
from manyarms.support.validation import Floats, Ints

_BATCHES = count()
_TINY = np.finfo(np.float64).tiny


class VarianceRatios:
    """The ratios of all arms for one batch that grows."""

    def __init__(self, posterior: Posterior) -> None:
        self._over_pool, self._covariance = posterior.state.over_pool, PulledCovariance(posterior)
        self._key = "variance ratios", next(_BATCHES)
        self._maxima: dict[int, float] = {}  # the largest increment of each arm pulled
        self._pulls: Counter[int] = Counter()

    def add(self, arms: list[int]) -> float:
        """Count these pulls; the sum of the largest increments of each, by which any ratio may grow."""
        self._pulls.update(arms)
        fresh = [arm for arm in dict.fromkeys(arms) if arm not in self._maxima]
        for arm in fresh:
            self._covariance.add(arm)
        if fresh:
            self._maxima = dict(zip(self._covariance.places, self._ask()[0].tolist(), strict=True))
        return sum(self._maxima[arm] for arm in arms)

    def largest(self) -> float:
        """The largest ratio of any arm."""
        return self._ask()[1]

    def _ask(self) -> tuple[Floats, float]:
        arms = np.fromiter(self._covariance.places, dtype=np.int64, count=len(self._covariance))
        counts = np.array([self._pulls[arm] for arm in arms.tolist()], dtype=np.float64)
        message = _Pulls(self._key, arms, counts, self._covariance.pulled_set())
        found = self._over_pool.map(ratios_in, message)
        return np.max([part[0] for part in found], axis=0), max(part[1] for part in found)


@dataclass(frozen=True)
class _Pulls:
    """The different arms pulled in a batch and how often, as the shards are told of them."""

    key: Any
    arms: Ints
    counts: Floats
    pulled: PulledSet


@dataclass
class _Kept:
    """What a shard keeps for the batch in progress."""

    ratios: Floats
    counts: Floats = field(default_factory=lambda: np.empty(0))  # the pulls that `ratios` contains
    maxima: Floats = field(default_factory=lambda: np.empty(0))
    increments: dict[int, Floats] = field(default_factory=dict)  # by place; as many as fit into memory


def ratios_in(shard: Shard, version: Version, message: _Pulls) -> tuple[Floats, float]:
    """For one shard: the largest increment of each arm pulled, and the largest ratio."""
    kept = version.notes.get("variance ratios")
    if kept is None or kept[0] != message.key:
        kept = version.notes["variance ratios"] = message.key, _Kept(np.ones(shard.n_arms))
    sums: _Kept = kept[1]
    u, known = len(message.arms), len(sums.maxima)
    sums.counts = np.concatenate([sums.counts, np.zeros(u - known)])
    sums.maxima = np.concatenate([sums.maxima, np.zeros(u - known)])
    more = message.counts - sums.counts
    wanted = [place for place in range(u) if place >= known or (more[place] and place not in sums.increments)]
    room = max(1, shard.pool.max_memory // (8 * shard.n_arms))
    for begin in range(0, len(wanted), room):
        places = wanted[begin : begin + room]
        for place, increment in zip(places, _increments(shard, version, message, places), strict=True):
            sums.maxima[place] = increment.max()
            if len(sums.increments) < room:
                sums.increments[place] = increment
            else:
                sums.ratios += more[place] * increment
                more[place] = 0.0
    for place in np.flatnonzero(more).tolist():
        sums.ratios += more[place] * sums.increments[place]
    sums.counts = message.counts
    return sums.maxima, float(sums.ratios.max())


def _increments(shard: Shard, version: Version, message: _Pulls, places: list[int]) -> list[Floats]:
    """c(x, s)²/σ̃²(x) of every arm x of the shard, for the arms s at these places: one pass."""
    pulled = PulledSet(message.pulled.rows.part(places), message.pulled.solved[places], message.pulled.ridge)
    columns = np.empty((len(places), shard.n_arms))
    for where, block in pulled.columns_of(shard, version):
        columns[:, where] = block.T
    leverage = np.maximum(version.leverage, _TINY)
    columns *= columns
    columns /= leverage
    for row, arm in zip(columns, (message.arms[places] - shard.first).tolist(), strict=True):
        if 0 <= arm < shard.n_arms:
            row[arm] = leverage[arm]
    return list(columns)
