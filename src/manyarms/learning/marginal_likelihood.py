"""The log evidence (theory §8.4) of all pulls, computed on the different arms, and its gradient.

Model: reward = f(x) + noise, f = m + g, g ~ GP(0, s²k), m ~ N(0, τ²), noise ~ N(0, σ²) independent. Given
f, the n_i rewards of arm i enter only through their average ȳ_i and their scatter W_i = Σ(y − ȳ_i)²:

    Π_r N(y_ir | f_i, σ²) = N(ȳ_i | f_i, σ²/n_i) · n_i^(−1/2) (2πσ²)^(−(n_i−1)/2) exp(−W_i / 2σ²),

so with C = s²K + τ²11ᵀ + σ² diag(1/n_i) over the n different arms, T pulls in all and W = ΣW_i

    log p(all pulls) = log N(ȳ | 0, C) − ½[(T − n) log 2πσ² + W/σ² + Σ log n_i].

The bracket is why replicates measure the noise directly. C has one row per *different* arm, however often
arms are repeated. The constant mean is integrated out (it adds the covariance τ²11ᵀ) rather than estimated,
so a run that has only seen good arms does not take their average for the mean. Gradient (Rasmussen and
Williams 2006, (5.9)): ∂/∂θ = ½ tr((ααᵀ − C⁻¹) ∂C/∂θ) with α = C⁻¹ȳ.

A result may be the mean of several measurements; then n_i is the number of measurements, and T the number of
results. The average of results whose noise was stated is a row of its own, whose entry on the diagonal is its
stated variance in place of σ²/n (theory §8.10).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manyarms.learning.kernel_families import Covariance
from manyarms.support.validation import Floats

MEAN_VARIANCE = 1.0  # τ², in units of the standardised rewards' variance
_SMALL = 64  # up to this many rows LAPACK inverts a triangular matrix as fast as the blocked version


@dataclass(frozen=True)
class Observations:
    """Sufficient statistics of the pulls, with rewards already on the model's scale.

    `degrees_of_freedom` = Σ(n_i − 1) and `scatter` = ΣW_i may come from more arms than those listed: when the
    evidence is computed on a subset, every replicate still counts for the noise. The noise variance is at
    least `noise_floor` (see `Targets`). `stated` are the variances of the rows whose noise was stated, 0 for
    the others; None if there are none.
    """

    counts: Floats
    means: Floats
    degrees_of_freedom: float = 0.0
    scatter: float = 0.0
    noise_floor: float = 0.0
    stated: Floats | None = None

    def __len__(self) -> int:
        return len(self.means)

    @property
    def inverse_counts(self) -> Floats:
        """What σ² is multiplied by on the diagonal: 1/n, and 0 where the noise was stated."""
        return 1.0 / self.counts if self.stated is None else np.where(self.stated > 0, 0.0, 1.0 / self.counts)

    def own_noise(self, noise: float) -> Floats:
        """The variance of the noise of each row at the noise variance σ²."""
        learned = noise * self.inverse_counts
        return learned if self.stated is None else learned + self.stated

    @property
    def typical_noise(self) -> float | None:
        """The geometric mean of the stated variances if the noise of every row was stated; otherwise None."""
        if self.stated is None or not len(self.stated) or not (self.stated > 0).all():
            return None
        return float(np.exp(np.log(self.stated).mean()))


@dataclass(frozen=True)
class LogEvidence:
    """Value, gradient with respect to (log length-scales, log s², log σ²), and the posterior mean of m.

    `fitted` and `variances` are the posterior mean and variance of f at the arms, which come for free:
    ȳ − (σ²/n)α and σ²/n − (σ²/n)² diag C⁻¹.
    """

    value: float
    gradient: Floats
    mean: float
    fitted: Floats
    variances: Floats


def log_evidence(
    covariance: Covariance, signal: float, noise: float, observations: Observations
) -> LogEvidence | None:
    """The evidence at signal variance s² and noise variance σ²; None where C is not positive definite."""
    n, K, means = len(observations), covariance.matrix, observations.means
    C = signal * K
    C += MEAN_VARIANCE
    C[np.diag_indices(n)] += observations.own_noise(noise)
    solution = _solve(C, means)
    if solution is None:
        return None
    alpha, log_det, half = solution
    freedom, scatter = observations.degrees_of_freedom, observations.scatter
    value = _value(float(means @ alpha) + log_det, noise, observations)
    inverse_diagonal = 2.0 * np.diag(half) + alpha**2
    by_noise = -noise * float(np.diag(half) @ observations.inverse_counts)
    by_noise += 0.5 * (scatter / noise - freedom)
    by_signal = -signal * float(np.vdot(half, K))
    gradient = np.concatenate([-signal * covariance.contract(half), [by_signal, by_noise]])
    own_noise = observations.own_noise(noise)
    fitted = means - own_noise * alpha
    variances = own_noise - own_noise**2 * inverse_diagonal
    return LogEvidence(
        value, gradient, float(MEAN_VARIANCE * alpha.sum()), fitted, np.maximum(variances, 0.0)
    )


def log_evidence_alone(K: Floats, signal: float, noise: float, observations: Observations) -> float:
    """The value of `log_evidence` without anything else, in a third of the time; −∞ where there is none."""
    from scipy.linalg import lapack

    n, means = len(observations), observations.means
    C = signal * K
    C += MEAN_VARIANCE
    C[np.diag_indices(n)] += observations.own_noise(noise)
    factor, failed = lapack.dpotrf(C.T, overwrite_a=1)
    if failed:
        return -math.inf
    alpha, _ = lapack.dpotrs(factor, means)
    log_det = 2.0 * float(np.log(np.diag(factor)).sum())
    return _value(float(means @ alpha) + log_det, noise, observations)


def _value(fit_and_det: float, noise: float, observations: Observations) -> float:
    """The log evidence from ȳᵀC⁻¹ȳ + log det C."""
    freedom, scatter = observations.degrees_of_freedom, observations.scatter
    value = -0.5 * (fit_and_det + len(observations) * math.log(2 * math.pi))
    value -= 0.5 * (freedom * math.log(2 * math.pi * noise) + scatter / noise)
    return value - 0.5 * float(np.log(observations.counts).sum())


def _solve(C: Floats, means: Floats) -> tuple[Floats, float, Floats] | None:
    """α = C⁻¹ȳ, log det C, and half of C⁻¹ − ααᵀ; None where C is not positive definite. Overwrites C.

    In the gradient this symmetric matrix is only multiplied with symmetric ones, so one triangle with half
    the diagonal serves as half of it. Nothing is copied to the other triangle: LAPACK works in place in the
    memory of C.
    """
    from scipy.linalg import blas, lapack

    factor, failed = lapack.dpotrf(C.T, overwrite_a=1)  # Cᵀ = C has the memory order LAPACK expects
    if failed:
        return None
    log_det = 2.0 * float(np.log(np.diag(factor)).sum())
    alpha, _ = lapack.dpotrs(factor, means)
    if not math.isfinite(log_det):
        return None
    _invert_triangle(factor)
    inverse, _ = lapack.dlauum(factor, overwrite_c=1)  # the upper triangle of U⁻¹U⁻ᵀ
    half = blas.dsyr(-1.0, alpha, a=inverse, overwrite_a=1)
    half[np.diag_indices(len(means))] *= 0.5
    return alpha, log_det, half.T  # back in the memory order of C


def _invert_triangle(U: Floats) -> None:
    """U⁻¹ in place, for an upper triangle: LAPACK's dtrtri on small blocks, matrix products for the rest.

    U is a Cholesky factor and so has no zero on its diagonal. LAPACK alone takes twice as long at 250 rows.
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
