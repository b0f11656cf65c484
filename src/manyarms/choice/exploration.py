"""Exploration arms: a fifth of a large batch, drawn at random from the arms that may still be the best.

The bounds of a learned model carry no guarantee. A batch chosen by them alone mostly confirms the model and
does not sample where the model is wrong. A few random arms in each batch correct this. They cost little if
they are drawn where the best arm can be, that is from the arms whose upper bound reaches the highest lower
bound; the agents of DUETS draw from the region not ruled out in the same way. If the model rules out hardly
anything, that would be almost the whole pool, so the draw is limited to the tenth of it with the highest
upper bounds. Small batches have no exploration arms, because feedback corrects the model soon enough. Gains
and losses are measured in docs/measurements.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from manyarms.choice.prior_columns import random_names
from manyarms.choice.selection import EXPLORATION, BatchContext, FilledBatch, SelectionRule, StartWith
from manyarms.pool.allowance import OpenArms
from manyarms.posterior.hallucination import Hallucinated, reduced_leverage
from manyarms.posterior.shard import Shard, Version
from manyarms.support.validation import Floats, Ints

SMALLEST = 20  # smallest batch size with exploration arms
SHARE = 0.2  # exploration arms as a fraction of the batch
AMONG = 0.1  # largest fraction of the remaining arms that they are drawn from
SPARE = 4  # times as many are drawn where each is kept with its probability of success
_NUMBERS = count()
_ROUNDS, _BINS = 4, 1024  # of the search for the bound that this fraction reaches


@dataclass(frozen=True)
class WithExploration:
    """Exploration arms first, then the arms of another selection rule, which accounts for them."""

    rest: SelectionRule  # fills the rest of the batch

    def fill(self, context: BatchContext) -> FilledBatch:
        """A batch of exactly n ≥ 20 arms has ⌊n/5⌋ exploration arms, or fewer if fewer arms are plausible."""
        if not context.exactly or context.limit is None or context.limit < SMALLEST:
            return self.rest.fill(context)
        most, spare = math.floor(SHARE * context.limit), 1 if context.success is None else SPARE
        explored = plausible_maximizers(context, spare * most)
        if context.success is not None:
            explored = context.success.likely(explored, context.stream("likely to succeed"))[:most]
        return StartWith(tuple(explored.tolist()), self.rest, EXPLORATION).fill(context)


def plausible_maximizers(context: BatchContext, most: int) -> Ints:
    """At most so many random arms among those that may be the best, in random order (theory §8.6).

    These are the allowed arms whose upper bound reaches the highest lower bound, at most a tenth of them.
    """
    n_open = context.allowed.n_open
    if not n_open:
        return np.empty(0, dtype=np.int64)
    ask = _asker(context, math.inf)
    found = ask(_extremes)
    bar = max(max(part[0] for part in found), _nth_highest(ask, found, math.ceil(AMONG * n_open)))
    return _joined(ask(_drawn, bar, most), most)


def random_below(context: BatchContext, ceiling: float, most: int) -> Ints:
    """At most so many random arms whose mean is below the ceiling, of the tenth with the highest bounds.

    The tenth is of the allowed arms below the ceiling; the order is random too (theory §8.14).
    """
    ask = _asker(context, ceiling)
    n_below = sum(ask(_number))
    if not n_below:
        return np.empty(0, dtype=np.int64)
    bar = _nth_highest(ask, ask(_extremes), math.ceil(AMONG * n_below))
    return _joined(ask(_drawn, bar, most), most)


def _asker(context: BatchContext, ceiling: float) -> Callable[..., list[Any]]:
    """What puts a question about the allowed arms with a mean below the ceiling to all shards."""
    over_pool, overlay = context.posterior.state.over_pool, context.overlay
    pulls = overlay.message() if overlay.pulls else None
    key = int(context.stream("exploration").integers(2**63))
    question = _Question(context.width, pulls, key, next(_NUMBERS), ceiling)
    may = [context.allowed.within(*ends) for ends in over_pool.ranges]

    def ask(function: Callable[..., Any], *args: Any) -> list[Any]:
        return over_pool.map_each(function, [(question, part, *args) for part in may])

    return ask


def _joined(parts: list[tuple[Any, Ints]], most: int) -> Ints:
    """The arms that all shards found with the smallest names."""
    names, arms = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return np.asarray(arms[np.lexsort((arms, names))][:most])


def _nth_highest(ask: Callable[..., list[Any]], extremes: list[Any], n: int) -> float:
    """A number that the nth highest upper bound reaches, and hardly any more arms do.

    The range that holds it is cut into bins, and the bin that holds it again.
    """
    low, high = min(part[1] for part in extremes), max(part[2] for part in extremes)
    above = 0
    for _ in range(_ROUNDS):
        if not low < high:
            break
        edges = np.linspace(low, high, _BINS + 1)
        counts = sum(ask(_histogram, edges))
        reached = above + np.cumsum(counts[::-1])[::-1]  # arms at or above each bin's lower edge
        place = int(np.flatnonzero(reached >= n)[-1])
        above = int(reached[place + 1]) if place + 1 < _BINS else above
        low, high = edges[place], edges[place + 1]
    return float(low)


# ---------------------------------------------------------------------- in a shard


@dataclass(frozen=True, eq=False)
class _Question:
    """What the shards are told: the width, pulls without a result, and a key for random names.

    `number` tells questions of one process apart: shards may receive a copy for each call. The question is
    about arms with a mean below the `ceiling` alone.
    """

    width: float
    pulls: Hallucinated | None
    key: int
    number: int
    ceiling: float = math.inf


def _bounds(
    shard: Shard, version: Version, question: _Question, may: OpenArms
) -> tuple[Ints | None, Floats, Floats]:
    """The places of the arms that may be chosen (None: all), and their lower and upper bounds."""
    kept = version.notes.get("exploration")
    if kept is None or kept[0] != question.number:
        leverage = version.leverage
        if question.pulls is not None:
            leverage = reduced_leverage(shard, version, question.pulls)
        places = _places(shard, version, question, may)
        mean = version.values.mean if places is None else version.values.mean[places]
        reach = question.width * np.sqrt(leverage if places is None else leverage[places])
        lower = mean - reach
        kept = version.notes["exploration"] = question.number, (places, lower, np.add(mean, reach, out=reach))
    found: tuple[Ints | None, Floats, Floats] = kept[1]
    return found


def _places(shard: Shard, version: Version, question: _Question, may: OpenArms) -> Ints | None:
    """The places of the arms that the question is about (None: all)."""
    if math.isinf(question.ceiling):
        return None if may.all_open else np.flatnonzero(may.flags(shard.n_arms))
    below = version.values.mean < question.ceiling
    return np.flatnonzero(below if may.all_open else below & may.flags(shard.n_arms))


def _number(shard: Shard, version: Version, question: _Question, may: OpenArms) -> int:
    """The number of arms that the question is about."""
    return len(_bounds(shard, version, question, may)[1])


def _extremes(
    shard: Shard, version: Version, question: _Question, may: OpenArms
) -> tuple[float, float, float]:
    """The highest lower bound, and the lowest and the highest upper bound."""
    _, lower, upper = _bounds(shard, version, question, may)
    return (
        float(lower.max(initial=-np.inf)),
        float(upper.min(initial=np.inf)),
        float(upper.max(initial=-np.inf)),
    )


def _histogram(shard: Shard, version: Version, question: _Question, may: OpenArms, edges: Floats) -> Ints:
    """The number of upper bounds in each bin; the last bin includes its upper edge."""
    _, _, upper = _bounds(shard, version, question, may)
    return np.histogram(upper, bins=edges)[0]


def _drawn(
    shard: Shard, version: Version, question: _Question, may: OpenArms, bar: float, most: int
) -> tuple[Any, Ints]:
    """The arms whose upper bound reaches the bar with the smallest random names, and these names."""
    places, _, upper = _bounds(shard, version, question, may)
    arms = np.flatnonzero(upper >= bar)
    arms = (arms if places is None else places[arms]) + shard.first
    version.notes.pop("exploration", None)
    names = random_names(arms.astype(np.uint64), np.uint64(question.key))
    order = np.lexsort((arms, names))[:most]
    return names[order], arms[order]
