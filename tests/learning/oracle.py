"""The evidence in the plain, slow way: one row per pull, nothing grouped, nothing analytic."""

from __future__ import annotations

import numpy as np

from manyarms.kernels import KernelLike
from manyarms.learning.marginal_likelihood import MEAN_VARIANCE


def log_evidence(kernel: KernelLike, features: np.ndarray, rewards: np.ndarray, noise: float) -> float:
    """log N(y | 0, K + τ²11ᵀ + σ²I) over all pulls, by eigenvalues."""
    C = kernel.matrix(features, features) + MEAN_VARIANCE + noise * np.eye(len(rewards))
    values, vectors = np.linalg.eigh(C)
    whitened = (vectors.T @ rewards) / np.sqrt(values)
    return float(-0.5 * (whitened @ whitened + np.log(2 * np.pi * values).sum()))


def posterior_of_mean(kernel: KernelLike, features: np.ndarray, rewards: np.ndarray, noise: float) -> float:
    """E[m | y] in closed form from the generalised least squares estimate."""
    inverse = np.linalg.inv(kernel.matrix(features, features) + noise * np.eye(len(rewards)))
    return float(inverse.sum(axis=0) @ rewards / (inverse.sum() + 1.0 / MEAN_VARIANCE))


def predict(
    kernel: KernelLike, features: np.ndarray, rewards: np.ndarray, noise: float, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the next reward at other points, zero prior mean."""
    inverse = np.linalg.inv(kernel.matrix(features, features) + noise * np.eye(len(rewards)))
    cross = kernel.matrix(at, features)
    variance = kernel.diag(at) - np.einsum("ij,jk,ik->i", cross, inverse, cross) + noise
    return cross @ inverse @ rewards, variance
