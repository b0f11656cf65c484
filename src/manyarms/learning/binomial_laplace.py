"""A Gaussian process for probabilities: Laplace's approximation with binomial outcomes (theory §8.12).

Rasmussen and Williams, Gaussian Processes for Machine Learning, algorithms 3.1 and 5.1, for the logistic
function and several outcomes at a point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyarms.support.validation import Floats

_STEPS = 50
_CONVERGED = 1e-9


@dataclass(frozen=True)
class Laplace:
    """The approximate log evidence, and the weights a of the latent mode m + K a."""

    log_evidence: float
    weights: Floats


def logistic(latent: Floats) -> Floats:
    """1/(1 + e^(−g)) without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * np.asarray(latent))))


def laplace(covariance: Floats, mean: float, successes: Floats, failures: Floats) -> Laplace:
    """Newton's method for the mode of the latent function, and the evidence at the mode.

    The log posterior density is concave, so that steps that do not increase it are halved.
    """
    totals, n = successes + failures, len(successes)
    weights = np.zeros(n)
    latent = np.full(n, mean)
    value = _log_likelihood(latent, successes, failures)
    for _ in range(_STEPS):
        proposed = _newton(covariance, latent - mean, latent, successes, totals)
        step, before = 1.0, value
        while True:
            trial = weights + step * (proposed - weights)
            there = mean + covariance @ trial
            value = _log_likelihood(there, successes, failures) - 0.5 * float(trial @ (there - mean))
            if value >= before or step < 1e-6:
                break
            step *= 0.5
        weights, latent = trial, there
        if abs(value - before) <= _CONVERGED * (1.0 + abs(value)):
            break
    roots = _roots(latent, totals)
    factor = np.linalg.cholesky(np.eye(n) + roots[:, None] * covariance * roots)
    return Laplace(value - float(np.log(np.diag(factor)).sum()), weights)


def _roots(latent: Floats, totals: Floats) -> Floats:
    """√W of the negative second derivatives of the log likelihood."""
    p = logistic(latent)
    return np.sqrt(totals * p * (1.0 - p))


def _newton(covariance: Floats, centred: Floats, latent: Floats, successes: Floats, totals: Floats) -> Floats:
    """The weights after one full Newton step."""
    roots = _roots(latent, totals)
    target = roots * roots * centred + successes - totals * logistic(latent)
    B = np.eye(len(latent)) + roots[:, None] * covariance * roots
    return np.asarray(target - roots * np.linalg.solve(B, roots * (covariance @ target)))


def _log_likelihood(latent: Floats, successes: Floats, failures: Floats) -> float:
    return -float(successes @ np.logaddexp(0.0, -latent) + failures @ np.logaddexp(0.0, latent))
