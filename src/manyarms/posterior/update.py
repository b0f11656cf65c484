"""One step of the sparse posterior: append inducing arms, then condition on pulls, in one pass over the pool.

Everything random access needs (the pulled arms, V⁻¹, the weights) is small and is brought up to date
first. That fixes, for each arm x, which linear forms of z(x) are needed: zᵀz_s for a new column, zᵀH for
its border in V, zᵀG for the pulls. All of them are then read off in a single pass over the stored
columns, O(A·m) for the whole step (theory §2.4).

Notation: S appended arms (a of them), P pulled arms, U arms pulled in this step (u of them);
V = Z_Pᵀ N Z_P + λI; C = Z_Pᵀ N z_new; H = V⁻¹C; D = z_newᵀ N z_new + λI − CᵀH; w = V⁻¹b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.posterior.precision import InversePrecision
from manyarms.support.linalg import forward, inverse_lower
from manyarms.support.validation import Floats


@dataclass(frozen=True)
class Weights:
    """The part of the posterior that lives in the m dimensions of z: V⁻¹, w = V⁻¹b and log det(V/λ)."""

    precision: InversePrecision
    vector: Floats
    log_det: float


@dataclass(frozen=True)
class PulledArms:
    """Some pulled arms: their z as rows, how often each was pulled, and the sum of its rewards."""

    rows: Floats
    counts: Floats
    sums: Floats


@dataclass(frozen=True)
class Border:
    """New columns of z, and what they add to zᵀV⁻¹z and to the mean."""

    factor: Floats  # lower factor of the appended arms' residual covariance, a × a
    H: Floats
    inverse_schur: Floats  # E⁻¹ with E Eᵀ = D
    weights: Floats  # last a entries of the new w

    @classmethod
    def plan(cls, old: Weights, ridge: float, pulled: PulledArms, factor: Floats, new: Floats) -> Border:
        """`pulled` are the arms pulled before that lie outside the span, `new` the new columns there (a × P).

        The new columns are zero at arms inside the span, so those do not enter; when all do, H = 0.
        """
        if not len(pulled.counts):
            none = np.zeros((len(old.vector), len(new)))
            return cls(factor, none, np.eye(len(new)) / np.sqrt(ridge), np.zeros(len(new)))
        weighted = new * pulled.counts
        C = pulled.rows.T @ weighted.T
        H = old.precision.apply(C)
        D = weighted @ new.T + ridge * np.eye(len(new)) - C.T @ H
        inverse_schur = inverse_lower(D)
        weights = inverse_schur.T @ (inverse_schur @ (new @ pulled.sums - C.T @ old.vector))
        return cls(factor, H, inverse_schur, weights)

    def extend(self, old: Weights, ridge: float) -> Weights:
        """V⁻¹ and w with the new columns."""
        vector = np.concatenate([old.vector - self.H @ self.weights, self.weights])
        growth = -2.0 * np.log(np.diag(self.inverse_schur)).sum() - len(self.weights) * np.log(ridge)
        return Weights(
            old.precision.bordered(self.H, self.inverse_schur), vector, old.log_det + float(growth)
        )


@dataclass(frozen=True)
class Pulls:
    """What pulls of some arms take from zᵀV⁻¹z and add to the mean."""

    G: Floats  # V⁻¹ Z_Uᵀ, m × u
    inverse_factor: Floats  # E⁻¹ with E Eᵀ = N⁻¹ + Z_U V⁻¹ Z_Uᵀ
    gain: Floats  # (E Eᵀ)⁻¹ (mean reward − present mean), by which zᵀG enters the mean

    @classmethod
    def plan(cls, old: Weights, pulled: PulledArms) -> Pulls:
        """`pulled` describes this step's pulls alone."""
        G = old.precision.apply(pulled.rows.T)
        inverse_factor = inverse_lower(pulled.rows @ G + np.diag(1.0 / pulled.counts))
        gain = inverse_factor.T @ (inverse_factor @ (pulled.sums / pulled.counts - pulled.rows @ old.vector))
        return cls(G, inverse_factor, gain)

    def apply(self, old: Weights, counts: Floats) -> Weights:
        """V⁻¹ and w after the pulls; det grows by det(I + N Z V⁻¹ Zᵀ)."""
        growth = np.log(counts).sum() - 2.0 * np.log(np.diag(self.inverse_factor)).sum()
        precision = old.precision.pulled(self.G, self.inverse_factor)
        return Weights(precision, old.vector + self.G @ self.gain, old.log_det + float(growth))


@dataclass(frozen=True)
class PoolValues:
    """Per arm of a block: k − ‖z‖², zᵀV⁻¹z and the posterior mean."""

    residual: Floats
    quadratic: Floats
    mean: Floats

    def bordered(self, border: Border, projections: Floats, columns: Floats) -> PoolValues:
        """`projections` is Hᵀz (or empty when H = 0), `columns` the new entries of z, both a × arms."""
        difference = projections - columns if len(projections) else -columns
        return PoolValues(
            np.maximum(self.residual - _column_squares(columns), 0.0),
            self.quadratic + _column_squares(_times(border.inverse_schur, difference)),
            self.mean - _times(border.weights[None, :], difference)[0],
        )

    def pulled(self, pulls: Pulls, projections: Floats) -> PoolValues:
        """`projections` is Gᵀz, u × arms."""
        return PoolValues(
            self.residual,
            self.quadratic - _column_squares(_times(pulls.inverse_factor, projections)),
            self.mean + _times(pulls.gain[None, :], projections)[0],
        )


def new_columns(border: Border, covariances: Floats, products: Floats) -> Floats:
    """z_new(x) = L⁻¹ (k(s, x) − z(s)ᵀz(x)), a × arms; for one arm L is √(k(s,s) − ‖z(s)‖²)."""
    return forward(border.factor, covariances - products)


def _column_squares(values: Floats) -> Any:
    return values[0] * values[0] if len(values) == 1 else np.einsum("ij,ij->j", values, values)


def _times(matrix: Floats, rows: Floats) -> Floats:
    """matrix @ rows, without the cost of a matrix product in the usual step of one row."""
    return np.asarray(matrix[0, 0] * rows if len(rows) == 1 == len(matrix) else matrix @ rows)
