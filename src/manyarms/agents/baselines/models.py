"""The models of the UCB baselines: posterior mean and ridge leverage of arms.

The three models have one interface. `ExactPoolModel` is the exact posterior over a common pool.
`ExactPointModel` is the exact posterior at arbitrary points, for arm sets that change from step to step.
`SparseModel` is a sparse posterior in an embedding that all agents share.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from manyarms.embeddings.nystrom import Nystrom
from manyarms.errors import ImpossibleMessageError
from manyarms.kernels import KernelLike
from manyarms.pool.pool import Pool
from manyarms.posterior.posterior import Posterior
from manyarms.support.linalg import forward, inverse_positive_definite
from manyarms.support.validation import Floats


class Model(Protocol):
    """Mean and leverage of arms; `keys` are pool indices or feature rows."""

    @property
    def log_det(self) -> float:
        """log det(I + K/λ) of the recorded pulls (log det(V/λ) in an embedding)."""

    def at(self, keys: NDArray[Any] | None) -> tuple[Floats, Floats]:
        """Mean and leverage at these points; None means every arm of the pool."""

    def add(self, keys: NDArray[Any], rewards: Floats) -> None:
        """Record pulls and their rewards."""


class ExactPoolModel:
    """The exact posterior over a pool: every pulled arm is an inducing arm."""

    def __init__(self, pool: Pool, kernel: KernelLike, ridge: float) -> None:
        self._posterior = Posterior(pool, kernel, ridge)

    @property
    def log_det(self) -> float:
        """log det(I + K/λ)."""
        return self._posterior.state.log_det

    def at(self, keys: NDArray[Any] | None) -> tuple[Floats, Floats]:
        """Mean and leverage, which the posterior keeps up to date for every arm."""
        mean, leverage = self._posterior.mean, self._posterior.leverage
        return (mean, leverage) if keys is None else (mean[keys], leverage[keys])

    def add(self, keys: NDArray[Any], rewards: Floats) -> None:
        """Update the posterior of every arm of the pool."""
        if len(keys):
            self._posterior.update(inducing=keys, arms=keys, rewards=rewards)


class ExactPointModel:
    """The exact posterior at arbitrary points, from the growing Cholesky factor of K + λI."""

    def __init__(self, kernel: KernelLike, ridge: float) -> None:
        self._kernel, self._ridge = kernel, ridge
        self._points: NDArray[Any] | None = None
        self._factor, self._solved = np.empty((0, 0)), np.empty(0)  # L, and L⁻¹y

    @property
    def log_det(self) -> float:
        """log det(I + K/λ)."""
        return float(2.0 * np.log(np.diag(self._factor)).sum() - len(self._factor) * np.log(self._ridge))

    def at(self, keys: NDArray[Any] | None) -> tuple[Floats, Floats]:
        """Mean and leverage in O(n²) operations per point."""
        assert keys is not None, "a model without a pool needs the points"
        prior = np.asarray(self._kernel.diag(keys), dtype=np.float64)
        if self._points is None:
            return np.zeros(len(keys)), prior / self._ridge
        V = forward(self._factor, self._kernel.matrix(self._points, keys))
        variance = np.maximum(prior - np.einsum("ij,ij->j", V, V), 0.0)
        return self._solved @ V, variance / self._ridge

    def add(self, keys: NDArray[Any], rewards: Floats) -> None:
        """Extend the Cholesky factor by the new points."""
        if not len(keys):
            return
        n, a = len(self._factor), len(keys)
        below = np.empty((0, a))
        if self._points is not None:
            below = forward(self._factor, self._kernel.matrix(self._points, keys))
        corner = self._kernel.matrix(keys, keys) + self._ridge * np.eye(a) - below.T @ below
        larger = np.zeros((n + a, n + a))
        larger[:n, :n], larger[n:, :n], larger[n:, n:] = self._factor, below.T, np.linalg.cholesky(corner)
        fresh = forward(larger[n:, n:], (rewards - below.T @ self._solved)[:, None])[:, 0]
        self._factor, self._solved = larger, np.concatenate([self._solved, fresh])
        self._points = keys if self._points is None else np.concatenate([self._points, keys])


class SparseModel:
    """A sparse posterior in a fixed embedding: V and b summed over the agents, plus the agent's newer pulls.

    Before the first sync it is empty: mean 0, leverage k/λ (theory §9.8). On a pool the embedding of
    every arm is stored, so that a pull costs one pass over it.
    """

    def __init__(self, kernel: KernelLike, ridge: float, pool: Pool | None) -> None:
        self._kernel, self._ridge, self._pool = kernel, ridge, pool
        none: NDArray[Any] = np.empty((0, 1)) if pool is None else pool.take(np.empty(0, dtype=np.int64))
        self.adopt(Nystrom(kernel, none, np.empty((0, 0))), np.zeros((0, 0)), np.zeros(0))

    def adopt(self, embedding: Nystrom, gram: Floats, vector: Floats) -> None:
        """Replace the model by V = λI + `gram` and b = `vector` in this embedding."""
        V = gram + self._ridge * np.eye(len(gram))
        try:
            np.linalg.cholesky(V)  # the sums come from another machine
        except np.linalg.LinAlgError:
            raise ImpossibleMessageError(
                f"the sum of ZᵀZ for {len(gram)} inducing points is not positive semidefinite"
            ) from None
        self.embedding, self._inverse = embedding, inverse_positive_definite(V)
        self._log_det = float(np.linalg.slogdet(V / self._ridge)[1]) if len(V) else 0.0
        self._vector = vector.copy()
        self._rows: Floats | None = None
        if self._pool is not None:
            prior = np.asarray(self._kernel.diag(self._pool.features), dtype=np.float64)
            self._rows = embedding.matrix(self._pool.features)
            self._pool_leverage = self._leverage(self._rows, prior)
        self._inverse_at_sync = self._inverse  # `add` replaces `_inverse` and never modifies it in place

    @property
    def log_det(self) -> float:
        """log det(V/λ)."""
        return self._log_det

    @property
    def effective_dimension(self) -> float:
        """Tr V⁻¹(V − λI), the part of Σ n_i σ̃² that lies in the embedding."""
        return float(len(self._inverse) - self._ridge * np.trace(self._inverse))

    def at(self, keys: NDArray[Any] | None) -> tuple[Floats, Floats]:
        """Mean and leverage given all recorded pulls."""
        if self._rows is None:
            assert keys is not None, "a model without a pool needs the points"
            prior = np.asarray(self._kernel.diag(keys), dtype=np.float64)
            Z = self.embedding.matrix(keys)
            return Z @ (self._inverse @ self._vector), self._leverage(Z, prior)
        mean = self._rows @ (self._inverse @ self._vector)
        return (mean, self._pool_leverage) if keys is None else (mean[keys], self._pool_leverage[keys])

    def leverage_at_sync(self, keys: NDArray[Any]) -> Floats:
        """σ̃² at the time the embedding was adopted."""
        features = keys if self._pool is None else self._pool.take(keys)
        prior = np.asarray(self._kernel.diag(features), dtype=np.float64)
        return self._leverage(self.embedding.matrix(features), prior, self._inverse_at_sync)

    def add(self, keys: NDArray[Any], rewards: Floats) -> None:
        """One's own pulls, one after the other (theory §2.4: V⁻¹ falls by ggᵀ/(1+zᵀg))."""
        features = keys if self._pool is None else self._pool.take(keys)
        for z, reward in zip(self.embedding.matrix(features), rewards, strict=True):
            g = self._inverse @ z
            scale = 1.0 + z @ g
            self._inverse = self._inverse - np.outer(g, g) / scale
            self._log_det += float(np.log(scale))
            self._vector = self._vector + reward * z
            if self._rows is not None:
                self._pool_leverage = np.maximum(self._pool_leverage - (self._rows @ g) ** 2 / scale, 0.0)

    def _leverage(self, Z: Floats, prior: Floats, inverse: Floats | None = None) -> Floats:
        inverse = self._inverse if inverse is None else inverse
        residual = np.maximum(prior - np.einsum("ij,ij->i", Z, Z), 0.0)
        return np.asarray(residual / self._ridge + np.einsum("ij,ij->i", Z @ inverse, Z))
