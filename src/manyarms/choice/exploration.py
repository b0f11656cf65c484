"""Scouts: a fifth of a large plate, drawn at random among the arms that may still be the best.

Bounds from a learned model promise nothing, and a plate chosen by them alone shows the model little but what
it believes already: where it is wrong it does not look. A few random arms in each plate mend that. They cost
little when drawn where the best arm can be: among those whose upper bound reaches the highest lower bound,
as DUETS' agents draw theirs from the region not ruled out. A model that rules out hardly anything would make
that the whole pool, so it is at most the tenth of it with the highest bounds. Small plates have none: there
the model hears of its errors soon enough. What this gains, and where it loses, is in docs/measurements.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manyarms.choice.selection import EXPLORATION, BatchContext, FilledBatch, SelectionRule, StartWith
from manyarms.support.validation import Ints

SMALLEST = 20  # arms of a plate, from which on it has scouts
SHARE = 0.2  # of a plate
AMONG = 0.1  # of the arms left, at most


@dataclass(frozen=True)
class WithExploration:
    """Scouts first, then the chooser's own arms, which know of them; only large plates have any."""

    rest: SelectionRule

    def fill(self, context: BatchContext) -> FilledBatch:
        """A plate of n ≥ 20 has ⌊n/5⌋ scouts, fewer where fewer arms are in question."""
        if not context.exactly or context.limit is None or context.limit < SMALLEST:
            return self.rest.fill(context)
        shuffled = context.stream("exploration").permutation(plausible_maximizers(context))
        explored = shuffled[: math.floor(SHARE * context.limit)]
        return StartWith(tuple(explored.tolist()), self.rest, EXPLORATION).fill(context)


def plausible_maximizers(context: BatchContext) -> Ints:
    """The arms whose upper bound reaches the highest lower bound of all eligible ones (theory §8.6)."""
    left = np.flatnonzero(context.allowed > 0)
    leverage = context.overlay.leverage() if context.overlay.pulls else context.posterior.leverage
    mean, reach = context.posterior.mean[left], context.width * np.sqrt(leverage[left])
    upper = mean + reach
    most = math.ceil(AMONG * len(left))
    bar = max(float((mean - reach).max(initial=-np.inf)), _nth_highest(upper, most))
    return np.asarray(left[upper >= bar])


def _nth_highest(values: np.ndarray[tuple[int], np.dtype[np.float64]], n: int) -> float:
    return float(np.partition(values, len(values) - n)[len(values) - n]) if len(values) else -math.inf
