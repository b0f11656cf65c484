"""The linear posterior of SOFUL: V is sketched by frequent directions, b = Xᵀy is exact.

    θ̂ = V̂⁻¹ Xᵀy,    σ̂²(x) = xᵀV̂⁻¹x,    V̂ = BᵀB + λI            (Kuzborskij et al. 2019; theory §2.7)

BᵀB ≼ XᵀX ≼ BᵀB + ρI, where ρ is the spectral mass that the sketch has lost (`escaped`). It enters
the width β twice, in the factors 1 + ρ/λ and in the determinant (`manyarms.choice.widths.soful`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from manyarms.embeddings import Embedding
from manyarms.embeddings.linear import LinearFeatures
from manyarms.kernels import KernelLike
from manyarms.pool.pool import Pool
from manyarms.posterior.frequent_directions import FrequentDirections
from manyarms.posterior.pool_step import PoolValues
from manyarms.posterior.precision import InversePrecision
from manyarms.posterior.sparse_gp import SparseGP
from manyarms.posterior.state import PosteriorState
from manyarms.posterior.update import Weights
from manyarms.support.validation import Floats, Ints, count


@dataclass(frozen=True, eq=False)
class SketchedState(PosteriorState):
    """A posterior state together with the sketch of V that it was computed from."""

    sketch: FrequentDirections | None = None

    @property
    def escaped(self) -> float:
        """ρ, a bound on the largest eigenvalue of XᵀX − BᵀB."""
        return 0.0 if self.sketch is None else self.sketch.escaped

    @cached_property
    def effective_dimension(self) -> float:
        """Σ_i n_i σ̃²(x_i), from the arms themselves: the sketch of V is not Σ n_i z_i z_iᵀ + λI."""
        return float(self.counts @ self.pulled_leverage)


@dataclass(frozen=True)
class _BySketch:
    """The values of arms under a frequent-directions sketch of V."""

    sketch: FrequentDirections
    vector: Floats
    ridge: float

    def values(self, Z: Floats, prior: Floats) -> PoolValues:
        """The values of arms with these rows of z and prior variances."""
        residual = np.maximum(prior - np.einsum("ij,ij->i", Z, Z), 0.0)
        return PoolValues(residual, self.sketch.quadratic(Z, self.ridge), Z @ self.vector)


class SketchedLinearModel(SparseGP):
    """Bayesian linear regression in which V is replaced by a frequent-directions sketch of `size` rows."""

    def __init__(
        self, pool: Pool, kernel: KernelLike, ridge: float, size: int, *, storage: DTypeLike = np.float64
    ) -> None:
        self._size = count("size", size, minimum=2)
        feature_map = LinearFeatures(kernel, pool.n_features)
        super().__init__(pool, kernel, ridge, storage=storage, residual=False, feature_map=feature_map)

    def _advanced(
        self, state: PosteriorState, wanted: Ints, pulled: Ints, counts: Floats, sums: Floats
    ) -> PosteriorState:
        """Add the pulled arms to the sketch and to b; mean and variance take one pass over the pool."""
        if not len(pulled):
            return state
        _, _, residual = self._stored(state, pulled, room=0)
        merged = replace(_sketched(state.merged(pulled, counts, sums)), pulled_residual=residual)
        assert merged.sketch is not None
        return self._on(merged.sketch.updated(state.rows(pulled), counts), merged)

    def _rebuilt_on(self, embedding: Embedding, state: PosteriorState) -> PosteriorState:
        """Compute the columns as for any posterior, then sketch all pulls from scratch."""
        plain = super()._rebuilt_on(embedding, state)
        sketch = FrequentDirections(self._size, plain.sketch_size).updated(plain.pulled_rows, plain.counts)
        return self._on(sketch, _with_sketch(plain, sketch))

    def _on(self, sketch: FrequentDirections, state: SketchedState) -> SketchedState:
        """`state` with the mean, variance and weights that this sketch and its pulls imply."""
        ridge, d = self.ridge, state.sketch_size
        vector = sketch.apply_inverse(state.pulled_rows.T @ state.sums, ridge)
        # det V ≤ det(BᵀB + (λ + ρ)I): an upper bound that the width can use, since V itself is not known.
        log_det = sketch.log_determinant(ridge + sketch.escaped) - d * np.log(ridge)
        rule, scale = _BySketch(sketch, vector, ridge), self.leverage_scale(state, state.counts)
        return replace(
            state,
            sketch=sketch,
            weights=Weights(_precision(sketch, ridge), vector, float(log_det)),
            over_pool=state.over_pool.revalued(self.embedding(state), rule, scale),
        )

    def to_plain(self, state: PosteriorState) -> dict[str, Any]:
        """The arrays of `SparseGP.to_plain`, and the sketch."""
        sketch = _sketched(state).sketch
        assert sketch is not None
        return {
            **super().to_plain(state),
            "sketch_rows": sketch.rows,
            "sketch_escaped": np.array(sketch.escaped),
        }

    def from_plain(self, arrays: Mapping[str, Any]) -> PosteriorState:
        """The state that `to_plain` wrote."""
        state = super().from_plain(arrays)
        rows, escaped = arrays["sketch_rows"], float(arrays["sketch_escaped"])
        return _with_sketch(state, FrequentDirections(self._size, state.sketch_size, rows, escaped))


def _with_sketch(state: PosteriorState, sketch: FrequentDirections) -> SketchedState:
    inherited = {field.name: getattr(state, field.name) for field in fields(PosteriorState)}
    return SketchedState(**inherited, sketch=sketch)


def _sketched(state: PosteriorState) -> SketchedState:
    assert isinstance(state, SketchedState)
    return state


def _precision(sketch: FrequentDirections, ridge: float) -> InversePrecision:
    """V̂⁻¹ = (I − Σ_j s_j/(s_j + λ) u_j u_jᵀ)/λ, with the sketch's directions u_j and squared norms s_j."""
    directions, squares = sketch.decomposed()
    terms = directions.T * np.sqrt(squares / (squares + ridge) / ridge)
    return InversePrecision(np.eye(sketch.n_features) / ridge, terms, np.full(len(squares), -1.0))
