"""Describe the columns of a numeric pool: range, typical difference, tails, and how to transform them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats

SAMPLE_ROWS = 20_000  # quantiles are computed from this many rows, ranges from all
HEAVY_TAIL = 10.0  # robust standard deviations from the median to the farthest value
FEW_LEVELS = 16  # a column with at most this many different values is a setting with levels
MOST_VALUES = 50  # of a column of whole numbers that are settings; with more it is a measurement
UNEVEN_GAPS = 1.5  # largest over smallest gap between levels, above which they are replaced by their numbers
LOG_RANGE = 30.0  # highest over lowest value, from which a column may be logarithmic
MIN_SKEWNESS, MAX_LOG_SKEWNESS = 0.75, 0.4  # of a logarithmic column, and of its logarithm
_NORMAL_IQR = 1.3489795  # interquartile range of a standard normal


@dataclass(frozen=True)
class Column:
    """A numeric column and, if scaling it is not enough, its transform.

    `spread` is the standard deviation of the transformed column, the unit in which its length-scale is
    measured. Zeros and ones have spread 1 whatever their frequency: dividing by their standard deviation
    would make a rare category count more than a common one, and distances between one-hot rows would no
    longer be the number of differing categories. A heavy-tailed column becomes asinh((x − centre)/scale),
    which is linear in the middle and logarithmic in the tails. A column whose values span orders of magnitude
    (learning rates from 1e-6 to 1) is `logarithmic`: with centre 0 and a scale below all values, asinh is a
    logarithm that is also defined at zero and at negative values of arms added later. A column with few,
    unevenly spaced values (16, 32, 64, 128) becomes the number of its level, since whoever chose such values
    considered them equally spaced.

    `spacing` is the smallest distance between the values of a transformed column with few of them,
    settings or whole numbers; 0 for two values and for many.
    """

    lowest: float
    highest: float
    spread: float
    integral: bool = True
    few_levels: bool = True
    centre: float = 0.0
    scale: float = 0.0  # of the asinh transform; 0 when it is not used
    levels: tuple[float, ...] = ()  # the values that become 0, 1, 2 and so on
    logarithmic: bool = False
    spacing: float = 0.0

    @property
    def constant(self) -> bool:
        """Whether all arms have the same value."""
        return self.lowest == self.highest

    @property
    def binary(self) -> bool:
        """Whether it holds zeros and ones only."""
        return (self.lowest, self.highest, self.integral) == (0.0, 1.0, True)

    @property
    def continuous(self) -> bool:
        """Whether it has so many values that it has no spacing."""
        return not (self.constant or self.binary or self.spacing or self.few_levels)

    @property
    def uses_asinh(self) -> bool:
        """Whether it is heavy-tailed or logarithmic, and so transformed by asinh."""
        return self.scale > 0

    @property
    def unit(self) -> float:
        """The difference in the original column that is 1 near the centre of the transformed one."""
        return self.scale if self.uses_asinh else 1.0

    @property
    def is_transformed(self) -> bool:
        """Whether the model sees other values than those of the column itself."""
        return self.uses_asinh or bool(self.levels)

    def transform(self, values: Floats) -> Floats:
        """The column as the model sees it; values between or beyond the levels are extrapolated linearly."""
        if self.levels:
            levels = np.array(self.levels)
            below, above = np.minimum(values - levels[0], 0.0), np.maximum(values - levels[-1], 0.0)
            inside = np.interp(values, levels, np.arange(len(levels)))
            return np.asarray(inside + below / (levels[1] - levels[0]) + above / (levels[-1] - levels[-2]))
        return np.asarray(np.arcsinh((values - self.centre) / self.scale)) if self.uses_asinh else values


def columns_of(pool: Pool) -> list[Column]:
    """One `Column` per feature of a pool of numbers."""
    lowest, highest = np.full(pool.n_features, np.inf), np.full(pool.n_features, -np.inf)
    integral = np.ones(pool.n_features, dtype=bool)
    for _, block in pool.blocks(bytes_per_arm=24 * pool.n_features):
        lowest = np.minimum(lowest, block.min(axis=0))
        highest = np.maximum(highest, block.max(axis=0))
        if block.dtype.kind == "f":
            integral &= (block == np.floor(block)).all(axis=0)
    sample = sampled_rows(pool)
    return [
        _column(pool, j, sample[:, j], float(lowest[j]), float(highest[j]), bool(integral[j]))
        for j in range(pool.n_features)
    ]


def sampled_rows(pool: Pool) -> Floats:
    """Random rows (tables are often sorted or full grids), the same ones for every pool of the same size."""
    if pool.n_arms <= SAMPLE_ROWS:
        rows: Any = slice(None)
    else:
        rows = np.sort(np.random.default_rng(0).choice(pool.n_arms, SAMPLE_ROWS, replace=False))
    return np.asarray(pool.features[rows], dtype=np.float64)


def _column(pool: Pool, j: int, sample: Floats, lowest: float, highest: float, integral: bool) -> Column:
    if lowest == highest or (integral and (lowest, highest) == (0.0, 1.0)):
        return Column(lowest, highest, 1.0, integral)
    levels = _levels(pool, j, sample)
    gaps = np.diff(levels)
    if len(levels) > 2 and gaps.max() > UNEVEN_GAPS * gaps.min():
        numbers = np.searchsorted(levels, sample)
        spread, values = float(numbers.std()), tuple(levels.tolist())
        return Column(lowest, highest, spread, integral, levels=values, spacing=1.0)
    unit = max(abs(lowest), abs(highest))  # so that neither squares nor differences overflow
    scaled = sample / unit
    centre, scale = _robust_centre_and_scale(scaled, (highest / unit - lowest / unit))
    farthest = max(highest / unit - centre, centre - lowest / unit)
    few_levels = bool(len(levels))
    if not few_levels and (log_scale := logarithmic_scale(sample, lowest, highest)):
        spread = float(np.arcsinh(sample / log_scale).std())
        return Column(
            lowest=lowest,
            highest=highest,
            spread=spread,
            integral=integral,
            few_levels=few_levels,
            centre=0.0,
            scale=log_scale,
            logarithmic=True,
        )
    if farthest <= HEAVY_TAIL * scale or few_levels:
        spread = unit * (float(scaled.std()) or scale)
        spacing = _spacing(sample) if few_levels or integral else 0.0
        return Column(lowest, highest, spread, integral, few_levels, spacing=spacing)
    spread = float(np.arcsinh((scaled - centre) / scale).std()) or 1.0
    return Column(
        lowest=lowest,
        highest=highest,
        spread=spread,
        integral=integral,
        few_levels=few_levels,
        centre=unit * centre,
        scale=max(unit * scale, 5e-324),
    )


def logarithmic_scale(sample: Floats, lowest: float, highest: float) -> float:
    """The scale of asinh for a column chosen by orders of magnitude, below its values; 0 for other columns.

    Such a column has no negative values and few zeros, is skewed, and its logarithm is not.
    """
    positive = sample[sample > 0]
    if lowest < 0 or 2 * len(positive) < len(sample):
        return 0.0
    smallest = lowest or float(positive.min())
    if highest / LOG_RANGE < smallest or skewness(sample / highest) < MIN_SKEWNESS:
        return 0.0
    if abs(skewness(np.log(np.maximum(sample, smallest)))) > MAX_LOG_SKEWNESS:
        return 0.0
    scale = smallest / 2 if lowest > 0 else smallest
    return scale if scale > 0 and math.isfinite(highest / scale) else 0.0


def skewness(values: Floats) -> float:
    """A robust skewness between −1 and 1, from the median and the 5 % and 95 % quantiles."""
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
    return float(((high - middle) - (middle - low)) / (high - low)) if high > low else 0.0


def _levels(pool: Pool, j: int, sample: Floats) -> Floats:
    """All values of a column in increasing order; empty when there are more than FEW_LEVELS."""
    levels = np.unique(sample)
    if len(levels) > FEW_LEVELS:
        return np.empty(0)
    for _, block in pool.blocks(bytes_per_arm=24 * pool.n_features):
        levels = np.union1d(levels, block[:, j].astype(np.float64))
        if len(levels) > FEW_LEVELS:
            return np.empty(0)
    return levels


def _spacing(sample: Floats) -> float:
    """The smallest distance between 3 to MOST_VALUES different values; 0 if there are fewer or more."""
    values = np.unique(sample)
    return float(np.diff(values).min()) if 2 < len(values) <= MOST_VALUES else 0.0


def _robust_centre_and_scale(scaled: Floats, span: float) -> tuple[float, float]:
    """Median and robust standard deviation; the plain standard deviation when half the values are equal."""
    quarter, centre, three_quarters = np.quantile(scaled, (0.25, 0.5, 0.75))
    robust = float(three_quarters - quarter) / _NORMAL_IQR
    # When the sample is constant, the range shows that a few arms outside the sample differ.
    scale = robust or float(scaled.std()) or span / math.sqrt(len(scaled))
    return float(centre), scale
