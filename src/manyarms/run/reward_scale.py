"""Conversion between the user's rewards and the values of the model.

The model maximises. With `minimize=True` the sign of the rewards is changed. A learned model also transforms
the rewards and subtracts their mean; with a given kernel there is no other conversion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyarms.learning import LearnedModel
from manyarms.support.validation import Floats


@dataclass(frozen=True)
class RewardScale:
    """The map from utilities (rewards, where larger is better) to model values, and back to rewards."""

    model: LearnedModel | None
    sign: float = 1.0

    def values(self, utilities: Floats) -> Floats:
        """Utilities converted to model values."""
        if self.model is None:
            return utilities
        return self.model.transform.forward(utilities) - self.model.mean

    def rewards(self, values: Floats) -> Floats:
        """Model values converted to the user's units."""
        if self.model is None:
            return self.sign * values + 0.0  # never −0
        return np.asarray(
            self.sign * self.model.transform.inverse(np.asarray(values) + self.model.mean) + 0.0
        )

    def interval(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """An interval of model values converted to the user's units, the lower end first."""
        ends = self.rewards(lower), self.rewards(upper)
        return ends if self.sign > 0 else (ends[1], ends[0])

    def spread(self, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of model values, converted to the user's units.

        If rewards are transformed, the standard deviation is half the length of the interval mean ± std.
        """
        if self.model is None:
            return self.rewards(mean), std
        return self.rewards(mean), 0.5 * np.abs(self.rewards(mean + std) - self.rewards(mean - std))
