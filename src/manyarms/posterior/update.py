"""The small side of a step of the sparse posterior: append inducing arms, then condition on pulls.

The small parts (the pulled arms, V⁻¹, the weights) are updated first. They determine which linear forms of
z(x) are needed for each arm x: zᵀz_s for a new column, zᵀH for the corresponding border of V, and zᵀG for the
pulls. All of these forms are then computed in a single pass over the stored columns (`pool_step.py`), so
that the whole step costs O(A·m) (theory §2.4).

Notation: S the a appended arms, P the pulled arms, U the u arms pulled in this step, z of each arm as a row;
V = Z_Pᵀ N Z_P + λI; C = Z_Pᵀ N z_new; H = V⁻¹C; D = z_newᵀ N z_new + λI − CᵀH; w = V⁻¹b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyarms.posterior.precision import InversePrecision
from manyarms.support.linalg import inverse_lower
from manyarms.support.validation import Floats


@dataclass(frozen=True)
class Weights:
    """The m-dimensional part of the posterior: V⁻¹, w = V⁻¹b and log det(V/λ)."""

    precision: InversePrecision
    vector: Floats
    log_det: float


@dataclass(frozen=True)
class PulledArms:
    """Some pulled arms: their z as rows, and the number of pulls and reward sum of each."""

    rows: Floats
    counts: Floats
    sums: Floats


@dataclass(frozen=True)
class Border:
    """The update of V⁻¹ and w by new columns of z, and its effect on zᵀV⁻¹z and on the mean."""

    factor: Floats  # lower Cholesky factor of the appended arms' residual covariance, a × a
    H: Floats  # m × a
    inverse_schur: Floats  # E⁻¹ with E Eᵀ = D, a × a
    weights: Floats  # the last a entries of the new w

    @classmethod
    def plan(cls, old: Weights, ridge: float, pulled: PulledArms, factor: Floats, new: Floats) -> Border:
        """Plan the update by new columns.

        `pulled` are the previously pulled arms outside the span, and `new` holds the new columns at these
        arms (a × P). The new columns are zero at arms inside the span, so those arms do not contribute; if
        every pulled arm is inside, H = 0.
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
        """V⁻¹ and w after the columns were appended."""
        vector = np.concatenate([old.vector - self.H @ self.weights, self.weights])
        growth = -2.0 * np.log(self.inverse_schur.diagonal()).sum() - len(self.weights) * np.log(ridge)
        return Weights(
            old.precision.bordered(self.H, self.inverse_schur), vector, old.log_det + float(growth)
        )


@dataclass(frozen=True)
class Pulls:
    """The update of V⁻¹ and w by pulls, and its effect on zᵀV⁻¹z and on the mean."""

    G: Floats  # V⁻¹ Z_Uᵀ, m × u
    inverse_factor: Floats  # E⁻¹ with E Eᵀ = N⁻¹ + Z_U V⁻¹ Z_Uᵀ
    gain: Floats  # (E Eᵀ)⁻¹ (average reward − present mean); the mean grows by zᵀG · gain

    @classmethod
    def plan(cls, old: Weights, pulled: PulledArms) -> Pulls:
        """Plan the update by the pulls of this step, which `pulled` describes."""
        G = old.precision.apply(pulled.rows.T)
        spread = pulled.rows @ G
        if len(spread) == 1:  # the common case
            spread += 1.0 / pulled.counts
        else:
            spread += np.diag(1.0 / pulled.counts)
        inverse_factor = inverse_lower(spread)
        gain = inverse_factor.T @ (inverse_factor @ (pulled.sums / pulled.counts - pulled.rows @ old.vector))
        return cls(G, inverse_factor, gain)

    def apply(self, old: Weights, counts: Floats) -> Weights:
        """V⁻¹ and w after the pulls; det V is multiplied by det(I + N Z V⁻¹ Zᵀ)."""
        growth = np.log(counts).sum() - 2.0 * np.log(self.inverse_factor.diagonal()).sum()
        precision = old.precision.pulled(self.G, self.inverse_factor)
        return Weights(precision, old.vector + self.G @ self.gain, old.log_det + float(growth))
