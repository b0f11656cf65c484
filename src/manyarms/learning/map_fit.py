"""Type-II maximum a posteriori: where the evidence times weak priors is highest.

The priors are normal in the logarithm, for features in units of their spread and rewards of variance one:

    log l  ~ N(family's typical, 1.5²)     a factor 4.5 either way is one standard deviation
    log s² ~ N(0, 1.5²)                    the signal explains about what there is
    log σ² ~ N(log 0.05, 2²)               noise from 1/50 to 1.6 times the rewards' sd is within two

They keep twenty observations from running to length-scales of zero or infinity, and five hundred outvote
them. Where each feature has a length-scale, its prior is N(the one found for all of them, 1²) instead.
Families are compared by the evidence with their parameters integrated out, in Laplace's approximation
(MacKay 1992): log evidence − ½‖z‖² − ½ Σ log max(h_i, 1), with z the values found in units of the prior's
standard deviations and h the eigenvalues of the curvature of the posterior in those units. A parameter that
the data do not determine costs nothing, one that they pin down costs the logarithm of how much narrower it
has become. So d length-scales replace one as soon as the data tell features apart, which may be at twenty
observations. The BIC, which charges each of them ½ log n, waits for hundreds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.learning.kernel_families import Family
from manyarms.learning.marginal_likelihood import LogEvidence, Observations, log_evidence
from manyarms.support.validation import Floats

SCALE_SD, SIGNAL_SD, NOISE_SD = 1.5, 1.5, 2.0
OWN_SCALE_SD = 1.0  # of a feature's log length-scale about the one that all of them share
TYPICAL_NOISE = 0.05
SCALE_REACH = math.log(1e3)  # length-scales stay within this factor of the typical ones
SIGNAL_BOUNDS = (1e-3, 1e3)
NOISE_BOUNDS = (1e-5, 10.0)

CONVERGED, STOPPED, PRIOR = "converged", "stopped early", "prior values"
_STEP = 0.02  # of a logarithm, for second derivatives
_REFUSED = 1e12  # objective where C is not positive definite: the line search turns back


@dataclass(frozen=True)
class Start:
    """Where a search begins: (log length-scales, log s², log σ²), and how sharply each is known.

    `sharpness` is one over a standard deviation, the others held. The search moves the values times these, to
    which all directions are alike: from a fit to some of the data it needs half as many evaluations.
    """

    values: Floats
    sharpness: Floats

    def towards(self, here: Floats, there: Floats) -> Start:
        """For length-scales elsewhere: as far from `there` as these are from `here`."""
        return replace(self, values=self.values + np.append(there - here, [0.0, 0.0]))

    def is_near(self, values: Floats) -> bool:
        """Within a standard deviation of each."""
        return bool((np.abs(values - self.values) * self.sharpness < 1.0).all())

    def spread_over(self, n_scales: int) -> Start:
        """The one length-scale for each of n, which together are as sharp as it was."""
        scale, alone = self.values[0], self.sharpness[0] / math.sqrt(n_scales)
        return Start(
            np.append(np.full(n_scales, scale), self.values[1:]),
            np.append(np.full(n_scales, alone), self.sharpness[1:]),
        )


@dataclass(frozen=True)
class Fit:
    """A family with its learned values, on the scale of standardised features and rewards.

    `score` is what families are compared by; NaN where it was not asked for.
    `outcome` is "converged", "stopped early" (the evaluations allowed were used up; the values are the
    best seen) or "prior values" (nothing could be evaluated, or there was nothing to learn from).
    """

    family: Family
    log_scales: Floats
    signal: float
    noise: float
    mean: float
    evidence: float
    score: float
    sharpness: Floats
    outcome: str

    @property
    def start(self) -> Start:
        """For a fit to other data, or of a similar family."""
        return Start(np.concatenate([self.log_scales, np.log([self.signal, self.noise])]), self.sharpness)


@dataclass(frozen=True)
class HyperPrior:
    """Independent normals on the logarithms, and the box the search stays in."""

    centre: Floats
    sd: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, family: Family, shared: float | None = None) -> HyperPrior:
        """The priors at the head of this module; `shared` is the log length-scale found for all features."""
        typical, scale_sd = family.typical, SCALE_SD
        if shared is not None:
            typical, scale_sd = np.full(len(typical), shared), OWN_SCALE_SD
        centre = np.append(typical, [0.0, math.log(TYPICAL_NOISE)])
        sd = np.append(np.full(len(typical), scale_sd), [SIGNAL_SD, NOISE_SD])
        floors, ceilings = np.log([SIGNAL_BOUNDS, NOISE_BOUNDS]).T
        return cls(
            centre, sd, np.append(typical - SCALE_REACH, floors), np.append(typical + SCALE_REACH, ceilings)
        )

    def with_noise_above(self, least: float) -> HyperPrior:
        """The same priors in a box that leaves out smaller noise variances."""
        lower = self.lower.copy()
        lower[-1] = max(lower[-1], math.log(max(least, NOISE_BOUNDS[0])))
        return replace(self, lower=lower)

    @property
    def start(self) -> Start:
        """Its centre."""
        return Start(self.centre, 1.0 / self.sd)

    def pull(self, values: Floats) -> Floats:
        """Gradient of minus the log density."""
        return np.asarray((values - self.centre) / self.sd**2)

    def log_density(self, values: Floats) -> float:
        """Of the logarithms."""
        z = (values - self.centre) / self.sd
        return float(-0.5 * z @ z - np.log(self.sd * math.sqrt(2 * math.pi)).sum())


def at_prior(family: Family, outcome: str = PRIOR) -> Fit:
    """The centre of the priors: what is assumed when nothing has been seen."""
    start = HyperPrior.of(family).start
    scales, sharpness = start.values[:-2], start.sharpness
    return Fit(family, scales, 1.0, TYPICAL_NOISE, 0.0, -math.inf, -math.inf, sharpness, outcome)


def fit(
    family: Family,
    features: Any,
    seen: Observations,
    start: Start | None = None,
    evaluations: int = 60,
    prior: HyperPrior | None = None,
    compared: bool = True,
) -> Fit:
    """The highest posterior density reached from the start, or the prior's centre; deterministic.

    The centre also serves where nothing can be evaluated at the start. With `compared` the fit gets a score
    and its own sharpness, which takes one more evaluation per parameter.
    """
    prior = (prior or HyperPrior.of(family)).with_noise_above(seen.blur)
    search = _Search(family, family.on(features), seen, prior)
    if start is None or not search.run(start, evaluations):
        search.run(prior.start, evaluations)
    return search.result(compared)


def another_peak(
    found: Fit, features: Any, seen: Observations, shift: float, evaluations: int = 60
) -> Fit | None:
    """Where a search from elsewhere ends: the prior's centre, its length-scales moved by `shift`.

    None when it comes to within a standard deviation of what has been found; most do.
    """
    if not len(found.log_scales):
        return None
    prior = HyperPrior.of(found.family).with_noise_above(seen.blur)
    search = _Search(found.family, found.family.on(features), seen, prior, found.start)
    moved = np.append(np.full(len(found.log_scales), shift), [0.0, 0.0])
    start = Start(prior.centre + moved, found.sharpness)
    try:
        search.run(start, evaluations)
    except _KnownPeakError:
        return None
    return search.result(compared=True)


class _KnownPeakError(Exception):
    """A search has come to where another one ended."""


class _Search:
    """L-BFGS-B; remembers the best point, whatever it ends with. `known` is where it need not go again."""

    def __init__(
        self,
        family: Family,
        geometry: Callable[[Floats], Any],
        seen: Observations,
        prior: HyperPrior,
        known: Start | None = None,
    ) -> None:
        self._family, self._geometry, self._seen, self._prior = family, geometry, seen, prior
        self._known = known
        self._best: tuple[float, Floats, LogEvidence] | None = None
        self._converged = False

    def run(self, start: Start, evaluations: int) -> bool:
        """Whether anything could be evaluated."""
        from scipy.optimize import minimize  # slow to import

        self._sharpness = start.sharpness
        lower, upper = self._prior.lower * self._sharpness, self._prior.upper * self._sharpness
        outcome = minimize(
            self._objective,
            np.clip(start.values * self._sharpness, lower, upper),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(lower, upper, strict=True)),
            options={"maxfun": evaluations, "maxiter": evaluations, "ftol": 1e-7, "gtol": 1e-4},
        )
        self._converged = bool(outcome.success)
        return self._best is not None

    def _evidence(self, values: Floats) -> LogEvidence | None:
        """At these values, or None where it cannot be computed."""
        signal, noise = np.exp(values[-2:])
        found = log_evidence(self._geometry(values[:-2]), float(signal), float(noise), self._seen)
        usable = found is not None and math.isfinite(found.value) and np.isfinite(found.gradient).all()
        return found if usable else None

    def _objective(self, moved: Floats) -> tuple[float, Floats]:
        """Negative log posterior density and its gradient."""
        values = moved / self._sharpness
        if self._known is not None and self._known.is_near(values):
            raise _KnownPeakError
        found = self._evidence(values)
        if found is None:
            return _REFUSED, np.zeros_like(values)
        value = -found.value - self._prior.log_density(values)
        if self._best is None or value < self._best[0]:
            self._best = (value, values.copy(), found)
        return value, (self._prior.pull(values) - found.gradient) / self._sharpness

    def result(self, compared: bool) -> Fit:
        if self._best is None:
            return at_prior(self._family)
        _, values, found = self._best
        signal, noise = (float(v) for v in np.exp(values[-2:]))
        score, sharpness = self._judged(values, found) if compared else (math.nan, self._sharpness)
        outcome = CONVERGED if self._converged else STOPPED
        return Fit(
            self._family, values[:-2], signal, noise, found.mean, found.value, score, sharpness, outcome
        )

    def _judged(self, values: Floats, found: LogEvidence) -> tuple[float, Floats]:
        """Log evidence of the family, parameters integrated out (Laplace; see above), and the sharpness."""
        z = (values - self._prior.centre) / self._prior.sd
        curvature = self._curvature(values, found)
        sharper = np.maximum(np.linalg.eigvalsh(curvature), 1.0)
        score = float(found.value - 0.5 * z @ z - 0.5 * np.log(sharper).sum())
        return score, np.sqrt(np.maximum(np.diag(curvature), 1.0)) / self._prior.sd

    def _curvature(self, values: Floats, found: LogEvidence) -> Floats:
        """Second derivatives of the negative log posterior, in units of the prior's standard deviations.

        Differences of gradients, towards the inside of the box. Where C is not positive definite beyond
        the step the data say nothing more, and the prior's own curvature stands.
        """
        H = np.zeros((len(values), len(values)))
        for i, ceiling in enumerate(self._prior.upper):
            moved = values.copy()
            moved[i] += _STEP if values[i] + _STEP <= ceiling else -_STEP
            beyond = self._evidence(moved)
            if beyond is not None:
                H[i] = (found.gradient - beyond.gradient) / (moved[i] - values[i])
        sd = self._prior.sd
        return np.asarray(np.eye(len(values)) + 0.5 * (H + H.T) * sd * sd[:, None])
