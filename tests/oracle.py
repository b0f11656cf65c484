"""A plain dense oracle: every value recomputed from kernel, inducing arms, counts and reward sums.

It shares no formula with the package's updates: K_S is factored by its eigenvectors (the package keeps a
Cholesky factor), V is built and solved anew, and the exact posterior never mentions z at all.
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
    """Per arm: mean, leverage and k − ‖z‖²; and log det(V/λ)."""

    mean: np.ndarray
    leverage: np.ndarray
    residual: np.ndarray
    log_det: float


def sparse(kernel: Any, features: Any, ridge: float, inducing: Any, ledger: Ledger) -> Dense:
    """The DTC posterior of spec §1 on these inducing arms."""
    Z = embedding(kernel, features, inducing)
    V = (Z.T * ledger.counts) @ Z + ridge * np.eye(Z.shape[1])
    mean = Z @ np.linalg.solve(V, Z.T @ ledger.sums)
    quadratic = np.einsum("ij,ji->i", Z, np.linalg.solve(V, Z.T))
    residual = np.maximum(prior_variance(kernel, features) - np.einsum("ij,ij->i", Z, Z), 0.0)
    log_det = np.linalg.slogdet(V / ridge)[1]
    return Dense(mean, residual / ridge + quadratic, residual, float(log_det))


def embedding(kernel: Any, features: Any, inducing: Any) -> np.ndarray:
    """z of every arm by the pseudo-inverse root of K_S."""
    points = features[np.asarray(inducing, dtype=int)]
    if not len(points):
        return np.zeros((len(features), 0))
    values, vectors = np.linalg.eigh(kernel.matrix(points, points))
    kept = values > 1e-13 * values[-1]
    return np.asarray(kernel.matrix(features, points) @ (vectors[:, kept] / np.sqrt(values[kept])))


def exact(kernel: Any, features: Any, ridge: float, ledger: Ledger) -> Dense:
    """The exact posterior: n pulls of an arm are one pull of their average with noise λ/n."""
    prior, arms = prior_variance(kernel, features), ledger.pulled
    if not len(arms):
        return Dense(np.zeros_like(prior), prior / ridge, np.zeros_like(prior), 0.0)
    points, n = features[arms], ledger.counts[arms]
    K, cross = kernel.matrix(points, points), kernel.matrix(features, points)
    noisy = K + ridge * np.diag(1.0 / n)
    mean = cross @ np.linalg.solve(noisy, ledger.sums[arms] / n)
    variance = prior - np.einsum("ij,ji->i", cross, np.linalg.solve(noisy, cross.T))
    root = np.sqrt(n)
    log_det = np.linalg.slogdet(root[:, None] * K * root / ridge + np.eye(len(arms)))[1]
    return Dense(mean, variance / ridge, np.zeros_like(prior), float(log_det))


def covariance_of_pulls(kernel: Any, features: Any, ledger: Ledger) -> np.ndarray:
    """K with one row per pull: an arm pulled n times appears n times."""
    points = features[np.repeat(ledger.pulled, ledger.counts[ledger.pulled].astype(int))]
    return np.asarray(kernel.matrix(points, points))


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
    assert found < tolerance, (
        f"{where}: relative difference {found:.2e}, allowed {tolerance:g}"
    )
