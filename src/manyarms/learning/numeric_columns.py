"""What a numeric pool's columns are like: range, typical difference, tails, and how to straighten them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats

SAMPLE_ROWS = 20_000  # quantiles are taken from this many rows, ranges from all
HEAVY_TAIL = 10.0  # robust standard deviations from the median to the farthest value
FEW_LEVELS = 16  # different values up to which a column is a setting with levels
UNEVEN = 1.5  # largest over smallest gap between levels, from which on levels count as steps
DECADES = 30.0  # highest over lowest value, from which on a column may be logarithmic
SKEWED, STRAIGHT = 0.75, 0.4  # skewness of such a column as it is, at least, and of its logarithm, at most
_NORMAL_IQR = 1.3489795  # interquartile range of a standard normal


@dataclass(frozen=True)
class Column:
    """One numeric column, straightened where a length-scale could not do it justice.

    `spread` is the typical difference that length-scales are counted in, of the straightened column.
    Zeros and ones have spread 1 whatever their frequency: dividing by their standard deviation would make
    a rare category count more than a common one, and distances between one-hot rows would no longer be
    the number of differing categories. A heavy-tailed column becomes asinh((x − centre)/width), linear in
    the middle and logarithmic in the tails. One that was evidently chosen by orders of magnitude (learning
    rates from 1e-6 to 1) is `logarithmic`: with centre 0 and a width below all values asinh is a logarithm
    that zero, or a negative value of a later arm, does not break. A column with few, unevenly spaced values
    (16, 32, 64, 128) becomes the number of its step, since whoever chose such values took them to be
    equally far apart.
    """

    lowest: float
    highest: float
    spread: float
    whole: bool = True
    few: bool = True
    centre: float = 0.0
    width: float = 0.0  # above zero: heavy-tailed
    steps: tuple[float, ...] = ()  # the values that become 0, 1, 2, …
    logarithmic: bool = False

    @property
    def constant(self) -> bool:
        """Whether it tells no two arms apart."""
        return self.lowest == self.highest

    @property
    def binary(self) -> bool:
        """Whether it holds zeros and ones only."""
        return (self.lowest, self.highest, self.whole) == (0.0, 1.0, True)

    @property
    def heavy(self) -> bool:
        """Whether it is modelled on a logarithmic scale in its tails."""
        return self.width > 0

    @property
    def unit(self) -> float:
        """The difference of the column itself that is 1 in the middle of the straightened one."""
        return self.width if self.heavy else 1.0

    @property
    def bent(self) -> bool:
        """Whether the model sees something else than the column itself."""
        return self.heavy or bool(self.steps)

    def straightened(self, values: Floats) -> Floats:
        """The column as the model sees it; a value between two steps lies between them, one beyond beyond."""
        if self.steps:
            steps = np.array(self.steps)
            below, above = np.minimum(values - steps[0], 0.0), np.maximum(values - steps[-1], 0.0)
            inside = np.interp(values, steps, np.arange(len(steps)))
            return np.asarray(inside + below / (steps[1] - steps[0]) + above / (steps[-1] - steps[-2]))
        return np.asarray(np.arcsinh((values - self.centre) / self.width)) if self.heavy else values


def columns_of(pool: Pool) -> list[Column]:
    """One `Column` per feature of a pool of numbers."""
    lowest, highest = np.full(pool.n_features, np.inf), np.full(pool.n_features, -np.inf)
    whole = np.ones(pool.n_features, dtype=bool)
    for _, block in pool.blocks(bytes_per_arm=24 * pool.n_features):
        lowest = np.minimum(lowest, block.min(axis=0))
        highest = np.maximum(highest, block.max(axis=0))
        if block.dtype.kind == "f":
            whole &= (block == np.floor(block)).all(axis=0)
    sample = _sample(pool)
    return [
        _column(pool, j, sample[:, j], float(lowest[j]), float(highest[j]), bool(whole[j]))
        for j in range(pool.n_features)
    ]


def _sample(pool: Pool) -> Floats:
    """Random rows (tables are often sorted or full grids), the same ones for the same size of pool."""
    if pool.n_arms <= SAMPLE_ROWS:
        rows: Any = slice(None)
    else:
        rows = np.sort(np.random.default_rng(0).choice(pool.n_arms, SAMPLE_ROWS, replace=False))
    return np.asarray(pool.features[rows], dtype=np.float64)


def _column(pool: Pool, j: int, sample: Floats, lowest: float, highest: float, whole: bool) -> Column:
    if lowest == highest or (whole and (lowest, highest) == (0.0, 1.0)):
        return Column(lowest, highest, 1.0, whole)
    levels = _levels(pool, j, sample)
    gaps = np.diff(levels)
    if len(levels) > 2 and gaps.max() > UNEVEN * gaps.min():
        place = np.searchsorted(levels, sample)
        return Column(lowest, highest, float(place.std()), whole, steps=tuple(levels.tolist()))
    unit = max(abs(lowest), abs(highest))  # so that neither squares nor differences overflow
    scaled = sample / unit
    centre, width = _middle(scaled, (highest / unit - lowest / unit))
    farthest = max(highest / unit - centre, centre - lowest / unit)
    few = bool(len(levels))
    if not few and (smallest := _smallest_order(sample, lowest, highest)):
        spread = float(np.arcsinh(sample / smallest).std())
        return Column(lowest, highest, spread, whole, few, 0.0, smallest, logarithmic=True)
    if farthest <= HEAVY_TAIL * width or few:
        spread = unit * (float(scaled.std()) or width)
        return Column(lowest, highest, spread, whole, few)
    spread = float(np.arcsinh((scaled - centre) / width).std()) or 1.0
    return Column(lowest, highest, spread, whole, few, unit * centre, max(unit * width, 5e-324))


def _smallest_order(sample: Floats, lowest: float, highest: float) -> float:
    """Of a column chosen by orders of magnitude a value at the lower end of the lowest, 0 for other columns.

    Such a column has no negative and few zero values, is skewed, and its logarithm is not.
    """
    positive = sample[sample > 0]
    if lowest < 0 or 2 * len(positive) < len(sample):
        return 0.0
    least = lowest or float(positive.min())
    if highest / DECADES < least or _skewness(sample / highest) < SKEWED:
        return 0.0
    if abs(_skewness(np.log(np.maximum(sample, least)))) > STRAIGHT:
        return 0.0
    smallest = least / 2 if lowest > 0 else least
    return smallest if smallest > 0 and math.isfinite(highest / smallest) else 0.0


def _skewness(values: Floats) -> float:
    """From −1 to 1, by the middle and the outer twentieths."""
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
    return float(((high - middle) - (middle - low)) / (high - low)) if high > low else 0.0


def _levels(pool: Pool, j: int, sample: Floats) -> Floats:
    """All values of a column in order, or none when there are more than FEW_LEVELS."""
    levels = np.unique(sample)
    if len(levels) > FEW_LEVELS:
        return np.empty(0)
    for _, block in pool.blocks(bytes_per_arm=24 * pool.n_features):
        levels = np.union1d(levels, block[:, j].astype(np.float64))
        if len(levels) > FEW_LEVELS:
            return np.empty(0)
    return levels


def _middle(scaled: Floats, span: float) -> tuple[float, float]:
    """Median and robust standard deviation; the plain one where half the values are equal."""
    quarter, centre, three_quarters = np.quantile(scaled, (0.25, 0.5, 0.75))
    robust = float(three_quarters - quarter) / _NORMAL_IQR
    # Should the sample be constant, the range shows that a few arms outside it stand out.
    width = robust or float(scaled.std()) or span / math.sqrt(len(scaled))
    return float(centre), width
