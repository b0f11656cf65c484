"""Frequent directions: a few rows B with BᵀB ≈ XᵀX (Ghashami et al. 2016), behind SOFUL (theory §2.7).

Unlike an embedding it replaces the matrix of the least squares, V̂ = BᵀB + λI, and leaves rewards alone:
b = Xᵀy stays exact in R^d, and the mean is xᵀV̂⁻¹b (Kuzborskij, Cella & Cesa-Bianchi 2019). Where the rows
have more directions than the sketch, V̂ forgets some for good; regret is then linear (BKB paper, §5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manyarms.embeddings.checks import checked_rows, read_only
from manyarms.errors import InvalidParameterError
from manyarms.support.frozen import replace_field
from manyarms.support.validation import Floats, count, non_negative, positive


@dataclass(frozen=True, eq=False)
class FrequentDirections:
    """A sketch of XᵀX in at most `size` − 1 orthogonal rows.

    `escaped` is ρ, the sum of the squared singular values taken away so far. It bounds what is missing,

        0 ≼ XᵀX − BᵀB ≼ ρ I,      ρ ≤ ‖X − X_k‖²_F / (size − k)   for every k < size,

    X_k being the best approximation of rank k; so nothing is lost while X has rank below `size`. The four
    fields are the whole state. `ridge` may include a share of ρ: robust frequent directions add ρ/2.
    """

    size: int
    n_features: int
    rows: Floats | None = None  # B, sorted by falling norm
    escaped: float = 0.0

    def __post_init__(self) -> None:
        count("size", self.size, minimum=2)
        count("n_features", self.n_features)
        non_negative("escaped", self.escaped)
        rows = read_only(np.empty((0, self.n_features)) if self.rows is None else self.rows)
        if rows.ndim != 2 or rows.shape[1] != self.n_features or not _orthogonal(rows):
            raise InvalidParameterError("rows", rows, f"orthogonal rows of {self.n_features} numbers, none 0")
        replace_field(self, "rows", rows)

    # ------------------------------------------------------------------ taking in rows

    def updated(self, X: Any, counts: ArrayLike | None = None) -> FrequentDirections:
        """The sketch with Σ n_i x_i x_iᵀ added; an arm pulled n times is one row with the count n.

        Rows are taken in blocks of up to `size`, one decomposition each: O(size·d) per row when they come
        together, O(size²·d) when they come one by one.
        """
        X = checked_rows(X, self.n_features)
        weighted = X if counts is None else X * np.sqrt(_checked_counts(counts, len(X)))[:, None]
        rows, escaped = self._rows, self.escaped
        for start in range(0, len(weighted), self.size):
            rows, lost = _shrunk(np.vstack([rows, weighted[start : start + self.size]]), self.size)
            escaped += lost
        return FrequentDirections(self.size, self.n_features, rows, escaped)

    # ------------------------------------------------------------------ reading V̂ = BᵀB + ridge·I

    def apply_inverse(self, vectors: Floats, ridge: float) -> Floats:
        """V̂⁻¹v for a vector, or for every column of a matrix, in O(size·d) each."""
        directions, squares = self.decomposed()
        ridge = positive("ridge", ridge)
        shares = squares / (squares + ridge)
        inside = directions @ vectors
        return np.asarray((vectors - directions.T @ (inside.T * shares).T) / ridge)

    def quadratic(self, X: Any, ridge: float) -> Floats:
        """xᵀV̂⁻¹x for every row: what B does not know about x counts with 1/ridge."""
        X = checked_rows(X, self.n_features)
        directions, squares = self.decomposed()
        ridge = positive("ridge", ridge)
        inside = (X @ directions.T) ** 2
        unknown = np.maximum(np.einsum("ij,ij->i", X, X) - inside.sum(axis=1), 0.0)
        return np.asarray(unknown / ridge + inside @ (1.0 / (squares + ridge)))

    def log_determinant(self, ridge: float) -> float:
        """log det V̂."""
        _, squares = self.decomposed()
        ridge = positive("ridge", ridge)
        return float(np.log1p(squares / ridge).sum() + self.n_features * math.log(ridge))

    @property
    def _rows(self) -> Floats:
        assert self.rows is not None, "set when the sketch is made"
        return self.rows

    def decomposed(self) -> tuple[Floats, Floats]:
        """Orthonormal directions and the squared lengths of B along them."""
        squares = np.einsum("ij,ij->i", self._rows, self._rows)
        return self._rows / np.sqrt(squares)[:, None], squares


def _shrunk(rows: Floats, size: int) -> tuple[Floats, float]:
    """At most `size` − 1 orthogonal rows, and δ: every squared singular value falls by the `size`-th."""
    _, singular, directions = np.linalg.svd(rows, full_matrices=False)
    squares = singular**2
    lost = float(squares[size - 1]) if len(squares) >= size else 0.0
    left = squares - lost
    kept = left > np.finfo(np.float64).eps * squares.max(initial=0.0)
    return np.sqrt(left[kept])[:, None] * directions[kept], lost


def _orthogonal(rows: Floats) -> bool:
    gram = rows @ rows.T
    lengths = np.sqrt(np.diag(gram))
    across = gram - np.diag(np.diag(gram))
    return bool((lengths > 0).all() and (np.abs(across) <= 1e-6 * np.outer(lengths, lengths)).all())


def _checked_counts(counts: ArrayLike, n: int) -> Floats:
    values = np.asarray(counts, dtype=np.float64)
    if values.shape != (n,) or not (np.isfinite(values) & (values >= 0)).all():
        raise InvalidParameterError("counts", counts, f"{n} finite numbers, zero or above, one per row")
    return values
