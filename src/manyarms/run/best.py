"""The recommendation of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Best:
    """The pulled arm with the best posterior mean, in the user's reward units.

    `mean` and `std` are the posterior mean and standard deviation of the arm's expected reward. `lower` and
    `upper` are the confidence interval mean ± β σ̃ or, if the model is learned, where β promises nothing, the
    interval that holds the expected reward with probability 90 % under the model. `pulls` is the number of
    pulls of the arm, `average` the average of its rewards and `features` its feature row.
    """

    arm: int
    id: Any
    mean: float
    std: float
    lower: float
    upper: float
    pulls: int
    average: float
    features: Any = field(compare=False)  # an array; `arm` decides what it is
