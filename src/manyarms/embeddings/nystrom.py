"""The Nyström embedding: z(x) = L⁻¹ k_S(x) with L Lᵀ = K_S for inducing arms S (theory §2.3).

Any factor of K_S can be used (mean and variance depend only on the span of S); to the Cholesky factor a
further arm can be appended without changing the existing rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from manyarms.errors import InvalidKernelError
from manyarms.kernels import KernelLike
from manyarms.support.linalg import backward, pivoted_cholesky
from manyarms.support.triangles import LowerTriangle
from manyarms.support.validation import Floats, Ints

# A candidate whose residual k(s,s) − ‖z(s)‖² is below this share of k(s,s) is already in the span, and is
# skipped, so no jitter is needed. The limit for float32 is coarser because it stores z to 6e-8.
SPAN_TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
MOST_GROWTH = 1000.0


@dataclass(frozen=True)
class Nystrom:
    """Inducing arms (their features) and the lower Cholesky factor of their covariance."""

    kernel: KernelLike
    points: Any
    factor: Floats

    @property
    def dimension(self) -> int:
        """The number of inducing arms."""
        return len(self.factor)

    def matrix(self, X: Any) -> Floats:
        """L⁻¹ k_S(x) for every row of X."""
        return self.columns(X).T

    def columns(self, X: Any) -> Floats:
        """The same as m × len(X), in row order: the way in which columns of z are stored and read."""
        if not self.dimension:
            return np.empty((0, len(X)))
        return self._triangle.solve(covariances(self.kernel, self.points, X))

    @cached_property
    def _triangle(self) -> LowerTriangle:
        return LowerTriangle(self.factor)


def covariances(kernel: KernelLike, X: Any, Y: Any) -> Floats:
    """k between every x and every y, checked to be finite and of the right shape."""
    K = kernel.matrix(X, Y)
    if K.shape != (len(X), len(Y)):
        raise InvalidKernelError(f"{kernel!r}.matrix gave shape {K.shape} for {len(X)} × {len(Y)} arms")
    if not np.isfinite(K).all():
        raise InvalidKernelError(f"{kernel!r}.matrix gave {K[~np.isfinite(K)][0]}")
    return K


def span_tolerance(factor: Floats, rows: Floats, base: float) -> Floats:
    """The share of k(s,s) that the residual of each candidate must exceed; `rows` holds their z.

    A near-duplicate is a copy of one inducing arm. A candidate that is an ill-conditioned combination of
    inducing arms (large weights of both signs) has a residual that is mostly rounding error, so the limit
    grows with the sum of |weights|, up to a factor of a thousand. Without this, a dense pool on a line in
    random order makes K_S indefinite to machine precision and the variance wrong by 1e-3 of its prior.
    """
    weights = np.abs(backward(factor, rows.T)).sum(axis=0)
    return np.asarray(base * np.clip(weights, 1.0, MOST_GROWTH))


def independent_subset(gram: Floats, prior: Floats, tolerance: float) -> tuple[Ints, Floats]:
    """Which candidates add to the span, and the lower factor of their part of `gram`.

    `gram` holds the residual covariances of the candidates given the present span, `prior` their k(s, s).
    Pivoted Cholesky on the correlation scale: it stops when every remaining residual is at most `tolerance`
    of its prior variance, so duplicates and near-duplicates are skipped.
    """
    usable = np.flatnonzero(np.diag(gram) > tolerance * prior)
    if not len(usable):
        return usable, np.empty((0, 0))
    if len(usable) == 1:  # the common case
        return usable, np.sqrt(gram[usable[0], usable[0]]).reshape(1, 1)
    scale = np.sqrt(prior[usable])
    correlation = gram[np.ix_(usable, usable)] / np.outer(scale, scale)
    factor, order = pivoted_cholesky(correlation, tolerance)
    return usable[order], factor * scale[order][:, None]
