"""Reference implementations: posteriors recomputed densely, in extended precision, from draws and rewards.

They use only the kernel, the coins and the rule that turns a coin into an arm from the package.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.agents import Coin
from manyarms.agents.protocol.coins import PURPOSE_DRAWS, PURPOSE_INDUCING


def cholesky(matrix: Any) -> np.ndarray:
    """The lower Cholesky factor in extended precision, column by column."""
    left = np.array(matrix, dtype=np.longdouble)
    n = len(left)
    factor = np.zeros((n, n), dtype=np.longdouble)
    for j in range(n):
        factor[j, j] = np.sqrt(left[j, j] - factor[j, :j] @ factor[j, :j])
        factor[j + 1 :, j] = (left[j + 1 :, j] - factor[j + 1 :, :j] @ factor[j, :j]) / factor[j, j]
    return factor


def solve_lower(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """L⁻¹R by forward substitution."""
    solution = np.zeros(right.shape, dtype=np.longdouble)
    for i in range(len(factor)):
        solution[i] = (right[i] - factor[i, :i] @ solution[:i]) / factor[i, i]
    return solution


def sparse_posterior(
    kernel: Any, inducing: Any, points: Any, rewards: Any, ridge: float, at: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and leverage of the centralised sparse posterior (theory §2.2), one row a pull."""
    if not len(inducing):
        return np.zeros(len(at)), kernel.diag(at) / ridge
    basis = cholesky(kernel.matrix(inducing, inducing))
    Z = solve_lower(basis, kernel.matrix(inducing, points).astype(np.longdouble)).T
    X = solve_lower(basis, kernel.matrix(inducing, at).astype(np.longdouble))
    factor = cholesky(Z.T @ Z + ridge * np.eye(len(inducing)))
    whitened = solve_lower(factor, X)
    b = solve_lower(factor, (Z.T @ np.asarray(rewards, dtype=np.longdouble))[:, None])[:, 0]
    residual = np.maximum(kernel.diag(at) - (X * X).sum(axis=0), 0)
    leverage = residual / ridge + (whitened * whitened).sum(axis=0)
    return (b @ whitened).astype(float), leverage.astype(float)


def exact_posterior(kernel: Any, points: Any, rewards: Any, ridge: float, at: Any) -> tuple[Any, Any]:
    """Mean and leverage of the exact posterior, by solving with K + λI."""
    gram = kernel.matrix(points, points) + ridge * np.eye(len(points))
    cross = kernel.matrix(points, at)
    solved = np.linalg.solve(gram, cross)
    return np.asarray(rewards) @ solved, (kernel.diag(at) - (cross * solved).sum(axis=0)) / ridge


def information(kernel: Any, points: Any, ridge: float) -> float:
    """½ log det(I + K/λ)."""
    return 0.5 * float(np.linalg.slogdet(np.eye(len(points)) + kernel.matrix(points, points) / ridge)[1])


@dataclass
class CentralDuets:
    """DUETS on a pool with a single decision maker that makes all T_j draws of an epoch."""

    kernel: Any
    features: np.ndarray
    ridge: float
    lengths: tuple[int, ...]
    width: float
    oversampling: float
    seed: int

    def run(self, rewards_of: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The arms pulled in each epoch, and the active set after it."""
        active = np.arange(len(self.features))
        pulled, sets = [], []
        for epoch, length in enumerate(self.lengths, start=1):
            uniform = Coin.of_agent(self.seed, 0).stream(epoch, PURPOSE_DRAWS).uniform(length)
            arms = active[np.floor(uniform * len(active)).astype(int)]
            rewards = rewards_of(arms)
            pulled.append(arms)
            if epoch < len(self.lengths):
                active = active[self._kept(active, arms, rewards, epoch)]
            sets.append(active)
        return pulled, sets

    def _kept(self, active: np.ndarray, arms: np.ndarray, rewards: np.ndarray, epoch: int) -> np.ndarray:
        at = self.features[active]
        _, leverage = exact_posterior(self.kernel, self.features[arms], rewards, self.ridge, at)
        different, first, counts = np.unique(arms, return_index=True, return_counts=True)
        order = np.argsort(first)
        p = min(1.0, self.oversampling * leverage.max())
        coins = Coin.of_server(self.seed).stream(epoch, PURPOSE_INDUCING).uniform(len(different))
        drawn = different[order][coins < 1.0 - (1.0 - p) ** counts[order]]
        inducing = self._independent(drawn)
        mean, _ = sparse_posterior(
            self.kernel, self.features[inducing], self.features[arms], rewards, self.ridge, at
        )
        return mean >= mean.max() - 2 * self.width * math.sqrt(self.ridge * leverage.max())

    def _independent(self, arms: np.ndarray) -> list[int]:
        """The arms outside the span of the earlier ones; the mean depends only on the span."""
        kept: list[int] = []
        for arm in arms.tolist():
            points = self.features[[*kept, arm]]
            gram = self.kernel.matrix(points, points).astype(np.longdouble)
            if not kept:
                kept.append(arm)
                continue
            z = solve_lower(cholesky(gram[:-1, :-1]), gram[:-1, -1:])
            if gram[-1, -1] - float((z * z).sum()) > 1e-10 * gram[-1, -1]:
                kept.append(arm)
        return kept
