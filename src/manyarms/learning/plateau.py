"""Recognise a plateau, and a scale of the rewards that is spent on it (theory §8.12).

Thousands of candidates may be nearly equal and good: one algorithm whose settings make no difference. A run
that finds them measures ever more of them. A scale by rank, or one that bends to the rewards, then stretches
their small differences over half of its range. Evidence approves, because a density is high where rewards are
dense; but no model explains these differences, so they become its noise, and under that noise whatever else
distinguishes the candidates is hidden. The better ones elsewhere are never found. So a scale under which the
results on a plateau are spread out is not compared with the others.

Results that equal the best one do not count: rewards may be capped, and then there is nothing better to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.learning.reward_transforms import Standardised, Targets
from manyarms.support.validation import Floats

ALIKE = 0.05  # of the results' standard deviation: a difference that does not matter
SAME = 0.03  # the same for results that are about equal in the rewards' own units
SHARE = 1 / 3  # of the results, from which on those that are alike are a plateau
SPREAD_OUT = 0.4  # their standard deviation on a scale that is spent on them


def is_plateau(results: Floats, level: float) -> bool:
    """Whether at least a third of the results are about as good as this, and are not equal to the best."""
    near = np.abs(results - level) <= ALIKE * results.std()
    return bool((near & (results < results.max())).mean() >= SHARE)


def without_spent(scales: Sequence[Targets]) -> list[Targets]:
    """The scales of the same rewards that are not spent on a plateau; all if none keeps their distances."""
    plain = [scale.means for scale in scales if isinstance(scale.transform, Standardised)]
    alike = _upper_plateau(plain[0]) if plain else None
    if alike is None:
        return list(scales)
    return [scale for scale in scales if scale.means[alike].std() < SPREAD_OUT]


def _upper_plateau(results: Floats) -> NDArray[Any] | None:
    """Which results are alike, if at least a third are and more are worse than these than better."""
    reach, order = SAME * results.std(), np.sort(results[results < results.max()])
    if not len(order):
        return None
    counts = np.searchsorted(order, order + reach, "right") - np.searchsorted(order, order - reach)
    level = order[counts.argmax()]
    above, below = (results > level + reach).sum(), (results < level - reach).sum()
    if counts.max() < SHARE * len(results) or above >= below:
        return None
    return np.asarray((np.abs(results - level) <= reach) & (results < results.max()))
