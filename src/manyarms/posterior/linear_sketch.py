"""The linear posterior of SOFUL: V sketched by frequent directions, the reward side b exact.

    θ̂ = V̂⁻¹ Xᵀy,    σ̂²(x) = xᵀV̂⁻¹x,    V̂ = BᵀB + λI            (Kuzborskij et al. 2019; theory §2.7)

BᵀB ≼ XᵀX ≼ BᵀB + ρI, where ρ is the mass that has escaped the sketch. It enters the width twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from manyarms.embeddings import Embedding
from manyarms.embeddings.linear import LinearFeatures
from manyarms.kernels import KernelLike
from manyarms.pool.pool import Pool
from manyarms.posterior.frequent_directions import FrequentDirections
from manyarms.posterior.precision import InversePrecision
from manyarms.posterior.sparse_gp import SparseGP
from manyarms.posterior.state import PosteriorState
from manyarms.posterior.update import PoolValues, Weights
from manyarms.support.validation import Floats, Ints, count


@dataclass(frozen=True, eq=False)
class SketchedState(PosteriorState):
    """A posterior's state with the sketch it rests on."""

    sketch: FrequentDirections | None = None

    @property
    def escaped(self) -> float:
        """ρ: by how much XᵀX may exceed BᵀB."""
        return 0.0 if self.sketch is None else self.sketch.escaped


class SketchedLinearModel(SparseGP):
    """Linear regression whose V is replaced by a sketch of `size` rows; the rest is inherited."""

    def __init__(
        self, pool: Pool, kernel: KernelLike, ridge: float, size: int, *, storage: DTypeLike = np.float64
    ) -> None:
        self._size = count("size", size, minimum=2)
        feature_map = LinearFeatures(kernel, pool.n_features)
        super().__init__(pool, kernel, ridge, storage=storage, residual=False, feature_map=feature_map)

    def advanced(
        self, state: PosteriorState, wanted: Ints, pulled: Ints, counts: Floats, sums: Floats
    ) -> PosteriorState:
        """Add the pulled rows to the sketch and to b; one pass over the pool for mean and variance."""
        if not len(pulled):
            return state
        state = state.writable()
        known, merged = len(state.arms), _sketched(state.merged(pulled, counts, sums))
        rows = state.shared.pulled_rows
        rows.reserve(len(merged.arms), state.sketch_size)
        rows.write(slice(known, len(merged.arms)), slice(None), state.rows(merged.arms[known:]))
        new = merged.arms[known:].tolist()
        state.shared.places.update(zip(new, range(known, len(merged.arms)), strict=True))
        assert merged.sketch is not None
        return self._on(merged.sketch.updated(state.rows(pulled), counts), merged)

    def _rebuilt_on(self, embedding: Embedding, state: PosteriorState) -> PosteriorState:
        """The columns as in any posterior, then the sketch of all pulls from nothing."""
        plain = super()._rebuilt_on(embedding, state)
        sketch = FrequentDirections(self._size, plain.sketch_size).updated(plain.pulled_rows, plain.counts)
        inherited = {field.name: getattr(plain, field.name) for field in fields(PosteriorState)}
        return self._on(sketch, SketchedState(**inherited))

    def _on(self, sketch: FrequentDirections, state: SketchedState) -> SketchedState:
        """Mean, variance and weights that follow from a sketch and the pulls in `state`."""
        ridge, d = self.ridge, state.sketch_size
        vector = sketch.apply_inverse(state.pulled_rows.T @ state.sums, ridge)
        # det V ≤ det(BᵀB + (λ + ρ)I): what the width may count on without having seen V.
        log_det = sketch.log_determinant(ridge + sketch.escaped) - d * np.log(ridge)
        mean, quadratic = np.empty(self.pool.n_arms), np.empty(self.pool.n_arms)
        embedding = self.embedding(state)
        for where, block in self.pool.blocks(bytes_per_arm=24 * d):
            Z = embedding.matrix(block)
            mean[where], quadratic[where] = Z @ vector, sketch.quadratic(Z, ridge)
        return replace(
            state,
            sketch=sketch,
            weights=Weights(_precision(sketch, ridge), vector, float(log_det)),
            pool_values=PoolValues(state.pool_values.residual, quadratic, mean),
        )

    def to_plain(self, state: PosteriorState) -> dict[str, Any]:
        """The arrays of any posterior, and the sketch."""
        sketch = _sketched(state).sketch
        assert sketch is not None
        return {
            **super().to_plain(state),
            "sketch_rows": sketch.rows,
            "sketch_escaped": np.array(sketch.escaped),
        }

    def from_plain(self, arrays: Mapping[str, Any]) -> PosteriorState:
        """The state that `to_plain` wrote."""
        state = _sketched(super().from_plain(arrays))
        rows, escaped = arrays["sketch_rows"], float(arrays["sketch_escaped"])
        return replace(state, sketch=FrequentDirections(self._size, state.sketch_size, rows, escaped))


def _sketched(state: PosteriorState) -> SketchedState:
    assert isinstance(state, SketchedState)
    return state


def _precision(sketch: FrequentDirections, ridge: float) -> InversePrecision:
    """V̂⁻¹ = (I − Σ_j s_j/(s_j + λ) u_j u_jᵀ)/λ, u_j the sketch's directions and s_j their squared lengths."""
    directions, squares = sketch.decomposed()
    terms = directions.T * np.sqrt(squares / (squares + ridge) / ridge)
    return InversePrecision(np.eye(sketch.n_features) / ridge, terms, np.full(len(squares), -1.0))
