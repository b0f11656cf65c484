"""The Nyström embedding: z(x) = L⁻¹ k_S(x) with L Lᵀ = K_S for inducing arms S.

Any factor of K_S serves (mean and variance depend only on the span of S); the Cholesky factor is the
one to which a further arm can be appended without touching what is there (spec §1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.errors import InvalidKernelError
from manyarms.kernels import KernelLike
from manyarms.support.linalg import backward, forward, pivoted_cholesky
from manyarms.support.validation import Floats, Ints

# A candidate whose residual k(s,s) − ‖z(s)‖² is below this share of k(s,s) lies in the span already.
# With it no jitter is needed. Single precision stores z to 6e-8, hence its coarser limit.
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
        """How many inducing arms span the sketch."""
        return len(self.factor)

    def matrix(self, X: Any) -> Floats:
        """L⁻¹ k_S(x) for every row of X."""
        if not self.dimension:
            return np.empty((len(X), 0))
        return np.asarray(forward(self.factor, covariances(self.kernel, self.points, X)).T)


def covariances(kernel: KernelLike, X: Any, Y: Any) -> Floats:
    """k between every x and every y, refused unless it has the right shape and is finite."""
    K = kernel.matrix(X, Y)
    if K.shape != (len(X), len(Y)):
        raise InvalidKernelError(f"{kernel!r}.matrix gave shape {K.shape} for {len(X)} × {len(Y)} arms")
    if not np.isfinite(K).all():
        raise InvalidKernelError(f"{kernel!r}.matrix gave {K[~np.isfinite(K)][0]}")
    return K


def span_tolerance(factor: Floats, rows: Floats, base: float) -> Floats:
    """The share of k(s,s) that each candidate's residual must exceed, `rows` being the candidates' z.

    A near-duplicate is a copy of one inducing arm. A candidate that several arms explain only with large
    weights of both signs (extrapolation) has a residual that is mostly rounding error, so the limit grows
    with the sum of |weights|, up to a thousandfold. Without this a dense pool on a line, met in random
    order, makes K_S indefinite to machine precision and the variance wrong by 1e-3 of its prior.
    """
    weights = np.abs(backward(factor, rows.T)).sum(axis=0)
    return np.asarray(base * np.clip(weights, 1.0, MOST_GROWTH))


def independent_subset(gram: Floats, prior: Floats, tolerance: float) -> tuple[Ints, Floats]:
    """Which candidates add to the span, and the lower factor of their part of `gram`.

    `gram` holds the candidates' covariances after what the present span explains, `prior` their k(s, s).
    Cholesky with pivoting on the correlation scale: it stops once every remaining residual is at most
    `tolerance` of its prior variance, so duplicates and near-duplicates are skipped.
    """
    usable = np.flatnonzero(np.diag(gram) > tolerance * prior)
    if not len(usable):
        return usable, np.empty((0, 0))
    scale = np.sqrt(prior[usable])
    correlation = gram[np.ix_(usable, usable)] / np.outer(scale, scale)
    if len(usable) == 1:
        return usable, np.sqrt(gram[usable[0], usable[0]]).reshape(1, 1)
    factor, order = pivoted_cholesky(correlation, tolerance)
    return usable[order], factor * scale[order][:, None]
