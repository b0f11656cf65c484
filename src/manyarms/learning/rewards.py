"""Rewards on a scale where a Gaussian model makes sense, and the way back to the user's units.

Two maps, both strictly increasing, so that the best arm stays the best and an interval for the modelled
value is an interval for the reward. *Standardised* subtracts a centre and divides by a spread. *Normal
scores* (van der Waerden) replace the i-th smallest of n averages by Φ⁻¹((i − ½)/n), in between linearly:
outliers and heavy tails lose their pull, and what is left to learn is the order. Beyond the values seen
the map goes on with the slope of its outer tenth, so that a new record is a record.

An arm's modelled value is the map of its *average* reward, and the scatter of its replicates is carried
over by the slope there (delta method); the history keeps no single rewards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from manyarms.history import History
from manyarms.validation import Floats, Ints

HEAVY_TAIL = 5.0  # robust standard deviations between the median and the farthest average
_NORMAL_IQR = 1.3489795
_KNOTS = 257  # of the normal scores, evenly spaced in score, so that both tails are kept value by value
_OUTER = 0.1  # share of the knots that gives the slope beyond the last one


class Transform(Protocol):
    """An increasing map from rewards to modelled values."""

    def forward(self, rewards: Floats) -> Floats:
        """Modelled values."""

    def inverse(self, values: Floats) -> Floats:
        """Rewards; a modelled median and quantiles become the reward's."""

    def slope(self, rewards: Floats) -> Floats:
        """Derivative of `forward`."""

    def describe(self) -> dict[str, Any]:
        """Plain data, for a saved run."""


@dataclass(frozen=True)
class Standardised:
    """(y − centre) / spread."""

    centre: float = 0.0
    spread: float = 1.0

    def forward(self, rewards: Floats) -> Floats:
        """Modelled values."""
        return np.asarray((np.asarray(rewards) - self.centre) / self.spread)

    def inverse(self, values: Floats) -> Floats:
        """Rewards."""
        return np.asarray(self.centre + self.spread * np.asarray(values))

    def slope(self, rewards: Floats) -> Floats:
        """1 / spread."""
        return np.full(np.shape(rewards), 1.0 / self.spread)

    def describe(self) -> dict[str, Any]:
        """Plain data."""
        return {"transform": "standardised", "centre": self.centre, "spread": self.spread}


@dataclass(frozen=True)
class NormalScores:
    """Piecewise linear through (rewards, scores), going on with the slopes `below` and `above`."""

    rewards: tuple[float, ...]
    scores: tuple[float, ...]
    below: float
    above: float

    def forward(self, rewards: Floats) -> Floats:
        """Modelled values."""
        return _through(np.asarray(rewards), self.rewards, self.scores, self.below, self.above)

    def inverse(self, values: Floats) -> Floats:
        """Rewards."""
        return _through(np.asarray(values), self.scores, self.rewards, 1 / self.below, 1 / self.above)

    def slope(self, rewards: Floats) -> Floats:
        """Of the segment a reward lies in."""
        slopes = np.diff(self.scores) / np.diff(self.rewards)
        place = np.searchsorted(self.rewards, rewards)
        return np.asarray(np.concatenate([[self.below], slopes, [self.above]])[place])

    def describe(self) -> dict[str, Any]:
        """Plain data."""
        return {"transform": "normal scores", **self.__dict__}


def _through(x: Floats, xs: tuple[float, ...], ys: tuple[float, ...], below: float, above: float) -> Floats:
    inside = np.interp(x, xs, ys)
    return np.asarray(inside + below * np.minimum(x - xs[0], 0.0) + above * np.maximum(x - xs[-1], 0.0))


def transform_from(description: dict[str, Any]) -> Transform:
    """The transform that `describe` described."""
    settings = {key: value for key, value in description.items() if key != "transform"}
    if description["transform"] == "standardised":
        return Standardised(**settings)
    knots = {key: tuple(settings[key]) for key in ("rewards", "scores")}
    return NormalScores(**{**settings, **knots})


@dataclass(frozen=True)
class Targets:
    """A history on the model's scale: averages mapped, and the scatter of replicates."""

    arms: Ints
    counts: Floats
    means: Floats
    scatters: Floats

    @property
    def sums(self) -> Floats:
        """What a posterior conditions on."""
        return self.counts * self.means


def averages(history: History) -> tuple[Floats, Floats]:
    """Every arm's average reward, and the sum of squares about it."""
    counts, sums = history.counts, history.sums
    means = sums / counts
    scatters = np.maximum(history.squares - sums * means, 0.0)
    return means, np.where(counts > 1, scatters, 0.0)


def targets(history: History, transform: Transform) -> Targets:
    """What the model is fitted to."""
    means, scatters = averages(history)
    mapped = (np.sqrt(scatters) * transform.slope(means)) ** 2
    return Targets(history.arms, history.counts, transform.forward(means), mapped)


def tail(values: Floats) -> float:
    """Robust standard deviations from the median to the farthest value; infinite when half are equal."""
    quarter, centre, three_quarters = np.quantile(values, (0.25, 0.5, 0.75))
    farthest = float(np.abs(values - centre).max())
    robust = float(three_quarters - quarter) / _NORMAL_IQR
    return 0.0 if farthest == 0 else farthest / robust if robust > 0 else math.inf


def fit_transform(history: History, kind: str = "auto") -> tuple[Transform, tuple[str, ...]]:
    """The map for these results, and what it assumes.

    `kind` is "standardise", "rank", or "auto": normal scores when an average lies more than HEAVY_TAIL
    robust standard deviations from the median (a normal sample of a thousand stays within four).
    """
    means, _ = averages(history)
    if not len(means):
        return Standardised(), ("no result yet: rewards are assumed to be about 0, give or take 1",)
    if means.min() == means.max():
        constant, size = float(means[0]), max(abs(float(means[0])), 1.0)
        said = f"all rewards are {constant:g} so far: differences of about {size:g} are assumed"
        return Standardised(constant, size), (said,)
    if kind == "rank" or (kind == "auto" and tail(means) > HEAVY_TAIL):
        said = "rewards have heavy tails or outliers: modelled by their rank, reported in their own units"
        return normal_scores(means), (said,) if kind == "auto" else ()
    unit = float(np.abs(means).max())  # so that squares of rewards near the largest float do not overflow
    spread = unit * float((means / unit).std())
    return Standardised(unit * float((means / unit).mean()), spread if spread > 0 else unit), ()


def normal_scores(means: Floats) -> NormalScores:
    """Ties share the score of their middle rank; at most _KNOTS values are kept, the extremes always."""
    from scipy.special import ndtri

    values, counts = np.unique(means, return_counts=True)
    middle = np.cumsum(counts) - 0.5 * counts
    scores = ndtri(middle / len(means))
    wanted = np.linspace(scores[0], scores[-1], _KNOTS)
    kept = np.unique(np.clip(np.searchsorted(scores, wanted), 0, len(scores) - 1))
    kept = np.unique(np.concatenate([[0], kept, [len(scores) - 1]]))
    values, scores = values[kept], scores[kept]
    outer = max(1, int(_OUTER * len(kept)))
    below = float((scores[outer] - scores[0]) / (values[outer] - values[0]))
    above = float((scores[-1] - scores[-1 - outer]) / (values[-1] - values[-1 - outer]))
    return NormalScores(tuple(values.tolist()), tuple(scores.tolist()), below, above)
