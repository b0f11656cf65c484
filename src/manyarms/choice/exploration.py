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
from dataclasses import dataclass

import numpy as np

from manyarms.choice.selection import EXPLORATION, BatchContext, FilledBatch, SelectionRule, StartWith
from manyarms.support.validation import Ints

SMALLEST = 20  # smallest batch size with exploration arms
SHARE = 0.2  # exploration arms as a fraction of the batch
AMONG = 0.1  # largest fraction of the remaining arms that they are drawn from


@dataclass(frozen=True)
class WithExploration:
    """Exploration arms first, then the arms of another selection rule, which accounts for them."""

    rest: SelectionRule  # fills the rest of the batch

    def fill(self, context: BatchContext) -> FilledBatch:
        """A batch of exactly n ≥ 20 arms has ⌊n/5⌋ exploration arms, or fewer if fewer arms are plausible."""
        if not context.exactly or context.limit is None or context.limit < SMALLEST:
            return self.rest.fill(context)
        shuffled = context.stream("exploration").permutation(plausible_maximizers(context))
        explored = shuffled[: math.floor(SHARE * context.limit)]
        return StartWith(tuple(explored.tolist()), self.rest, EXPLORATION).fill(context)


def plausible_maximizers(context: BatchContext) -> Ints:
    """The allowed arms whose upper bound reaches the highest lower bound, at most a tenth (theory §8.6)."""
    left = np.flatnonzero(context.allowed > 0)
    leverage = context.overlay.leverage() if context.overlay.pulls else context.posterior.leverage
    mean, reach = context.posterior.mean[left], context.width * np.sqrt(leverage[left])
    upper = mean + reach
    most = math.ceil(AMONG * len(left))
    bar = max(float((mean - reach).max(initial=-np.inf)), _nth_highest(upper, most))
    return np.asarray(left[upper >= bar])


def _nth_highest(values: np.ndarray[tuple[int], np.dtype[np.float64]], n: int) -> float:
    return float(np.partition(values, len(values) - n)[len(values) - n]) if len(values) else -math.inf
