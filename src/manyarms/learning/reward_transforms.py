"""Map rewards to a scale on which a Gaussian model makes sense, and back to the user's units (theory §8.3).

All maps are strictly increasing, so that the best arm stays the best and an interval for the modelled value
is an interval for the reward. *Standardised* subtracts a centre and divides by a spread. *Smooth warpings*
(`smooth_warpings.py`) bend the scale first. *Normal scores* (van der Waerden) replace the i-th smallest of n
averages by Φ⁻¹((i − ½)/n) and interpolate linearly: outliers and heavy tails lose their influence, and the
order of the arms remains to be learned. Beyond the observed values this map continues with the slope from the
median to the last of them, so that a new record counts as a record, but by no more than the spread of its
half of the values suggests. Which map is used is decided by evidence (`model_selection.py`): the evidence of
the mapped values times the map's slopes is a density of the rewards themselves, whatever the map.

An arm's modelled value is the map of its *average* reward, and the scatter of its replicates is multiplied
by the squared slope of the map there (delta method; the history keeps no single rewards). The slope is that
of the chord over ± one standard deviation of the noise: the derivative itself is meaningless between two
neighbouring order statistics, which may be arbitrarily close.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from manyarms.errors import InvalidParameterError
from manyarms.learning.smooth_warpings import Warped, smooth_warpings
from manyarms.posterior.history import History, grouped
from manyarms.support.validation import Floats, Ints

_ROUNDING = 1e-13  # relative rounding error of a sum of squares
SMALLEST_DIFFERENCE = 1e-290  # rewards closer than this count as equal: their slope would overflow
LEAST_STATED = 1e-5  # of the rewards' variance: the smallest stated noise variance that is used
_KNOTS = 257  # of the normal scores, evenly spaced in score, so that both tails keep every value


class Transform(Protocol):
    """An increasing map from rewards to modelled values, with a number of shapes fitted to the rewards."""

    @property
    def n_shapes(self) -> int:
        """The number of shape parameters, which a comparison charges for."""

    def forward(self, rewards: Floats) -> Floats:
        """Modelled values."""

    def inverse(self, values: Floats) -> Floats:
        """Rewards; quantiles of the modelled value become quantiles of the reward."""

    def log_slopes(self, rewards: Floats) -> Floats:
        """The logarithm of the slope of the map at these rewards."""

    def describe(self) -> dict[str, Any]:
        """Plain data for a saved run."""


@dataclass(frozen=True)
class Standardised:
    """(y − centre) / spread."""

    centre: float = 0.0
    spread: float = 1.0

    @property
    def n_shapes(self) -> int:
        """None."""
        return 0

    def forward(self, rewards: Floats) -> Floats:
        """Modelled values."""
        return np.asarray((np.asarray(rewards) - self.centre) / self.spread)

    def inverse(self, values: Floats) -> Floats:
        """Rewards."""
        return np.asarray(self.centre + self.spread * np.asarray(values))

    def log_slopes(self, rewards: Floats) -> Floats:
        """The logarithm of 1/spread."""
        return np.full(np.shape(rewards), -math.log(self.spread))

    def describe(self) -> dict[str, Any]:
        """Plain data."""
        return {"transform": "standardised", "centre": self.centre, "spread": self.spread}


@dataclass(frozen=True)
class NormalScores:
    """Piecewise linear through (rewards, scores), extrapolated with the slopes `below` and `above`."""

    rewards: tuple[float, ...]
    scores: tuple[float, ...]
    below: float
    above: float

    @property
    def n_shapes(self) -> int:
        """As many as the most flexible smooth warping; what else the ranks fit, `log_slopes` corrects for."""
        return 2

    def forward(self, rewards: Floats) -> Floats:
        """Modelled values."""
        return _piecewise_linear(np.asarray(rewards), self.rewards, self.scores, self.below, self.above)

    def inverse(self, values: Floats) -> Floats:
        """Rewards."""
        return _piecewise_linear(
            np.asarray(values), self.scores, self.rewards, 1 / self.below, 1 / self.above
        )

    def log_slopes(self, rewards: Floats) -> Floats:
        """The logarithm of the slope of the chord that reaches about √n/2 order statistics to either side.

        The slope of a chord over m spacings estimates the density of the rewards, and on average its
        logarithm is log m − ψ(m) too large (Vasicek 1976), which is subtracted.
        """
        from scipy.special import digamma

        knots, scores = np.array(self.rewards), np.array(self.scores)
        reach = max(1, round(0.5 * math.sqrt(len(knots))))
        place = np.searchsorted(knots, rewards)
        low, high = np.maximum(place - reach, 0), np.minimum(place + reach, len(knots) - 1)
        spacings = high - low
        with np.errstate(over="ignore"):
            slopes = (scores[high] - scores[low]) / (knots[high] - knots[low])
        return np.asarray(np.log(slopes) - np.log(spacings) + digamma(spacings))

    def describe(self) -> dict[str, Any]:
        """Plain data."""
        return {"transform": "normal scores", **self.__dict__}


def _piecewise_linear(
    x: Floats, xs: tuple[float, ...], ys: tuple[float, ...], below: float, above: float
) -> Floats:
    inside = np.interp(x, xs, ys)
    return np.asarray(inside + below * np.minimum(x - xs[0], 0.0) + above * np.maximum(x - xs[-1], 0.0))


def transform_from(description: dict[str, Any]) -> Transform:
    """Read a transform back from its `describe`."""
    settings = {key: value for key, value in description.items() if key != "transform"}
    if description["transform"] == "standardised":
        return Standardised(**settings)
    if warped := Warped.from_description(description):
        return warped
    knots = {key: tuple(settings[key]) for key in ("rewards", "scores")}
    return NormalScores(**{**settings, **knots})


@dataclass(frozen=True)
class Targets:
    """A history on the model's scale: the mapped averages, and the scatter of replicates.

    An arm has a row for its results with the learned noise, and one for those whose noise was stated: their
    averages weigh differently for every value of the learned noise (theory §8.10). `counts` are the numbers
    of measurements behind the averages, `results` those of separate results, and `stated` the variance of a
    row whose noise was stated, 0 for the others. `log_slopes` are those of the transform at the averages.
    `noise_floor` is the variance hidden by tied averages (`tie_variance`), a lower bound on the noise
    variance. `own_scatters` are those mapped without the assumption of a constant noise (`noise_law.py`).
    """

    transform: Transform
    arms: Ints
    counts: Floats
    means: Floats
    scatters: Floats
    log_slopes: Floats
    noise_floor: float = 0.0
    results: Floats = field(default_factory=lambda: np.empty(0))
    stated: Floats = field(default_factory=lambda: np.empty(0))
    own_scatters: Floats = field(default_factory=lambda: np.empty(0))

    def with_own_scatters(self) -> Targets:
        """The same with the scatter of each arm mapped by the chord over itself, not over the usual noise."""
        return replace(self, scatters=self.own_scatters)

    @property
    def sums(self) -> Floats:
        """Sums of the modelled values, on which a posterior conditions."""
        return self.counts * self.means

    def by_arm(self, noise: float) -> Targets:
        """One row for each arm: a stated variance v counts as noise/v measurements of variance `noise`."""
        if not self.stated.any():
            return self
        weights = np.where(self.stated > 0, noise / np.where(self.stated > 0, self.stated, 1.0), self.counts)
        arms, counts, sums = grouped(self.arms, self.means, weights)
        nothing = np.zeros(len(arms))
        return replace(
            self, arms=arms, counts=counts, means=sums / counts, scatters=nothing, log_slopes=nothing,
            results=counts, stated=nothing, own_scatters=nothing,
        )  # fmt: skip


@dataclass(frozen=True)
class Averages:
    """The averages that a model is fitted to, in reward units and in order of arms; see `Targets`.

    `stated` are the variances of the averages of results with a stated noise, 0 for the other rows.
    """

    arms: Ints
    counts: Floats
    results: Floats
    means: Floats
    scatters: Floats
    stated: Floats


def arm_averages(history: History) -> Averages:
    """The average reward in each row, and the sum of squares about it (zero where it is rounding error)."""
    order = np.argsort(history.arms)
    arms = history.arms[order]
    counts, sums, squares, results, precisions, scaled = history.own[:, order]
    usual, stated = np.flatnonzero(results), np.flatnonzero(precisions)
    means = sums[usual] / counts[usual]
    scatters = squares[usual] - sums[usual] * means
    kept = (results[usual] > 1) & (scatters > _ROUNDING * squares[usual])
    place = np.argsort(np.concatenate([usual, stated]), kind="stable")
    nothing, ones = np.zeros(len(stated)), np.ones(len(stated))

    def rows(first: Floats, second: Floats) -> Floats:
        return np.concatenate([first, second])[place]

    return Averages(
        arms=np.concatenate([arms[usual], arms[stated]])[place],
        counts=rows(counts[usual], ones),
        results=rows(results[usual], ones),
        means=rows(means, scaled[stated] / precisions[stated]),
        scatters=rows(np.where(kept, scatters, 0.0), nothing),
        stated=rows(np.zeros(len(usual)), 1.0 / precisions[stated]),
    )


def targets(history: History, transform: Transform) -> Targets:
    """The values a model is fitted to, in order of arms: the order of the results has no influence."""
    seen = arm_averages(history)
    means, freedom = seen.means, float((seen.results - 1.0).sum())
    noise = math.sqrt(float(seen.scatters.sum()) / max(freedom, 1.0))
    mapped = np.zeros(len(means))
    if noise > 0:
        chord = transform.forward(means + noise) - transform.forward(means - noise)
        mapped = (np.sqrt(seen.scatters) * (chord / (2.0 * noise))) ** 2
    noise_floor = tie_variance(means) if isinstance(transform, NormalScores) else 0.0
    return Targets(
        transform=transform,
        arms=seen.arms,
        counts=seen.counts,
        means=transform.forward(means),
        scatters=mapped,
        log_slopes=transform.log_slopes(means),
        noise_floor=noise_floor,
        results=seen.results,
        stated=mapped_variances(transform, means, seen.stated, noise_floor),
        own_scatters=mapped if isinstance(transform, NormalScores) else _by_own_chords(transform, seen),
    )


def _by_own_chords(transform: Transform, seen: Averages) -> Floats:
    """The scatters on the model's scale by the chord over ± their own standard deviation.

    For two results this is exactly their scatter there. The chord over the usual noise of all arms says
    nothing about an arm with much less noise, and may leave the domain of a logarithm.
    """
    std = np.sqrt(seen.scatters / seen.counts)
    chord = transform.forward(seen.means + std) - transform.forward(seen.means - std)
    return np.asarray(0.25 * seen.counts * chord**2)


def mapped_variances(transform: Transform, rewards: Floats, variances: Floats, floor: float) -> Floats:
    """Stated variances (0: none) at these rewards on the model's scale, by the slope of the chord there.

    They are at least LEAST_STATED and the variance that ties hide: a smaller one could not be factorised.
    """
    noise = np.sqrt(variances)
    chord = transform.forward(rewards + noise) - transform.forward(rewards - noise)
    return np.where(variances > 0, np.maximum((0.5 * chord) ** 2, max(floor, LEAST_STATED)), 0.0)


def fit_transforms(history: History, kind: str = "auto") -> tuple[tuple[Transform, ...], tuple[str, ...]]:
    """The maps to compare for these results, and what had to be assumed.

    `kind` is "auto" (normal scores, standardised, and the smooth warpings), "rank" (normal scores only) or
    "standardise". There is one map, with an assumption, when the results do not differ.
    """
    if kind not in ("auto", "rank", "standardise"):
        raise InvalidParameterError("rewards", kind, "'auto', 'rank' or 'standardise'")
    means = arm_averages(history).means
    if not len(means):
        return (Standardised(),), (
            "no results yet: rewards are assumed to have mean 0 and standard deviation 1",
        )
    if np.ptp(means) < SMALLEST_DIFFERENCE:
        constant, size = float(means[0]), max(abs(float(means[0])), 1.0)
        assumption = f"all rewards are {constant:g} so far: differences of about {size:g} are assumed"
        return (Standardised(constant, size),), (assumption,)
    if kind == "rank":
        return (normal_scores(means),), ()
    unit = float(np.abs(means).max())  # so that squares of rewards near the largest float do not overflow
    spread = unit * float((means / unit).std())
    standardised = Standardised(unit * float((means / unit).mean()), spread if spread > 0 else unit)
    if kind == "standardise":
        return (standardised,), ()
    return (normal_scores(means), standardised, *smooth_warpings(means)), ()


def scale_sentence(transform: Transform) -> tuple[str, ...]:
    """A sentence for the user about a scale that is not their own; none where it is."""
    if isinstance(transform, Standardised):
        return ()
    name = transform.curve.name.replace("logarithm", "logarithmic") if isinstance(transform, Warped) else ""
    scale = f"on a {name} scale" if name else "by their rank"
    return (f"rewards are modelled {scale} and reported in their own units",)


def tie_variance(means: Floats) -> float:
    """The average variance within ties of the scores that the averages would have without ties.

    When rewards are capped or are counts, many are equal and share one score in place of several different
    ones. Treated as exact, a plateau of equal values would be evidence for a smooth function without
    noise. Ties at the lowest value are left out: when most arms give zero and a few are hits, the order
    among the zeros does not matter, and noise as large as the spread of their ranks would hide the hits.
    """
    from scipy.special import ndtri

    _, group, counts = np.unique(means, return_inverse=True, return_counts=True)
    if len(counts) == len(means):
        return 0.0
    untied = ndtri((np.arange(len(means)) + 0.5) / len(means))
    group = np.sort(group)
    centre = np.bincount(group, untied) / counts
    return float(((untied - centre[group])[group > 0] ** 2).sum() / len(means))


def normal_scores(means: Floats) -> NormalScores:
    """Ties share the score of their middle rank; at most _KNOTS values are kept, always with the extremes."""
    from scipy.special import ndtri

    values, counts = np.unique(means, return_counts=True)
    middle = np.cumsum(counts) - 0.5 * counts
    scores = ndtri(middle / len(means))
    wanted = np.linspace(scores[0], scores[-1], _KNOTS)
    kept = np.unique(np.clip(np.searchsorted(scores, wanted), 0, len(scores) - 1))
    kept = np.unique(np.concatenate([[0], kept, [len(scores) - 1]]))
    values, scores = values[kept], scores[kept]
    lower, upper = (len(kept) - 1) // 2, len(kept) // 2  # so that neither half is empty
    below = float((scores[upper] - scores[0]) / (values[upper] - values[0]))
    above = float((scores[-1] - scores[lower]) / (values[-1] - values[lower]))
    return NormalScores(tuple(values.tolist()), tuple(scores.tolist()), below, above)
