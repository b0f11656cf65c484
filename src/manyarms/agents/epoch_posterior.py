"""The sparse posterior of one epoch: the part an agent computes and the part the server computes.

An agent sends u = K_{S,D}Y and receives weights a with μ̃(x) = k_S(x)ᵀa. It never factorises a matrix, so
no basis has to be agreed on (theory §9.3, "one basis": the projections are summed). The server holds the
Cholesky factor L of K_S in the order in which it sends S, with dependent points left out, and computes

    b = L⁻¹ Σu,   V = λI + Z_DᵀNZ_D,   a = L⁻ᵀV⁻¹b                       (DUETS (7), (8))

which equals the printed z-form with z = L⁻¹k_S, and avoids the squared condition number of the normal
equations (λK_S + K_{SD}K_{DS})a = Σu.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.embeddings.nystrom import Nystrom, independent_subset
from manyarms.errors import ImpossibleMessageError
from manyarms.kernels import KernelLike
from manyarms.support.linalg import backward, forward, inverse_lower
from manyarms.support.validation import Floats, Ints

_BLOCK = 512  # points processed at once while a span is built


def spanning(kernel: KernelLike, points: NDArray[Any], tolerance: float) -> tuple[Ints, Nystrom]:
    """Which points span the rest up to `tolerance`, in order, and the embedding on them.

    It works block by block, with pivoting inside a block, and never forms an n × n matrix. Every point left
    out has a residual k − ‖z‖² of at most `tolerance`·k (theory §2.3: skip it, no jitter is needed then).
    """
    chosen = np.empty(0, dtype=np.int64)
    factor = np.empty((0, 0))
    for start in range(0, len(points), _BLOCK):
        block = points[start : start + _BLOCK]
        prior = np.asarray(kernel.diag(block), dtype=np.float64)
        rows = Nystrom(kernel, points[chosen], factor).matrix(block)
        new = np.flatnonzero(prior - np.einsum("ij,ij->i", rows, rows) > tolerance * prior)
        if not len(new):
            continue
        gram = kernel.matrix(block[new], block[new]) - rows[new] @ rows[new].T
        kept, corner = independent_subset(gram, prior[new], tolerance)
        m, a = len(factor), len(kept)
        larger = np.zeros((m + a, m + a))
        larger[:m, :m], larger[m:, :m], larger[m:, m:] = factor, rows[new[kept]], corner
        factor, chosen = larger, np.concatenate([chosen, start + new[kept]])
    return chosen, Nystrom(kernel, points[chosen], factor)


def on_points(kernel: KernelLike, points: NDArray[Any]) -> Nystrom:
    """The embedding on linearly independent points, from the Cholesky factor in their order."""
    if not len(points):
        return Nystrom(kernel, points, np.empty((0, 0)))
    try:
        factor = np.asarray(np.linalg.cholesky(kernel.matrix(points, points)), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise ImpossibleMessageError(f"the {len(points)} inducing points are linearly dependent") from None
    return Nystrom(kernel, points, factor)


@dataclass(frozen=True)
class SparsePosterior:
    """The posterior without rewards: `rows` are the embeddings z of the distinct points, with `counts`."""

    embedding: Nystrom
    rows: Floats
    counts: Floats
    ridge: float

    @classmethod
    def of(cls, embedding: Nystrom, points: NDArray[Any], counts: Floats, ridge: float) -> SparsePosterior:
        """From the distinct points pulled and their counts."""
        return cls(embedding, embedding.matrix(points), counts, ridge)

    @cached_property
    def inverse_factor(self) -> Floats:
        """E⁻¹ with E Eᵀ = V = Z_DᵀNZ_D + λI."""
        V = (self.rows.T * self.counts) @ self.rows + self.ridge * np.eye(self.rows.shape[1])
        return inverse_lower(V)

    @property
    def information(self) -> float:
        """The information gain ½ log det(V/λ) of the pulls, exact when the embedding spans them."""
        log_det = -2.0 * np.log(np.diag(self.inverse_factor)).sum()
        return float(0.5 * (log_det - self.rows.shape[1] * np.log(self.ridge)))

    def leverage(self, points: NDArray[Any]) -> Floats:
        """σ̃² on the ridge-leverage scale: (k − ‖z‖²)/λ + zᵀV⁻¹z."""
        Z = self.embedding.matrix(points).T
        prior = np.asarray(self.embedding.kernel.diag(points), dtype=np.float64)
        whitened = self.inverse_factor @ Z
        residual = np.maximum(prior - np.einsum("ij,ij->j", Z, Z), 0.0)
        return np.asarray(residual / self.ridge + np.einsum("ij,ij->j", whitened, whitened))

    def largest_leverage(self, blocks: Iterable[NDArray[Any]]) -> float:
        """The maximum of σ̃² over all points of all blocks."""
        return max((float(self.leverage(block).max()) for block in blocks if len(block)), default=0.0)

    def weights(self, projection: Floats) -> Floats:
        """The weights a with μ̃(x) = k_S(x)ᵀa, from the sum of K_{S,D}Y over the agents."""
        b = forward(self.embedding.factor, projection[:, None])
        solved = self.inverse_factor.T @ (self.inverse_factor @ b)
        return backward(self.embedding.factor, solved)[:, 0]


def projected_rewards(
    kernel: KernelLike, inducing: NDArray[Any], points: NDArray[Any], sums: Floats, precision: np.dtype[Any]
) -> Floats:
    """K_{S,D}Y of one agent; `sums` are the summed rewards of its distinct points."""
    covariances = kernel.matrix(inducing, points).astype(precision, copy=False)
    return np.asarray(covariances @ sums.astype(precision, copy=False), dtype=np.float64)


def means(
    kernel: KernelLike,
    inducing: NDArray[Any],
    weights: Floats,
    points: NDArray[Any],
    precision: np.dtype[Any],
) -> Floats:
    """μ̃ = k_S(x)ᵀa at every point, computed in the given precision."""
    if not len(inducing):
        return np.zeros(len(points))
    covariances = kernel.matrix(points, inducing).astype(precision, copy=False)
    return np.asarray(covariances @ weights.astype(precision, copy=False), dtype=np.float64)
