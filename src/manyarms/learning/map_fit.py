"""Fit kernel, signal and noise: maximise the evidence times weak priors (type-II MAP, theory §8.5).

The priors are normal in the logarithm, for features in units of their spread and rewards of variance one:

    log l  ~ N(family's typical, 1.5²)     one standard deviation is a factor of 4.5 either way
    log s² ~ N(0, 1.5²)                    the signal explains about the variance there is
    log σ² ~ N(log 0.05, 2²)               noise from 1/50 to 1.6 times the rewards' sd is within two

With twenty observations they prevent length-scales of zero or infinity; with five hundred the data outweigh
them. When each feature has its own length-scale, its prior is N(the shared one found first, 1²) instead.
The length-scale of a column of settings is at least the distance between its values (`spacing.py`).
Families are compared by the evidence with their parameters integrated out, in Laplace's approximation
(MacKay 1992): log evidence − ½‖z‖² − ½ Σ log max(h_i, 1), with z the values found, in units of the prior's
standard deviations, and h the eigenvalues of the Hessian of the negative log posterior in those units. A
parameter that the data do not determine costs nothing; one that they determine costs the logarithm of how
much narrower it has become. So d length-scales replace one as soon as the data show that features differ,
which may be at twenty observations. The BIC, which charges each of them ½ log n, would need hundreds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.learning.kernel_families import CovarianceAtScales, Family
from manyarms.learning.marginal_likelihood import LogEvidence, Observations, log_evidence
from manyarms.support.validation import Floats

SCALE_SD, SIGNAL_SD, NOISE_SD = 1.5, 1.5, 2.0
PER_FEATURE_SCALE_SD = 1.0  # of a feature's log length-scale about the shared one
TYPICAL_NOISE = 0.05
SCALE_REACH = math.log(1e3)  # length-scales stay within this factor of the typical ones
SIGNAL_BOUNDS = (1e-3, 1e3)
NOISE_BOUNDS = (1e-5, 10.0)

CONVERGED, STOPPED, PRIOR = "converged", "stopped early", "prior values"
_STEP = 0.02  # in the logarithm of a parameter, for second derivatives
_NOT_POSITIVE_DEFINITE = 1e12  # the objective where C is not positive definite; the line search backs off


@dataclass(frozen=True)
class Start:
    """Where a search begins: (log length-scales, log s², log σ²), and how well each is determined.

    `inverse_sd` is one over the conditional standard deviation of each value, given the others. The search
    works on the values times these, so that all directions have about the same curvature: starting from a fit
    to part of the data it then needs half as many evaluations.
    """

    values: Floats
    inverse_sd: Floats

    def shifted(self, typical: Floats, other_typical: Floats) -> Start:
        """For another family: length-scales as far from its typical ones as these are from `typical`."""
        return replace(self, values=self.values + np.append(other_typical - typical, [0.0, 0.0]))

    def is_near(self, values: Floats) -> bool:
        """Whether all values are within one standard deviation."""
        return bool((np.abs(values - self.values) * self.inverse_sd < 1.0).all())

    def split(self, n_scales: int) -> Start:
        """The shared length-scale for each of n features, which together are as well determined as it was."""
        scale, each = self.values[0], self.inverse_sd[0] / math.sqrt(n_scales)
        return Start(
            np.append(np.full(n_scales, scale), self.values[1:]),
            np.append(np.full(n_scales, each), self.inverse_sd[1:]),
        )


@dataclass(frozen=True)
class AtArms:
    """The posterior of f at the arms fitted to, on the model's scale.

    `variance` is for the values found. `from_parameters` is what the uncertainty about these values adds: the
    variance of the posterior mean under their normal approximation, to first order (theory §8.8).
    """

    mean: Floats
    variance: Floats
    from_parameters: Floats


@dataclass(frozen=True)
class Fit:
    """A family with its learned values, on the scale of standardised features and rewards.

    `score` is the value families are compared by, NaN when it was not requested, as `at_arms` is then
    None. `outcome` is "converged",
    "stopped early" (the maximum number of evaluations was reached; the values are the best found) or
    "prior values" (nothing could be evaluated, or there was nothing to learn from).
    """

    family: Family
    log_scales: Floats
    signal: float
    noise: float
    mean: float
    evidence: float
    score: float
    inverse_sd: Floats
    outcome: str
    at_arms: AtArms | None = None

    @property
    def start(self) -> Start:
        """The start for a fit to other data or of a similar family."""
        return Start(np.concatenate([self.log_scales, np.log([self.signal, self.noise])]), self.inverse_sd)


@dataclass(frozen=True)
class HyperPrior:
    """Independent normals on the logarithms, and the box the search stays in."""

    centre: Floats
    sd: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, family: Family, shared: float | None = None) -> HyperPrior:
        """The priors in this module's docstring; `shared` is the log length-scale found for all features."""
        typical, scale_sd = family.typical, SCALE_SD
        if shared is not None:
            typical, scale_sd = np.full(len(typical), shared), PER_FEATURE_SCALE_SD
        shortest = np.maximum(typical - SCALE_REACH, np.minimum(family.shortest, family.typical))
        centre = np.append(typical, [0.0, math.log(TYPICAL_NOISE)])
        sd = np.append(np.full(len(typical), scale_sd), [SIGNAL_SD, NOISE_SD])
        lower, upper = np.log([SIGNAL_BOUNDS, NOISE_BOUNDS]).T
        return cls(centre, sd, np.append(shortest, lower), np.append(typical + SCALE_REACH, upper))

    def for_noise_of(self, observations: Observations) -> HyperPrior:
        """The same priors in a box without noise variances below the floor; 0 stands for the usual one.

        Where the noise of every result was stated, that of a further one is expected to be like theirs.
        """
        lower, centre = self.lower.copy(), self.centre
        lower[-1] = math.log(observations.noise_floor or NOISE_BOUNDS[0])
        if (typical := observations.typical_noise) is not None:
            centre = np.append(centre[:-1], np.clip(math.log(typical), lower[-1], self.upper[-1]))
        return replace(self, lower=lower, centre=centre)

    @property
    def start(self) -> Start:
        """The centre of the prior."""
        return Start(self.centre, 1.0 / self.sd)

    def negative_gradient(self, values: Floats) -> Floats:
        """The gradient of minus the log density."""
        return np.asarray((values - self.centre) / self.sd**2)

    def log_density(self, values: Floats) -> float:
        """The log density of the logarithms."""
        z = (values - self.centre) / self.sd
        return float(-0.5 * z @ z - np.log(self.sd * math.sqrt(2 * math.pi)).sum())


def prior_fit(family: Family, outcome: str = PRIOR) -> Fit:
    """The centre of the priors, which is assumed when there are no results."""
    start = HyperPrior.of(family).start
    scales, inverse_sd = start.values[:-2], start.inverse_sd
    return Fit(
        family=family,
        log_scales=scales,
        signal=1.0,
        noise=TYPICAL_NOISE,
        mean=0.0,
        evidence=-math.inf,
        score=-math.inf,
        inverse_sd=inverse_sd,
        outcome=outcome,
    )


def fit(
    family: Family,
    features: Any,
    observations: Observations,
    start: Start | None = None,
    evaluations: int = 60,
    prior: HyperPrior | None = None,
    scored: bool = True,
) -> Fit:
    """The highest posterior density found from `start`, or from the prior's centre; deterministic.

    The centre is also used when nothing can be evaluated at `start`. With `scored` the fit gets a score and
    its own `inverse_sd`, which takes one more evaluation per parameter.
    """
    prior = (prior or HyperPrior.of(family)).for_noise_of(observations)
    search = _Search(family, family.covariance_on(features), observations, prior)
    if start is None or not search.run(start, evaluations):
        search.run(prior.start, evaluations)
    return search.result(scored)


def second_mode(
    found: Fit, features: Any, observations: Observations, shift: float, evaluations: int = 60
) -> Fit | None:
    """The mode a second search finds from the prior's centre with its length-scales moved by `shift`.

    None when the search comes within one standard deviation of the fit already found, as most do.
    """
    if not len(found.log_scales):
        return None
    prior = HyperPrior.of(found.family).for_noise_of(observations)
    covariance_at = found.family.covariance_on(features)
    search = _Search(found.family, covariance_at, observations, prior, found.start)
    offset = np.append(np.full(len(found.log_scales), shift), [0.0, 0.0])
    start = Start(prior.centre + offset, found.inverse_sd)
    try:
        search.run(start, evaluations)
    except _KnownModeError:
        return None
    return search.result(scored=True)


class _KnownModeError(Exception):
    """A search has come to the mode that another one found."""


class _Search:
    """L-BFGS-B that keeps the best point of all its runs; it raises when it comes near the mode `known`."""

    def __init__(
        self,
        family: Family,
        covariance_at: CovarianceAtScales,
        observations: Observations,
        prior: HyperPrior,
        known: Start | None = None,
    ) -> None:
        self._family, self._covariance_at, self._prior = family, covariance_at, prior
        self._observations, self._known = observations, known
        self._best: tuple[float, Floats, LogEvidence] | None = None
        self._converged = False

    def run(self, start: Start, evaluations: int) -> bool:
        """Search from `start`; False when nothing could be evaluated."""
        from scipy.optimize import minimize  # slow to import

        self._inverse_sd = start.inverse_sd
        lower, upper = self._prior.lower * self._inverse_sd, self._prior.upper * self._inverse_sd
        outcome = minimize(
            self._objective,
            np.clip(start.values * self._inverse_sd, lower, upper),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(lower, upper, strict=True)),
            options={"maxfun": evaluations, "maxiter": evaluations, "ftol": 1e-7, "gtol": 1e-4},
        )
        self._converged = bool(outcome.success)
        return self._best is not None

    def _evidence(self, values: Floats) -> LogEvidence | None:
        """The evidence at these values, or None where it cannot be computed."""
        signal, noise = np.exp(values[-2:])
        covariance = self._covariance_at(values[:-2])
        evidence = log_evidence(covariance, float(signal), float(noise), self._observations)
        if evidence is None or not math.isfinite(evidence.value) or not np.isfinite(evidence.gradient).all():
            return None
        return evidence

    def _objective(self, scaled: Floats) -> tuple[float, Floats]:
        """Negative log posterior density and its gradient."""
        values = scaled / self._inverse_sd
        if self._known is not None and self._known.is_near(values):
            raise _KnownModeError
        evidence = self._evidence(values)
        if evidence is None:
            return _NOT_POSITIVE_DEFINITE, np.zeros_like(values)
        value = -evidence.value - self._prior.log_density(values)
        if self._best is None or value < self._best[0]:
            self._best = (value, values.copy(), evidence)
        return value, (self._prior.negative_gradient(values) - evidence.gradient) / self._inverse_sd

    def result(self, scored: bool) -> Fit:
        """The best point found, or the prior's centre when nothing could be evaluated."""
        if self._best is None:
            return prior_fit(self._family)
        _, values, evidence = self._best
        signal, noise = (float(v) for v in np.exp(values[-2:]))
        score, inverse_sd, at_arms = math.nan, self._inverse_sd, None
        if scored:
            score, inverse_sd, at_arms = self._laplace(values, evidence)
        outcome = CONVERGED if self._converged else STOPPED
        return Fit(
            family=self._family,
            log_scales=values[:-2],
            signal=signal,
            noise=noise,
            mean=evidence.mean,
            evidence=evidence.value,
            score=score,
            inverse_sd=inverse_sd,
            outcome=outcome,
            at_arms=at_arms,
        )

    def _laplace(self, values: Floats, evidence: LogEvidence) -> tuple[float, Floats, AtArms]:
        """The log evidence with the parameters integrated out (Laplace), `inverse_sd`, and f at the arms."""
        z = (values - self._prior.centre) / self._prior.sd
        hessian, slopes = self._derivatives(values, evidence)
        eigenvalues, vectors = np.linalg.eigh(hessian)
        eigenvalues = np.maximum(eigenvalues, 1.0)
        score = float(evidence.value - 0.5 * z @ z - 0.5 * np.log(eigenvalues).sum())
        inverse_sd = np.sqrt(np.maximum(np.diag(hessian), 1.0)) / self._prior.sd
        from_parameters = ((vectors.T @ slopes) ** 2 / eigenvalues[:, None]).sum(axis=0)
        return score, inverse_sd, AtArms(evidence.fitted, evidence.variances, from_parameters)

    def _derivatives(self, values: Floats, evidence: LogEvidence) -> tuple[Floats, Floats]:
        """The Hessian of the negative log posterior, and the slopes of f at the arms, one row a parameter.

        Both are in units of the prior's standard deviations: finite differences of gradients and of posterior
        means, towards the inside of the box. Where C is not positive definite at the end of the step, the
        data add nothing and the prior's own curvature remains.
        """
        H, slopes = np.zeros((len(values), len(values))), np.zeros((len(values), len(evidence.fitted)))
        for i, upper in enumerate(self._prior.upper):
            moved = values.copy()
            moved[i] += _STEP if values[i] + _STEP <= upper else -_STEP
            there = self._evidence(moved)
            if there is not None:
                step = moved[i] - values[i]
                H[i] = (evidence.gradient - there.gradient) / step
                slopes[i] = (there.fitted - evidence.fitted) / step
        sd = self._prior.sd
        hessian = np.eye(len(values)) + 0.5 * (H + H.T) * sd * sd[:, None]
        return np.asarray(hessian), np.asarray(slopes * sd[:, None])
