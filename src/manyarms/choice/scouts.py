"""Scouts: half of a batch looks elsewhere while the rest would only repeat what is known (theory §8.14).

When thousands of candidates are nearly equal and good, every batch is more of them: each has a bound that
is a little higher than those of all the others, and what is learned from it is nothing. Meanwhile the model
has been taught by these arms that hardly anything matters, and may rule out the rest with confidence,
wrongly. No width of its bounds helps against that, but measurements do. So as long as a third of all
results are about as good as the next arm is predicted to be, half of the batch is drawn at random among the
arms predicted to be clearly worse, from the tenth of them with the highest upper bounds. They are
exploration arms for the user.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manyarms.choice.exploration import SPARE, random_below
from manyarms.choice.highest import BoundRule, peak
from manyarms.choice.selection import EXPLORATION, BatchContext, FilledBatch, SelectionRule, StartWith
from manyarms.learning.plateau import has_plateau, is_plateau, spread

SHARE = 0.5  # of a batch
CLEARLY = 0.25  # standard deviations of the results (without their extremes) by which an arm is clearly worse


@dataclass(frozen=True)
class WithScouts:
    """Scouts first where a batch would repeat what is known, then the arms of another selection rule."""

    rest: SelectionRule  # fills the rest of the batch

    def fill(self, context: BatchContext) -> FilledBatch:
        """A batch of exactly n arms on a plateau has ⌊n/2⌋ or, at random if n is odd, ⌈n/2⌉ scouts."""
        ceiling = below_plateau(context) if context.exactly else None
        if ceiling is None or context.limit is None:
            return self.rest.fill(context)
        wanted = math.floor(SHARE * context.limit + context.stream("scouts").random())
        scouts = random_below(context, ceiling, wanted if context.success is None else SPARE * wanted)
        if context.success is not None:
            scouts = context.success.likely(scouts, context.stream("likely to succeed"))[:wanted]
        return StartWith(tuple(scouts.tolist()), self.rest, EXPLORATION).fill(context)


def below_plateau(context: BatchContext) -> float | None:
    """What is clearly worse than the next arm, if that is on a plateau of the results so far."""
    state = context.posterior.state
    results = state.sums / state.counts
    if not has_plateau(results):
        return None
    top = peak(state.over_pool, BoundRule(context.width), context.allowed, tie=0.0)
    if top.arm < 0:
        return None
    level = float(state.at(np.array([top.arm])).mean[0])
    return level - CLEARLY * spread(results) if is_plateau(results, level) else None
