"""What makes a point worth trying: an upper bound, or the logarithm of the expected improvement.

Both are functions of the posterior mean and variance, with derivatives by the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from manyarms.support.validation import Floats

_SMALLEST_VARIANCE = 1e-30
_FAR = -300.0  # standard deviations below the best, where two terms of the expansion in 1/z² are enough
_SURE = 30.0  # standard deviations above it, where the expected improvement is the improvement of the mean
_LOG_ROOT = 0.5 * math.log(2.0 * math.pi)


class Acquisition(Protocol):
    """A function of mean and variance to be maximised."""

    def values(self, mean: Floats, variance: Floats) -> Floats:
        """The value of each point."""

    def slopes(self, mean: float, variance: float) -> tuple[float, float, float]:
        """The value of one point and its derivatives by mean and variance."""


@dataclass(frozen=True)
class UpperBound:
    """mean + width · standard deviation."""

    width: float

    def values(self, mean: Floats, variance: Floats) -> Floats:
        """The upper bounds."""
        return np.asarray(mean + self.width * np.sqrt(variance))

    def slopes(self, mean: float, variance: float) -> tuple[float, float, float]:
        """The upper bound and its derivatives."""
        std = math.sqrt(max(variance, _SMALLEST_VARIANCE))
        return mean + self.width * std, 1.0, 0.5 * self.width / std


@dataclass(frozen=True)
class LogExpectedImprovement:
    """log E max(f(x) − best, 0); its logarithm has a gradient also where the expectation underflows.

    With z = (mean − best)/σ and R = Φ(z)/φ(z), the expectation is σφ(z)(1 + zR).
    """

    best: float

    def values(self, mean: Floats, variance: Floats) -> Floats:
        """The logarithms of the expected improvements."""
        std = np.sqrt(np.maximum(variance, _SMALLEST_VARIANCE))
        z = (np.asarray(mean) - self.best) / std
        _, factor = _ratio_and_factor(z)
        usual = np.log(std) - 0.5 * np.minimum(z, _SURE) ** 2 - _LOG_ROOT + np.log(factor)
        return np.asarray(np.where(z < _SURE, usual, np.log(np.maximum(z, _SURE) * std)))

    def slopes(self, mean: float, variance: float) -> tuple[float, float, float]:
        """The value and its derivatives: ∂/∂mean = R/(σ(1 + zR)) and ∂/∂σ = 1/(σ(1 + zR))."""
        std = math.sqrt(max(variance, _SMALLEST_VARIANCE))
        z = (mean - self.best) / std
        if z >= _SURE:
            return math.log(mean - self.best), 1.0 / (mean - self.best), 0.0
        ratio, factor = (float(value[0]) for value in _ratio_and_factor(np.array([z])))
        value = math.log(std) - 0.5 * z * z - _LOG_ROOT + math.log(factor)
        return value, ratio / (std * factor), 0.5 / (std * std * factor)


def _ratio_and_factor(z: Floats) -> tuple[Floats, Floats]:
    """R = Φ(z)/φ(z) and 1 + zR; far below zero 1 + zR is 1/z² − 3/z⁴ + …, without cancellation."""
    from scipy.special import erfcx

    z = np.minimum(z, _SURE)
    ratio = math.sqrt(math.pi / 2.0) * erfcx(-z / math.sqrt(2.0))
    below = np.minimum(z, _FAR)
    return ratio, np.where(z < _FAR, 1.0 / below**2 - 3.0 / below**4, 1.0 + z * ratio)
