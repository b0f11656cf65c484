"""The noise that results come with: a standard deviation, or how many measurements each is the mean of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manyarms.support.validation import Floats, Ints

ROWS = 6  # of `History.own`


@dataclass(frozen=True)
class OwnNoise:
    """The noise of some results, one entry for each.

    A result with a stated standard deviation (`stds`, NaN where none is stated) has the variance stds². Any
    other is the mean of `replicates` measurements, each with the noise that the model learns.
    """

    replicates: Floats
    stds: Floats

    @classmethod
    def usual(cls, n: int) -> OwnNoise:
        """Single measurements with the noise of the model."""
        return cls(np.ones(n), np.full(n, np.nan))

    @property
    def is_usual(self) -> bool:
        """Whether every result is a single measurement without a stated noise."""
        return bool((self.replicates == 1.0).all() and np.isnan(self.stds).all())

    def at(self, places: Ints | NDArray[np.bool_] | slice) -> OwnNoise:
        """The noise of some of the results."""
        return OwnNoise(self.replicates[places], self.stds[places])

    def rows(self, values: Floats) -> tuple[Floats, ...]:
        """What these results add to the sums of their arms, in the order of `History.own`."""
        stated = ~np.isnan(self.stds)
        precisions = np.zeros(len(values))
        with np.errstate(over="ignore", divide="ignore"):
            precisions[stated] = 1.0 / self.stds[stated] ** 2
        weights = np.where(stated, 0.0, self.replicates)
        weighted = weights * values
        return (
            weights,
            weighted,
            weighted * values,
            np.where(stated, 0.0, 1.0),
            precisions,
            precisions * values,
        )
