"""V⁻¹, the inverse of V = Σ_i n_i z_i z_iᵀ + λI, kept as a dense matrix plus a few pending rank-one terms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyarms.support.linalg import inverse_positive_definite
from manyarms.support.validation import Floats

_FOLD_AT = 32  # number of pending terms; adding them together is one matrix product, not 32 passes over V⁻¹


@dataclass(frozen=True)
class InversePrecision:
    """V⁻¹ = pad(base) + Σ_j signs[j] · terms[:, j] terms[:, j]ᵀ, where pad adds zero rows and columns.

    Both ways in which V grows are low-rank updates of its inverse: a pull subtracts one term per arm, an
    appended column of z adds one (theory §2.4). The rows of `terms` beyond the size of `base` belong to
    columns appended since the terms were last added to `base`.
    """

    base: Floats
    terms: Floats
    signs: Floats

    @classmethod
    def of(cls, V: Floats) -> InversePrecision:
        """The inverse of V, computed from its Cholesky factor."""
        return cls(inverse_positive_definite(V), np.empty((len(V), 0)), np.empty(0))

    @property
    def size(self) -> int:
        """m, the number of columns of z."""
        return len(self.terms)

    def apply(self, X: Floats) -> Floats:
        """V⁻¹ X for a matrix X with m rows."""
        result = self.terms @ (self.signs[:, None] * (self.terms.T @ X))
        inner = len(self.base)
        result[:inner] += self.base @ X[:inner]
        return result

    def trace(self) -> float:
        """tr V⁻¹."""
        return float(np.trace(self.base) + self.signs @ np.einsum("ij,ij->j", self.terms, self.terms))

    def root(self) -> Floats:
        """A matrix C with C Cᵀ = V⁻¹, in O(m³)."""
        whole = self._folded().base
        try:
            return np.asarray(np.linalg.cholesky(whole), dtype=np.float64)
        except np.linalg.LinAlgError:  # rounding made the smallest eigenvalues negative
            values, vectors = np.linalg.eigh(whole)
            return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def bordered(self, H: Floats, inverse_factor: Floats) -> InversePrecision:
        """V'⁻¹ after columns were appended to z: H = V⁻¹C, Schur complement D = E Eᵀ, `inverse_factor` = E⁻¹.

        V'⁻¹ = pad(V⁻¹) + [H; −I] D⁻¹ [H; −I]ᵀ.
        """
        added = np.concatenate([H, -np.eye(H.shape[1])]) @ inverse_factor.T
        padded = np.concatenate([self.terms, np.zeros((H.shape[1], self.terms.shape[1]))])
        return self._with(padded, added, 1.0)

    def pulled(self, G: Floats, inverse_factor: Floats) -> InversePrecision:
        """V'⁻¹ = V⁻¹ − G (N⁻¹ + ZG)⁻¹ Gᵀ after pulls: G = V⁻¹Zᵀ, N⁻¹ + ZG = E Eᵀ, `inverse_factor` = E⁻¹."""
        return self._with(self.terms, G @ inverse_factor.T, -1.0)

    def _with(self, terms: Floats, added: Floats, sign: float) -> InversePrecision:
        signs = np.concatenate([self.signs, np.full(added.shape[1], sign)])
        updated = InversePrecision(self.base, np.concatenate([terms, added], axis=1), signs)
        return updated._folded() if len(signs) > _FOLD_AT else updated

    def _folded(self) -> InversePrecision:
        base = (self.terms * self.signs) @ self.terms.T
        inner = len(self.base)
        base[:inner, :inner] += self.base
        return InversePrecision(base, np.empty((self.size, 0)), np.empty(0))
