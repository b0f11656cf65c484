"""Noise that differs between arms, where repeated results show it (theory §8.15).

The variance of the noise of one result of an arm x is σ² h(x) with log h(x) = Σ_j w_j k(x, z_j) − c. Two laws
are compared with a constant noise: log h is a straight line in the modelled value (its posterior mean under a
constant noise), or a Gaussian process in the features with the typical length-scales of the kernel family:
the noise may depend on columns that the rewards do not depend on. Both have this form. What is compared is
the evidence of the scatters of repeated results alone (`scatter_laplace.py`). Unless they speak clearly for a
law, the noise is constant and nothing changes (`noise_selection.py`).

A result of an arm x counts as 1/h(x) measurements. So the fit, the posterior and everything else that knows
results of different weight needs no formula of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.kernels import KernelLike, Scale
from manyarms.kernels.describe import describe, from_description, same_kernel
from manyarms.learning.map_fit import PRIOR, Fit
from manyarms.learning.marginal_likelihood import MEAN_VARIANCE
from manyarms.learning.reward_transforms import Targets
from manyarms.learning.scatter_laplace import LogNoise, Scatters, laplace
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, Ints

CLEARLY = 3.0  # the least difference of log evidence to a constant noise, a factor of 20
FEWEST, MOST_ARMS = 3, 128  # arms with repeated results that a law is learned from
LEVEL_SD = 3.0  # of the logarithm of the noise variance about that of all scatters together
SLOPE_SD = 1.0  # of the change of log h with one standard deviation of the modelled value
VARIED_SD = 1.0  # of log h as a function of the features
KAPPAS = (1e6, 10.0, 4.0)  # how little single arms vary about the law (`scatter_laplace.py`)
CONSTANT, BY_VALUE, BY_FEATURES = "nothing", "value", "features"
_LARGEST = 7.0  # of |log h|: a factor of 33 in the standard deviation
_ROWS = 4096  # of features at a time


@dataclass(frozen=True, eq=False)
class Expansion:
    """The function Σ_j w_j k(·, z_j) of features in the form in which the model sees them."""

    kernel: KernelLike
    points: NDArray[Any]
    weights: Floats

    def __call__(self, features: Any) -> Floats:
        """The function at these rows."""
        parts = [
            np.asarray(self.kernel.matrix(features[i : i + _ROWS], self.points), np.float64) @ self.weights
            for i in range(0, len(features), _ROWS)
        ]
        return np.concatenate(parts) if parts else np.empty(0)


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """log h = `shape` − `centre`, kept between `low` and `high`; `depends_on` says what h depends on."""

    shape: Expansion
    centre: float
    low: float
    high: float
    depends_on: str

    def factors(self, features: Any) -> Floats:
        """h at these rows of features."""
        return np.asarray(np.exp(np.clip(self.shape(features) - self.centre, self.low, self.high)))

    def on(self, targets: Targets, pool: Pool) -> Targets:
        """The same targets with each result of an arm counted as 1/h measurements; stated noise is kept."""
        h = np.where(targets.stated > 0, 1.0, self.factors(pool.take(targets.arms)))
        return replace(targets, counts=targets.counts / h, scatters=targets.own_scatters / h)

    def log_weights(self, targets: Targets, chosen: Ints, pool: Pool) -> float:
        """What the score of the weighed targets is too large by: ½ log h for each result that entered it.

        A density of a result has the factor h^(−½). That of an average of n results contains one of them.
        """
        logs = np.log(np.where(targets.stated > 0, 1.0, self.factors(pool.take(targets.arms))))
        entered = targets.results - 1.0
        entered[chosen] += 1.0
        return 0.5 * float(entered @ logs)

    def describe(self) -> dict[str, Any]:
        """Plain data and arrays for a saved run; `law_from` reads it back."""
        return {
            "kernel": describe(self.shape.kernel), "points": self.shape.points,
            "weights": self.shape.weights, "centre": self.centre, "low": self.low, "high": self.high,
            "depends_on": self.depends_on,
        }  # fmt: skip

    def __eq__(self, other: object) -> bool:
        """Whether both are known to be the same function."""
        if not isinstance(other, NoiseLaw):
            return False
        mine, its = self.describe(), other.describe()
        same = all(np.array_equal(mine[name], its[name]) for name in mine if name != "kernel")
        return same and same_kernel(self.shape.kernel, other.shape.kernel)

    __hash__ = None  # type: ignore[assignment]


def law_from(description: dict[str, Any]) -> NoiseLaw:
    """Read a law back from its `describe`."""
    plain = dict(description)
    kernel = from_description(plain.pop("kernel"))
    return NoiseLaw(Expansion(kernel, plain.pop("points"), plain.pop("weights")), **plain)


def find_law(fit: Fit, targets: Targets, chosen: Ints, pool: Pool) -> NoiseLaw | None:
    """The law that the scatters of repeated results speak for; None if the noise may well be constant.

    `fit` is under a constant noise; modelled values are predicted from the targets at the places `chosen`.
    """
    repeated = np.flatnonzero((targets.results > 1) & (targets.stated == 0))
    if fit.outcome == PRIOR or len(repeated) < FEWEST:
        return None
    value = _modelled_value(fit, targets, chosen, pool)
    places = _spread_out(repeated, value(pool.take(targets.arms[repeated])))
    if not targets.own_scatters[places].any():
        return None
    shape, depends_on = _most_likely(fit, targets, places, value, pool)
    return None if shape is None else _law(shape, targets, pool, depends_on)


def _modelled_value(fit: Fit, targets: Targets, chosen: Ints, pool: Pool) -> Expansion:
    """The posterior mean of f under a constant noise, up to the constant mean."""
    kernel = Scale(fit.family.kernel(fit.log_scales), fit.signal)
    points = pool.take(targets.arms[chosen])
    noise = np.where(targets.stated > 0, targets.stated, fit.noise / targets.counts)[chosen]
    C = np.asarray(kernel.matrix(points, points), np.float64) + MEAN_VARIANCE + np.diag(noise)
    return Expansion(kernel, np.array(points), np.linalg.solve(C, targets.means[chosen]))


def _spread_out(places: Ints, values: Floats) -> Ints:
    """At most MOST_ARMS of these places, evenly spread over the order of their modelled values."""
    if len(places) <= MOST_ARMS:
        return places
    kept = np.linspace(0, len(places) - 1, MOST_ARMS).astype(np.int64)
    return np.sort(places[np.argsort(values, kind="stable")[kept]])


def _most_likely(
    fit: Fit, targets: Targets, places: Ints, value: Expansion, pool: Pool
) -> tuple[Expansion | None, str]:
    """The shape of log h with the highest evidence at these arms; None for a constant."""
    features, freedom = pool.take(targets.arms[places]), targets.results[places] - 1.0
    scatters = _above_resolution(targets, places)
    scatters *= freedom.sum() / scatters.sum()
    values, kernel = value(features), fit.family.kernel(fit.family.typical)
    spread = float(values.std()) or 1.0
    z = (values - values.mean()) / spread
    varied = VARIED_SD**2 * np.asarray(kernel.matrix(features, features), np.float64)
    level = np.full((len(z), len(z)), LEVEL_SD**2)
    covariances = {
        CONSTANT: level,
        BY_VALUE: level + SLOPE_SD**2 * np.outer(z, z),
        BY_FEATURES: level + varied,
    }
    found = {name: _evidence(each, scatters, freedom) for name, each in covariances.items()}
    best = max((BY_VALUE, BY_FEATURES), key=lambda name: found[name][0])
    if found[best][0] < found[CONSTANT][0] + CLEARLY:
        return None, CONSTANT
    weights = found[best][1].weights
    if best == BY_FEATURES:
        return Expansion(kernel, np.array(features), VARIED_SD**2 * weights), best
    slope = SLOPE_SD**2 * float(z @ weights) / spread
    return Expansion(value.kernel, value.points, slope * value.weights), best


def _above_resolution(targets: Targets, places: Ints) -> Floats:
    """The scatters of these arms, and where all results of an arm are equal, what rounding may hide.

    No continuous noise gives equal results, so a scatter of 0 would speak for a noise of any smallness. But
    results are often rounded. The step of rounding is at most the smallest difference seen: of n results of
    which one differs by s, the scatter is s²(n − 1)/n. A rounded result hides the variance s²/12, here at
    most the average scatter.
    """
    scatters, results = targets.own_scatters[places], targets.results[places]
    different, slopes = scatters > 0, 2.0 * targets.log_slopes[places]
    per_result = np.log(scatters[different] / (results[different] - 1.0))
    step = (per_result + np.log(results[different]) - slopes[different]).min()
    average = math.log(scatters.sum() / (results.sum() - len(results)))
    hidden = (results - 1.0) * np.exp(np.minimum(step - math.log(12.0) + slopes, average))
    return np.where(different, scatters, hidden)


def _evidence(covariance: Floats, scatters: Floats, freedom: Floats) -> tuple[float, LogNoise]:
    """The log evidence averaged over KAPPAS, and the log variance under the most likely of them."""
    found = [laplace(covariance, 0.0, Scatters(scatters, freedom, kappa)) for kappa in KAPPAS]
    logs = [each.log_evidence for each in found]
    average = max(logs) + math.log(sum(math.exp(log - max(logs)) for log in logs) / len(logs))
    return average, found[int(np.argmax(logs))]


def _law(shape: Expansion, targets: Targets, pool: Pool, depends_on: str) -> NoiseLaw:
    """The law whose log h has the average 0 at the arms tried and does not leave the values it has there."""
    logs = shape(pool.take(targets.arms))
    centre = float(logs.mean())
    low, high = max(float(logs.min()) - centre, -_LARGEST), min(float(logs.max()) - centre, _LARGEST)
    return NoiseLaw(shape, centre, low, high, depends_on)


def law_sentence(law: NoiseLaw, targets: Targets, noise: float, pool: Pool) -> str:
    """For the user: how different the noise is, in the units of the rewards."""
    std = np.sqrt(noise * law.factors(pool.take(targets.arms)))
    to_reward = targets.transform.inverse
    in_units = 0.5 * (to_reward(targets.means + std) - to_reward(targets.means - std))
    quiet, noisy = np.quantile(in_units, [0.05, 0.95])
    return (
        f"repeated results show that the noise depends on the {law.depends_on} of candidates: its standard "
        f"deviation is between {quiet:.2g} and {noisy:.2g} at nine tenths of those tried"
    )
