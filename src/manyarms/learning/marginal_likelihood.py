"""The log evidence of all pulls, computed on the different arms alone, and its gradient.

Model: reward = f(x) + noise, f = m + g, g ~ GP(0, s²k), m ~ N(0, τ²), noise ~ N(0, σ²) independent. Given
f, the n_i rewards of arm i enter only through their average ȳ_i and their scatter W_i = Σ(y − ȳ_i)²:

    Π_r N(y_ir | f_i, σ²) = N(ȳ_i | f_i, σ²/n_i) · n_i^(−1/2) (2πσ²)^(−(n_i−1)/2) exp(−W_i / 2σ²),

so with C = s²K + τ²11ᵀ + σ² diag(1/n_i) over the different arms

    log p(all pulls) = log N(ȳ | 0, C) − ½[(T − n) log 2πσ² + W/σ² + Σ log n_i].

The bracket is why replicates measure the noise directly. C has one row per *different* arm, however often
arms repeat. The constant mean is integrated out (it is one more covariance, τ²11ᵀ), not plugged in, so a
run that has only seen good arms is not taken in by their average. Gradient (Rasmussen and Williams 2006,
(5.9)): ∂/∂θ = ½ tr((ααᵀ − C⁻¹) ∂C/∂θ) with α = C⁻¹ȳ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manyarms.learning.kernel_families import Covariance
from manyarms.support.validation import Floats

MEAN_VARIANCE = 1.0  # τ², in units of the standardised rewards' variance
_SMALL = 64  # rows of a triangle that LAPACK inverts as fast as anything


@dataclass(frozen=True)
class Observations:
    """Sufficient statistics of the pulls, rewards already on the model's scale.

    `spare` = Σ(n_i − 1) and `scatter` = ΣW_i may come from more arms than those listed: when the evidence
    is computed on a subset, every replicate still counts for the noise. The noise variance is at least
    `blur` (`Targets`).
    """

    counts: Floats
    means: Floats
    spare: float = 0.0
    scatter: float = 0.0
    blur: float = 0.0

    def __len__(self) -> int:
        return len(self.means)


@dataclass(frozen=True)
class LogEvidence:
    """Value, gradient by (log length-scales, log s², log σ²), and the posterior mean of m."""

    value: float
    gradient: Floats
    mean: float


def log_evidence(
    covariance: Covariance, signal: float, noise: float, seen: Observations
) -> LogEvidence | None:
    """The evidence at signal variance s² and noise variance σ²; None where C is not positive definite."""
    n, K = len(seen), covariance.matrix
    C = signal * K
    C += MEAN_VARIANCE
    C[np.diag_indices(n)] += noise / seen.counts
    solved = _solved(C, seen.means)
    if solved is None:
        return None
    alpha, log_det, half = solved
    value = -0.5 * (seen.means @ alpha + log_det + n * math.log(2 * math.pi))
    value -= 0.5 * (seen.spare * math.log(2 * math.pi * noise) + seen.scatter / noise)
    value -= 0.5 * float(np.log(seen.counts).sum())
    by_noise = -noise * float(np.diag(half) @ (1.0 / seen.counts))
    by_noise += 0.5 * (seen.scatter / noise - seen.spare)
    by_signal = -signal * float(np.vdot(half, K))
    gradient = np.concatenate([-signal * covariance.contract(half), [by_signal, by_noise]])
    return LogEvidence(float(value), gradient, float(MEAN_VARIANCE * alpha.sum()))


def _solved(C: Floats, means: Floats) -> tuple[Floats, float, Floats] | None:
    """α = C⁻¹ȳ, log det C, and half of C⁻¹ − ααᵀ; None where C is not positive definite. Overwrites C.

    A symmetric matrix meets only symmetric ones in the gradient, so one triangle with half the diagonal is
    half of it, and nothing is ever copied to the other side: LAPACK works in place on C's own memory.
    """
    from scipy.linalg import blas, lapack

    factor, failed = lapack.dpotrf(C.T, overwrite_a=1)  # Cᵀ = C has the order LAPACK wants
    if failed:
        return None
    log_det = 2.0 * float(np.log(np.diag(factor)).sum())
    alpha, _ = lapack.dpotrs(factor, means)
    if not math.isfinite(log_det):
        return None
    _invert_triangle(factor)
    inverse, _ = lapack.dlauum(factor, overwrite_c=1)  # U⁻¹U⁻ᵀ, the upper triangle of it
    half = blas.dsyr(-1.0, alpha, a=inverse, overwrite_a=1)
    half[np.diag_indices(len(means))] *= 0.5
    return alpha, log_det, half.T  # in the order of C again


def _invert_triangle(U: Floats) -> None:
    """U⁻¹ in place, for an upper triangle: LAPACK's dtrtri on small blocks, matrix products for the rest.

    It has no zero on its diagonal, being a Cholesky factor. LAPACK alone takes twice as long at 250 rows.
    """
    from scipy.linalg import blas, lapack

    if len(U) <= _SMALL:
        U[:], _ = lapack.dtrtri(U)
        return
    half = len(U) // 2
    first, corner, last = U[:half, :half], U[:half, half:], U[half:, half:]
    _invert_triangle(first)
    _invert_triangle(last)
    corner[:] = blas.dtrmm(1.0, last, blas.dtrmm(-1.0, first, corner), side=1)
