"""A plain dense oracle: every value recomputed from kernel, inducing arms, counts and reward sums.

It shares no formula with the package: there is no z and no V here. The sparse posterior is the exact one
with k(x, y) replaced by q(x, y) = k_S(x)ᵀ K_S⁻¹ k_S(y), except that the prior variance stays k(x, x).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


class Ledger:
    """Pulls and reward sums with one entry per arm of the pool."""

    def __init__(self, n_arms: int) -> None:
        self.counts, self.sums = np.zeros(n_arms), np.zeros(n_arms)

    def pull(self, arms: Any, rewards: Any) -> None:
        """Count these pulls, one by one."""
        for arm, reward in zip(np.ravel(arms).tolist(), np.ravel(rewards).tolist(), strict=True):
            self.counts[arm] += 1
            self.sums[arm] += reward

    @property
    def pulled(self) -> np.ndarray:
        """Different arms pulled, sorted."""
        return np.flatnonzero(self.counts)

    def extend(self, more: int) -> None:
        """As many new arms behind the present ones."""
        self.counts, self.sums = np.pad(self.counts, (0, more)), np.pad(self.sums, (0, more))

    def copy(self) -> Ledger:
        """An independent copy."""
        other = Ledger(0)
        other.counts, other.sums = self.counts.copy(), self.sums.copy()
        return other


@dataclass(frozen=True)
class Dense:
    """Per arm: mean, leverage and k(x,x) − q(x,x); and log det(Q/λ + I) over the pulls."""

    mean: np.ndarray
    leverage: np.ndarray
    residual: np.ndarray
    log_det: float


def sparse(kernel: Any, features: Any, ridge: float, inducing: Any, ledger: Ledger) -> Dense:
    """The posterior of theory §2.2 (DTC) on these inducing arms."""
    points = features[np.asarray(inducing, dtype=int)]
    K_SA = kernel.matrix(points, features) if len(points) else np.zeros((0, len(features)))
    solved = refined_solve(kernel.matrix(points, points), K_SA) if len(points) else K_SA
    prior = prior_variance(kernel, features)
    residual = np.maximum(prior - np.einsum("ij,ij->j", K_SA, solved), 0.0)
    return posterior_of(K_SA.T @ solved[:, ledger.pulled], prior, residual, ridge, ledger)


def exact(kernel: Any, features: Any, ridge: float, ledger: Ledger) -> Dense:
    """The exact posterior."""
    prior = prior_variance(kernel, features)
    return posterior_of(_columns(kernel, features, ledger.pulled), prior, np.zeros_like(prior), ridge, ledger)


def hallucinated(
    kernel: Any, features: Any, ridge: float, inducing: Any, ledger: Ledger, pending: Any
) -> np.ndarray:
    """The leverage after pulls without rewards: the whole sparse covariance, conditioned on them.

    The sparse covariance is the residual's, k − q, plus that of the exact posterior with q in place of k.
    """
    points = features[np.asarray(inducing, dtype=int)]
    K_SA = kernel.matrix(points, features) if len(points) else np.zeros((0, len(features)))
    Q = K_SA.T @ refined_solve(kernel.matrix(points, points), K_SA) if len(points) else 0.0 * K_SA.T @ K_SA
    arms = ledger.pulled
    noisy = Q[np.ix_(arms, arms)] + ridge * np.diag(1.0 / ledger.counts[arms])
    C = kernel.matrix(features, features) - Q[:, arms] @ np.linalg.solve(noisy, Q[arms])
    U, counts = np.unique(pending, return_counts=True)
    C = C - C[:, U] @ np.linalg.solve(C[np.ix_(U, U)] + ridge * np.diag(1.0 / counts), C[U])
    return np.diag(C) / ridge


def posterior_of(
    cross: np.ndarray, prior: np.ndarray, residual: np.ndarray, ridge: float, ledger: Ledger
) -> Dense:
    """`cross` holds the covariances of all arms with the pulled ones.

    n pulls of an arm are one pull of their average with noise λ/n.
    """
    arms = ledger.pulled
    n = ledger.counts[arms]
    noisy = cross[arms] + ridge * np.diag(1.0 / n)
    mean = cross @ np.linalg.solve(noisy, ledger.sums[arms] / n)
    variance = prior - np.einsum("ij,ji->i", cross, np.linalg.solve(noisy, cross.T))
    log_det = np.linalg.slogdet(np.sqrt(n)[:, None] * noisy * np.sqrt(n) / ridge)[1]
    return Dense(mean, variance / ridge, residual, float(log_det))


def refined_solve(K: np.ndarray, right: np.ndarray) -> np.ndarray:
    """K⁻¹ R through the eigenvectors of K, then corrected with residuals in extended precision.

    K_S may have a condition number of 1e10; without the correction the oracle would be the less accurate
    of the two.
    """
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-15 * values[-1]
    root = vectors[:, kept] / np.sqrt(values[kept])
    solution = root @ (root.T @ right)
    for _ in range(3):
        left = right - K.astype(np.longdouble) @ solution.astype(np.longdouble)
        solution = solution + root @ (root.T @ left.astype(np.float64))
    return np.asarray(solution)


def covariance_of_pulls(kernel: Any, features: Any, ledger: Ledger) -> np.ndarray:
    """K with one row per pull: an arm pulled n times appears n times."""
    points = features[np.repeat(ledger.pulled, ledger.counts[ledger.pulled].astype(int))]
    return np.asarray(kernel.matrix(points, points))


def _columns(kernel: Any, features: Any, arms: np.ndarray) -> np.ndarray:
    return kernel.matrix(features, features[arms]) if len(arms) else np.zeros((len(features), 0))


def prior_variance(kernel: Any, features: Any) -> np.ndarray:
    """k(x, x) read off the diagonal of K, 50 arms at a time."""
    blocks = [features[start : start + 50] for start in range(0, len(features), 50)]
    return np.concatenate([np.diag(kernel.matrix(block, block)) for block in blocks])


def difference(posterior: Any, expected: Dense) -> float:
    """Largest relative difference: each leverage to itself, means to the largest mean."""
    leverage = np.abs(posterior.leverage / expected.leverage - 1.0).max()
    scale = max(np.abs(expected.mean).max(), np.finfo(float).tiny)
    return float(max(leverage, np.abs(posterior.mean - expected.mean).max() / scale))


def assert_agrees(posterior: Any, expected: Dense, where: str = "", tolerance: float = 1e-8) -> None:
    """Mean and leverage of a posterior (or of its state) within a relative tolerance."""
    found = difference(posterior, expected)
    assert found < tolerance, f"{where}: relative difference {found:.2e}, allowed {tolerance:g}"
