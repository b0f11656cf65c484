"""The pool side of a step: what every shard is told, and how the values of its arms change.

    Start     a new chain of versions: kernel, ridge and storage
    Step      new columns of z and pulls, applied in one pass over the stored columns (theory §2.4)
    Rebuild   a new sketch, or a feature map: all columns and values from scratch

These messages are small: nothing in them has the length of the pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from manyarms.embeddings import Embedding
from manyarms.kernels import KernelLike
from manyarms.posterior.precision import InversePrecision
from manyarms.posterior.update import Border, Pulls
from manyarms.support.linalg import forward
from manyarms.support.triangles import LowerTriangle
from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True)
class Start:
    """What a chain of versions is computed with."""

    kernel: KernelLike
    storage: np.dtype[Any]
    n_arms: int  # of the whole pool


@dataclass(frozen=True)
class LeverageScale:
    """What turns the values of an arm into its leverage σ̃² (theory §2.2)."""

    ridge: float
    pulls: int
    prior_max: float  # κ²
    keeps_residual: bool

    def leverage(self, values: PoolValues, prior: Floats) -> Floats:
        """σ̃² on the ridge-leverage scale, between 0 and k/λ."""
        if not self.keeps_residual:
            return np.maximum(values.quadratic, 0.0)
        # V ≼ (λ + tκ²)I gives this lower bound on zᵀV⁻¹z, which rounding errors can violate.
        leverage = prior - values.residual  # in place from here on: this is a part of every step
        leverage /= self.ridge + self.pulls * self.prior_max
        np.maximum(values.quadratic, leverage, out=leverage)
        leverage += values.residual / self.ridge
        return np.asarray(leverage)


@dataclass(frozen=True)
class Step:
    """New columns of z for `accepted` inducing arms, then pulls; either may be missing.

    `forms` are the linear forms of z that the step needs, m × r: z(s) of each accepted arm, H of the border
    if it is not zero, and G of the pulls. `at_seen` holds the new columns at the pulled arms `seen` in double
    precision, a × P; the shards store these values, so that driver and shards agree on pulled arms.
    """

    forms: Floats
    scale: LeverageScale
    border: Border | None
    pulls: Pulls | None
    accepted: Ints
    points: Any  # features of the accepted arms
    seen: Ints
    at_seen: Floats


class ValueRule(Protocol):
    """How residual, zᵀV⁻¹z and mean follow from z, for arms whose values are computed from scratch."""

    def values(self, Z: Floats, prior: Floats) -> PoolValues:
        """The values of arms with these rows of z and prior variances."""


@dataclass(frozen=True)
class ByFactor:
    """Values from E⁻¹ with E Eᵀ = V, and w = V⁻¹b.

    With `single`, E⁻¹z is computed in single precision, in half the time. ‖E⁻¹‖² ≤ 1/λ, so λ zᵀV⁻¹z is then
    off by some 10⁻⁷ √(m k) standard deviations.
    """

    inverse_factor: Floats
    vector: Floats
    single: bool = False

    def values(self, Z: Floats, prior: Floats) -> PoolValues:
        """The values of arms with these rows of z and prior variances."""
        columns = Z.T  # in row order if z was computed with `Nystrom.columns`
        residual = np.maximum(prior - np.einsum("ij,ij->j", columns, columns), 0.0)
        right: Any = columns.astype(np.float32) if self.single else columns
        return PoolValues(residual, self._triangle.squares(right), self.vector @ columns)

    @cached_property
    def _triangle(self) -> LowerTriangle:
        return LowerTriangle(self.inverse_factor.astype(np.float32) if self.single else self.inverse_factor)


@dataclass(frozen=True)
class ByPrecision:
    """Values from V⁻¹ as it is kept, and w; for points that join later or lie outside the pool."""

    precision: InversePrecision
    vector: Floats

    def values(self, Z: Floats, prior: Floats) -> PoolValues:
        """The values of points with these rows of z and prior variances."""
        quadratic = np.einsum("ij,ji->i", Z, self.precision.apply(Z.T))
        residual = np.maximum(prior - np.einsum("ij,ij->i", Z, Z), 0.0)
        return PoolValues(residual, np.maximum(quadratic, 0.0), Z @ self.vector)


@dataclass(frozen=True)
class Rebuild:
    """Everything from scratch: z by this embedding, and the values by this rule.

    With `known`, the version has so many columns of the embedding already (`GroupedNystrom.completed`).
    """

    embedding: Embedding
    rule: ValueRule
    scale: LeverageScale
    known: int = 0


@dataclass(frozen=True)
class PoolValues:
    """For each arm of a block: the residual k − ‖z‖², the quadratic form zᵀV⁻¹z, and the posterior mean."""

    residual: Floats
    quadratic: Floats
    mean: Floats

    def bordered(self, border: Border, projections: Floats, columns: Floats) -> PoolValues:
        """The values after new `columns` of z (a × arms); `projections` is Hᵀz (a × arms, empty if H = 0)."""
        difference = projections - columns if len(projections) else -columns
        return PoolValues(
            np.maximum(self.residual - _column_squares(columns), 0.0),
            self.quadratic + _column_squares(_times(border.inverse_schur, difference)),
            self.mean - _times(border.weights[None, :], difference)[0],
        )

    def pulled(self, pulls: Pulls, projections: Floats) -> PoolValues:
        """The values after pulls; `projections` is Gᵀz, u × arms."""
        return PoolValues(
            self.residual,
            self.quadratic - _column_squares(_times(pulls.inverse_factor, projections)),
            self.mean + _times(pulls.gain[None, :], projections)[0],
        )


def new_columns(border: Border, covariances: Floats, products: Floats) -> Floats:
    """z_new(x) = L⁻¹ (k(s, x) − z(s)ᵀz(x)), a × arms; for a single arm s, L = √(k(s,s) − ‖z(s)‖²)."""
    return forward(border.factor, covariances - products)


def _column_squares(values: Floats) -> Any:
    return values[0] * values[0] if len(values) == 1 else np.einsum("ij,ij->j", values, values)


def _times(matrix: Floats, rows: Floats) -> Floats:
    """matrix @ rows; with a single row and column, the common case, without the overhead of a product."""
    return np.asarray(matrix[0, 0] * rows if len(rows) == 1 == len(matrix) else matrix @ rows)
