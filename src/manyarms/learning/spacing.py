"""Length-scales are not shorter than the distance between neighbouring values of a column (theory §8.5).

A column of settings, such as 1, 2, 4, 8 or 0 to 12, is only seen at its values. With a length-scale far
below their distance a result says nothing about its neighbours. If that holds for all columns, the function
cannot be told from noise: only the sum of signal and noise is determined by the results. Such a fit takes
noise for signal. It believes every measured value, good or bad by chance, and chooses at random among all
other arms. A column whose neighbouring values have nothing in common holds names, which is another way to
read it (`column_ways.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from manyarms.learning.numeric_columns import Column
from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True)
class Spacings:
    """Distances between neighbouring values, in units of the columns' spreads; 0 where there is none.

    `shared` is for a length-scale that all columns share: the geometric mean. There is none beside a column
    of continuous values, in which all arms may differ.
    """

    each: tuple[float, ...]
    shared: float = 0.0

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Spacings:
        """Those of these columns; of a constant one, or one with two values, the distance says nothing."""
        each = tuple(column.spacing / column.spread for column in columns)
        known = [spacing for spacing in each if spacing > 0]
        if not known or any(column.continuous for column in columns):
            return cls(each)
        return cls(each, float(np.exp(np.log(known).mean())))

    def shortest(self, groups: Ints, n_scales: int) -> Floats:
        """Lower bounds of the log length-scales; −∞ where there is none, as for the columns of a category."""
        if n_scales == 1:
            return np.array([log_or_none(self.shared)])
        columns = [np.flatnonzero(groups == group) for group in range(n_scales)]
        return np.array([log_or_none(self.each[c[0]] if len(c) == 1 else 0.0) for c in columns])


def log_or_none(spacing: float) -> float:
    """The logarithm of a spacing; −∞ if there is none."""
    return math.log(spacing) if spacing > 0 else -math.inf
