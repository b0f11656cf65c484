"""Recognise a plateau, and a scale of the rewards that is spent on it (theory §8.13).

Thousands of candidates may be nearly equal and good: one algorithm whose settings make no difference. A run
that finds them measures ever more of them. A scale by rank, or one that bends to the rewards, then
stretches their small differences over half of its range. Evidence approves, because a density is high where
rewards are dense; but no model explains these differences, so they become its noise, and under that noise
whatever else distinguishes the candidates is hidden. The better ones elsewhere are never found. So a scale
under which the results on a plateau are spread out is not compared with the others.

Results that equal the best one do not count: rewards may be capped, and then there is nothing better to
find. Nor do outliers make a plateau of all others, whose differences are then small in comparison: lengths
are measured in standard deviations without the extremes, and the worse results must differ among themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.learning.reward_transforms import Standardised, Targets
from manyarms.support.validation import Floats

EXTREMES = 0.1  # of the results at either end do not count in the standard deviation
ALIKE = 0.06  # of that standard deviation: a difference from the next arm that does not matter
WIDTH = 0.07  # of a plateau in the rewards' own units, in the same standard deviations
SHARE = 1 / 3  # of the results, from which on those that are alike are a plateau
AROUND = 0.25  # results within another width of a plateau on either side, as a share of those on it
SPREAD_OUT = 0.4  # their standard deviation on a scale that is spent on them
VARIED = 0.1  # standard deviation of the worse results as a share of their distance from the plateau


def spread(results: Floats) -> float:
    """The standard deviation of the results, with a tenth at either end moved to the quantile there."""
    return float(np.clip(results, *np.quantile(results, [EXTREMES, 1.0 - EXTREMES])).std())


def is_plateau(results: Floats, level: float) -> bool:
    """Whether at least a third of the results are about as good as this, without those that equal the best.

    The worse ones must differ among themselves.
    """
    reach = ALIKE * spread(results)
    near = np.abs(results - level) <= reach
    many = (near & (results < results.max())).mean() >= SHARE
    return bool(many and _vary(results[results < level - reach], level))


def has_plateau(results: Floats) -> bool:
    """Whether there may be a level for which `is_plateau` is true."""
    if not len(results):
        return False
    _, number = _most_alike(results, 2.0 * ALIKE * spread(results))
    return number >= SHARE * len(results)


def without_spent(scales: Sequence[Targets]) -> list[Targets]:
    """The scales of the same rewards that are not spent on a plateau; all if none keeps their distances."""
    plain = [scale.means for scale in scales if isinstance(scale.transform, Standardised)]
    alike = _upper_plateau(plain[0]) if plain else None
    if alike is None:
        return list(scales)
    return [scale for scale in scales if scale.means[alike].std() < SPREAD_OUT]


def _upper_plateau(results: Floats) -> NDArray[Any] | None:
    """Which results are alike, if at least a third are, few are nearly so, and more are worse than better.

    Without the second condition every long tail of bad results would make a plateau of all good ones.
    """
    width = WIDTH * spread(results)
    low, number = _most_alike(results, width)
    high = low + width
    below = results < low
    if number < SHARE * len(results) or (results > high).sum() >= below.sum():
        return None
    if not _vary(results[below], low):
        return None
    if (results >= low - width).sum() - (results > high + width).sum() > (1.0 + AROUND) * number:
        return None
    return np.asarray((results >= low) & (results <= high) & (results < results.max()))


def _vary(worse: Floats, level: float) -> bool:
    """Whether worse results differ among themselves, unlike one penalty for everything that went wrong."""
    return len(worse) > 1 and bool(worse.std() >= VARIED * (level - worse).mean())


def _most_alike(results: Floats, width: float) -> tuple[float, int]:
    """The lower end of the interval of this width that holds most results, and how many it holds.

    Results that equal the best one are left out.
    """
    order = np.sort(results[results < results.max()])
    if not len(order):
        return 0.0, 0
    numbers = np.searchsorted(order, order + width, "right") - np.arange(len(order))
    first = int(numbers.argmax())
    return float(order[first]), int(numbers[first])
