"""Between the user's rewards and the values that the model sees.

The model maximises. With `minimize=True` rewards change their sign on the way in and on the way out, and a
learned model transforms them and takes off their mean. With a kernel given, nothing else is done.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyarms.learning import LearnedModel
from manyarms.support.validation import Floats


@dataclass(frozen=True)
class RewardScale:
    """The map from utilities (rewards, larger is better) to model values, and back to the user's rewards."""

    model: LearnedModel | None
    sign: float = 1.0

    def values(self, utilities: Floats) -> Floats:
        """Utilities on the model's scale."""
        if self.model is None:
            return utilities
        return self.model.transform.forward(utilities) - self.model.mean

    def rewards(self, values: Floats) -> Floats:
        """Values of the model in the user's units."""
        if self.model is None:
            return self.sign * values
        return np.asarray(self.sign * self.model.transform.inverse(np.asarray(values) + self.model.mean))

    def interval(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """An interval of model values in the user's units, the lower end first."""
        ends = self.rewards(lower), self.rewards(upper)
        return ends if self.sign > 0 else (ends[1], ends[0])

    def spread(self, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation in the user's units.

        Where rewards are transformed, the latter is half the distance between mean − std and mean + std.
        """
        if self.model is None:
            return self.rewards(mean), std
        return self.rewards(mean), 0.5 * np.abs(self.rewards(mean + std) - self.rewards(mean - std))
