"""The posterior of a contextual bandit at any rows, from inducing points and V alone (theory §2.10).

    mean      μ̃(x)  = z(x)ᵀ V⁻¹ b
    leverage  σ̃²(x) = (k(x,x) − ‖z(x)‖²)/λ + z(x)ᵀ V⁻¹ z(x)

The row z of a result is fixed when the result is used. A later inducing point adds an entry to z, which is
zero in the earlier results, and a point that is dropped maps every earlier row by the same matrix. Neither
needs the earlier rows themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.contextual.regression import Regression
from manyarms.embeddings import Embedding, Nystrom
from manyarms.embeddings.nystrom import (
    MOST_GROWTH,
    SPAN_TOLERANCE,
    covariances,
    independent_subset,
    span_tolerance,
)
from manyarms.errors import InvalidKernelError
from manyarms.kernels import KernelLike
from manyarms.support.frozen import changed
from manyarms.support.linalg import forward, inverse_positive_definite
from manyarms.support.validation import Floats, Ints

_TOLERANCE = SPAN_TOLERANCE[np.dtype(np.float64)]
_KEPT = (
    0.9  # the share of `max_inducing` that is left when points are dropped: dropping is O(m³), so it is rare
)


@dataclass(frozen=True, eq=False)
class RowValues:
    """Some rows and what the posterior says of them."""

    rows: Any
    prior: Floats  # k(x, x)
    z: Floats  # n × m
    solved: Floats  # V⁻¹z, n × m
    residual: Floats  # k(x, x) − ‖z‖²
    mean: Floats
    leverage: Floats

    def part(self, which: Any) -> RowValues:
        """Some of these rows."""
        return RowValues(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


@dataclass(frozen=True, eq=False)
class StreamedPosterior:
    """A feature map (Nyström on inducing points, or a fixed one) and the regression on it."""

    kernel: KernelLike
    embedding: Embedding
    regression: Regression
    keeps_residual: bool
    missed: float = 0.0  # tr(K − Q) = Σ c (k(x,x) − ‖z‖²) over the results
    weight: float = 0.0  # Σ c

    @property
    def ridge(self) -> float:
        """λ."""
        return self.regression.ridge

    @property
    def size(self) -> int:
        """m, the dimension of z."""
        return self.regression.size

    @property
    def log_det(self) -> float:
        """log det(V/λ)."""
        return self.regression.log_det

    @property
    def escaped(self) -> float:
        """ρ, the spectral mass lost by a sketch of V; V is kept here."""
        return 0.0

    @property
    def effective_dimension(self) -> float:
        """Σ c σ̃² over the results."""
        return self.regression.explained + self.missed / self.ridge

    def at(self, rows: Any, prior_max: float) -> RowValues:
        """Mean and leverage at these rows; `prior_max` is κ²."""
        z, prior = self.embedding.matrix(rows), prior_variances(self.kernel, rows)
        solved = self.regression.precision.apply(z.T).T
        quadratic, explained = np.einsum("ij,ij->i", z, solved), np.einsum("ij,ij->i", z, z)
        # V ≼ (λ + Σc κ²)I bounds zᵀV⁻¹z from below, which rounding errors can violate.
        leverage = np.maximum(quadratic, explained / (self.ridge + self.weight * prior_max))
        residual = np.maximum(prior - explained, 0.0)
        if self.keeps_residual:
            leverage = leverage + residual / self.ridge
        return RowValues(rows, prior, z, solved, residual, z @ self.regression.vector, leverage)

    def between(self, some: RowValues, others: RowValues) -> Floats:
        """The posterior covariances of two sets of rows on the leverage scale (theory §2.5)."""
        columns = some.z @ others.solved.T
        if self.keeps_residual and some.residual.any() and others.residual.any():
            limit = np.sqrt(some.residual)[:, None] * np.sqrt(others.residual)
            beyond = covariances(self.kernel, some.rows, others.rows) - some.z @ others.z.T
            columns = columns + np.clip(beyond, -limit, limit) / self.ridge
        return np.asarray(columns)

    # ------------------------------------------------------------------ inducing points

    def with_inducing(self, candidates: RowValues) -> StreamedPosterior:
        """With those of the candidates as inducing points that extend the span."""
        nystrom = self.embedding
        assert isinstance(nystrom, Nystrom)
        share = candidates.residual / np.maximum(candidates.prior, np.finfo(np.float64).tiny)
        outside = share > _TOLERANCE
        unclear = np.flatnonzero(outside & (share <= MOST_GROWTH * _TOLERANCE))
        if len(unclear) and self.size:
            limit = span_tolerance(nystrom.factor, candidates.z[unclear], _TOLERANCE)
            outside[unclear] = share[unclear] > limit
        if not outside.any():
            return self
        new = candidates.part(outside)
        gram = covariances(self.kernel, new.rows, new.rows) - new.z @ new.z.T
        chosen, corner = independent_subset(gram, new.prior, _TOLERANCE)
        if not len(chosen):
            return self
        m, a = self.size, len(chosen)
        factor = np.zeros((m + a, m + a), order="F")  # as LAPACK reads it
        factor[:m, :m], factor[m:, :m], factor[m:, m:] = nystrom.factor, new.z[chosen], corner
        points = np.concatenate([nystrom.points, new.rows[chosen]])
        longer = Nystrom(self.kernel, points, factor)
        return changed(self, embedding=longer, regression=self.regression.widened(a))

    def limited(self, most: int) -> tuple[StreamedPosterior, Floats | None]:
        """With at most this many inducing points, and the matrix that maps z to the shorter z.

        Dropping the point s removes from each past row the part that no other point explains. With
        M = L⁻ᵀ(V − λI)L⁻¹ these parts sum to M_ss/(K_S⁻¹)_ss (theory §2.10); the points with the smallest sum
        are dropped.
        """
        nystrom = self.embedding
        if not isinstance(nystrom, Nystrom) or self.size <= most:
            return self, None
        inverse = inverse_positive_definite(nystrom.factor @ nystrom.factor.T)
        half = forward(nystrom.factor, np.eye(self.size))
        weights = half.T @ self.regression.gram @ half
        loss = np.maximum(np.diag(weights), 0.0) / np.diag(inverse)
        kept = np.sort(np.argsort(-loss, kind="stable")[: max(1, int(_KEPT * most))])
        return self._restricted(nystrom, kept)

    def _restricted(self, nystrom: Nystrom, kept: Ints) -> tuple[StreamedPosterior, Floats]:
        points = nystrom.points[kept]
        shown = nystrom.factor[kept]  # k_S'(x) = (rows of L) z(x)
        factor = np.asfortranarray(np.linalg.cholesky(shown @ shown.T), dtype=np.float64)
        T = forward(factor, shown)
        regression = self.regression.mapped(T)
        lost = max(float(np.trace(self.regression.gram) - np.trace(regression.gram)), 0.0)
        missed = (np.sqrt(self.missed) + np.sqrt(lost)) ** 2
        shorter = Nystrom(self.kernel, points, factor)
        return changed(self, embedding=shorter, regression=regression, missed=float(missed)), T

    # ------------------------------------------------------------------ results

    def conditioned(self, values: RowValues, weights: Floats, sums: Floats) -> StreamedPosterior:
        """With results at these rows: Σ c and Σ c y of each."""
        regression = self.regression
        for z, weight, total in zip(values.z, weights.tolist(), sums.tolist(), strict=True):
            regression = regression.added(z, weight, total)
        missed = max(self.missed + float(weights @ values.residual), 0.0)
        return changed(
            self, regression=regression, missed=missed, weight=max(self.weight + float(weights.sum()), 0.0)
        )

    def discounted(self, factor: float) -> StreamedPosterior:
        """With every past weight multiplied by `factor`."""
        return changed(
            self,
            regression=self.regression.discounted(factor),
            missed=factor * self.missed,
            weight=factor * self.weight,
        )


def prior_variances(kernel: KernelLike, rows: Any) -> Floats:
    """k(x, x) of every row, checked to be finite and not negative."""
    prior = np.asarray(kernel.diag(rows), dtype=np.float64)
    if prior.shape != (len(rows),):
        raise InvalidKernelError(f"{kernel!r}.diag gave shape {prior.shape} for {len(rows)} rows")
    fine = (prior >= 0) & (prior < np.inf)
    if not fine.all():
        raise InvalidKernelError(f"{kernel!r}.diag gave {prior[~fine][0]}")
    return prior
