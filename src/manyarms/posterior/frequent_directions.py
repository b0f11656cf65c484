"""Frequent directions: a small matrix B with BᵀB ≈ XᵀX (Ghashami et al. 2016), used by SOFUL (theory §2.7).

An embedding replaces the features. Frequent directions replace the regularised least-squares matrix by
V̂ = BᵀB + λI and do not change the rewards: b = Xᵀy stays exact in R^d, and the mean is xᵀV̂⁻¹b (Kuzborskij,
Cella & Cesa-Bianchi 2019). If the rows of X span more directions than the sketch holds, V̂ loses some of them
permanently, and the regret becomes linear (BKB paper, §5).
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

    `escaped` is ρ, the sum of all values subtracted from the squared singular values. It bounds the error:

        0 ≼ XᵀX − BᵀB ≼ ρ I,      ρ ≤ ‖X − X_k‖²_F / (size − k)   for every k < size,

    where X_k is the best approximation of rank k. The sketch is therefore exact while the rank of X is below
    `size`. The four fields are the whole state. The `ridge` given to the methods may include a multiple of ρ:
    robust frequent directions add ρ/2.
    """

    size: int
    n_features: int
    rows: Floats | None = None  # B, at most size − 1 rows of length n_features, by decreasing norm
    escaped: float = 0.0

    def __post_init__(self) -> None:
        count("size", self.size, minimum=2)
        count("n_features", self.n_features)
        non_negative("escaped", self.escaped)
        rows = read_only(np.empty((0, self.n_features)) if self.rows is None else self.rows)
        if rows.ndim != 2 or rows.shape[1] != self.n_features or not _orthogonal(rows):
            raise InvalidParameterError("rows", rows, f"orthogonal nonzero rows of {self.n_features} numbers")
        replace_field(self, "rows", rows)

    # ------------------------------------------------------------------ adding rows

    def updated(self, X: Any, counts: ArrayLike | None = None) -> FrequentDirections:
        """The sketch after adding Σ n_i x_i x_iᵀ; an arm pulled n times is one row x_i with the count n.

        Rows are processed in blocks of up to `size`, with one singular value decomposition per block. The
        cost is O(size·d) per row for full blocks and O(size²·d) for rows added one at a time.
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
        """V̂⁻¹v for a vector v, or for every column v of a matrix, in O(size·d) per vector."""
        directions, squares = self.decomposed()
        ridge = positive("ridge", ridge)
        shares = squares / (squares + ridge)
        inside = directions @ vectors
        return np.asarray((vectors - directions.T @ (inside.T * shares).T) / ridge)

    def quadratic(self, X: Any, ridge: float) -> Floats:
        """xᵀV̂⁻¹x for every row x of X; the part of x outside the row space of B is weighted by 1/ridge."""
        X = checked_rows(X, self.n_features)
        directions, squares = self.decomposed()
        ridge = positive("ridge", ridge)
        inside = (X @ directions.T) ** 2
        outside = np.maximum(np.einsum("ij,ij->i", X, X) - inside.sum(axis=1), 0.0)
        return np.asarray(outside / ridge + inside @ (1.0 / (squares + ridge)))

    def log_determinant(self, ridge: float) -> float:
        """log det V̂."""
        _, squares = self.decomposed()
        ridge = positive("ridge", ridge)
        return float(np.log1p(squares / ridge).sum() + self.n_features * math.log(ridge))

    @property
    def _rows(self) -> Floats:
        assert self.rows is not None, "set in __post_init__"
        return self.rows

    def decomposed(self) -> tuple[Floats, Floats]:
        """The directions of the rows of B (orthonormal rows) and the squared norms of the rows."""
        squares = np.einsum("ij,ij->i", self._rows, self._rows)
        return self._rows / np.sqrt(squares)[:, None], squares


def _shrunk(rows: Floats, size: int) -> tuple[Floats, float]:
    """At most `size` − 1 orthogonal rows, and δ, the squared singular value number `size`.

    δ is subtracted from every squared singular value, which makes at least one row zero.
    """
    _, singular, directions = np.linalg.svd(rows, full_matrices=False)
    squares = singular**2
    lost = float(squares[size - 1]) if len(squares) >= size else 0.0
    left = squares - lost
    kept = left > np.finfo(np.float64).eps * squares.max(initial=0.0)
    return np.sqrt(left[kept])[:, None] * directions[kept], lost


def _orthogonal(rows: Floats) -> bool:
    gram = rows @ rows.T
    lengths = np.sqrt(np.diag(gram))
    off_diagonal = gram - np.diag(np.diag(gram))
    return bool((lengths > 0).all() and (np.abs(off_diagonal) <= 1e-6 * np.outer(lengths, lengths)).all())


def _checked_counts(counts: ArrayLike, n: int) -> Floats:
    values = np.asarray(counts, dtype=np.float64)
    if values.shape != (n,) or not (np.isfinite(values) & (values >= 0)).all():
        raise InvalidParameterError("counts", counts, f"{n} finite numbers, zero or above (one per row)")
    return values
