"""A Gaussian process for the logarithm of the noise variance: Laplace's approximation (theory §8.15).

The scatter W of an arm's ν + 1 results has W/σ² ~ χ²_ν. Not all that scatters differently does so by a law:
some arms are odd, and some noises have heavy tails. So 1/σ² varies about the value of the law, κ e^(−g) σ⁻²
~ χ²_κ, which makes W e^(−g) a ratio of two χ² variables with the log likelihood

    −½ν g − ½(ν + κ) log(1 + W e^(−g)/κ) + log Γ(½(ν + κ)) − log Γ(½κ) − ½ν log κ

up to what depends on W alone. It is concave in g. For κ → ∞ nothing varies but the law. The mode is found by
Newton's method (Rasmussen and Williams, Gaussian Processes for Machine Learning, algorithms 3.1 and 5.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyarms.support.validation import Floats

_STEPS = 50
_CONVERGED = 1e-9
_SMALLEST_STEP = 1e-6


@dataclass(frozen=True)
class Scatters:
    """The scatters of some arms, their degrees of freedom, and by how much their noise varies about a law."""

    scatters: Floats
    freedom: Floats
    kappa: float

    def log_likelihood(self, latent: Floats) -> float:
        """At the logarithms g of the noise variances."""
        from scipy.special import gammaln

        freedom, kappa = self.freedom, self.kappa
        total = -0.5 * freedom * latent - 0.5 * (freedom + kappa) * np.log1p(self._ratio(latent))
        total += gammaln(0.5 * (freedom + kappa)) - gammaln(0.5 * kappa) - 0.5 * freedom * np.log(kappa)
        return float(total.sum())

    def slope(self, latent: Floats) -> Floats:
        """The first derivatives of the log likelihood."""
        ratio = self._ratio(latent)
        return np.asarray(-0.5 * self.freedom + 0.5 * (self.freedom + self.kappa) * ratio / (1.0 + ratio))

    def curvature(self, latent: Floats) -> Floats:
        """The negative second derivatives, which are not negative."""
        ratio = self._ratio(latent)
        return np.asarray(0.5 * (self.freedom + self.kappa) * ratio / (1.0 + ratio) ** 2)

    def _ratio(self, latent: Floats) -> Floats:
        return np.asarray(self.scatters * np.exp(-np.clip(latent, -200.0, 200.0)) / self.kappa)


@dataclass(frozen=True)
class LogNoise:
    """The approximate log evidence, and the weights a of the mode m + K a of the log variance."""

    log_evidence: float
    weights: Floats


def laplace(covariance: Floats, mean: float, seen: Scatters) -> LogNoise:
    """The mode of the log variance g ~ N(m, K), and the evidence at the mode.

    The log posterior density is concave, so that steps that do not increase it are halved.
    """
    weights = np.zeros(len(seen.scatters))
    latent = np.full(len(weights), mean)
    value = seen.log_likelihood(latent)
    for _ in range(_STEPS):
        before, direction = value, _newton(covariance, latent - mean, latent, seen) - weights
        step = 1.0
        while True:
            trial = weights + step * direction
            there = mean + covariance @ trial
            value = seen.log_likelihood(there) - 0.5 * float(trial @ (there - mean))
            if value >= before or step < _SMALLEST_STEP:
                break
            step *= 0.5
        weights, latent = trial, there
        if abs(value - before) <= _CONVERGED * (1.0 + abs(value)):
            break
    factor = np.linalg.cholesky(_whitened(covariance, np.sqrt(seen.curvature(latent))))
    return LogNoise(value - float(np.log(np.diag(factor)).sum()), weights)


def _newton(covariance: Floats, centred: Floats, latent: Floats, seen: Scatters) -> Floats:
    """The weights after one full Newton step."""
    curvature = seen.curvature(latent)
    roots, target = np.sqrt(curvature), curvature * centred + seen.slope(latent)
    inner = np.linalg.solve(_whitened(covariance, roots), roots * (covariance @ target))
    return np.asarray(target - roots * inner)


def _whitened(covariance: Floats, roots: Floats) -> Floats:
    """I + √H K √H."""
    return np.asarray(np.eye(len(roots)) + roots[:, None] * covariance * roots)
