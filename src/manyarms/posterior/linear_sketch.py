"""The linear posterior of SOFUL: V sketched by frequent directions, the reward side b exact.

    θ̂ = V̂⁻¹ Xᵀy,    σ̂²(x) = xᵀV̂⁻¹x,    V̂ = BᵀB + λI            (Kuzborskij et al. 2019; spec §1)

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
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.precision import InversePrecision
from manyarms.posterior.state import PosteriorState
from manyarms.posterior.update import PoolValues, Weights
from manyarms.support.validation import Floats, Ints, count


@dataclass(frozen=True)
class SketchedState(PosteriorState):
    """A posterior's state with the sketch it rests on."""

    sketch: FrequentDirections | None = None

    @property
    def escaped(self) -> float:
        """ρ: by how much XᵀX may exceed BᵀB."""
        return 0.0 if self.sketch is None else self.sketch.escaped


class SketchedPosterior(Posterior):
    """Linear regression whose V is replaced by a sketch of `size` rows. Everything else is as ever."""

    def __init__(
        self, pool: Pool, kernel: KernelLike, ridge: float, size: int, *, storage: DTypeLike = np.float64
    ) -> None:
        self._size = count("size", size, minimum=2)
        feature_map = LinearFeatures(kernel, pool.n_features)
        super().__init__(pool, kernel, ridge, storage=storage, residual=False, feature_map=feature_map)

    def advanced(self, wanted: Ints, pulled: Ints, counts: Floats, sums: Floats) -> PosteriorState:
        """Take the pulled rows into the sketch and b; one pass over the pool for mean and variance."""
        state, known = self._sketched(), len(self.state.arms)
        merged = self._merged(pulled, counts, sums)
        if not len(pulled):
            return merged
        rows = state.pulled_rows
        rows.reserve(len(merged.arms), state.sketch_size)
        rows.write(
            slice(known, len(merged.arms)),
            slice(None),
            state.columns.rows(merged.arms[known:], state.sketch_size),
        )
        assert state.sketch is not None
        sketch = state.sketch.updated(state.columns.rows(pulled, state.sketch_size), counts)
        return self._on(sketch, replace(state, arms=merged.arms, counts=merged.counts, sums=merged.sums))

    def _rebuilt_on(self, embedding: Embedding, state: PosteriorState) -> PosteriorState:
        """The columns as ever, then the sketch of all pulls from nothing."""
        plain = super()._rebuilt_on(embedding, state)
        rows = plain.pulled_rows.corner(len(plain.arms), plain.sketch_size)
        sketch = FrequentDirections(self._size, plain.sketch_size).updated(rows, plain.counts)
        inherited = {field.name: getattr(plain, field.name) for field in fields(PosteriorState)}
        return self._on(sketch, SketchedState(**inherited))

    def _on(self, sketch: FrequentDirections, state: SketchedState) -> SketchedState:
        """Mean, variance and weights that follow from a sketch and the pulls in `state`."""
        ridge, d = self.ridge, state.sketch_size
        target = state.pulled_rows.corner(len(state.arms), d).T @ state.sums
        vector = sketch.apply_inverse(target, ridge)
        # det V ≤ det(BᵀB + (λ + ρ)I): what the width may count on without having seen V.
        log_det = sketch.log_determinant(ridge + sketch.escaped) - d * np.log(ridge)
        mean, quadratic = np.empty(self.pool.n_arms), np.empty(self.pool.n_arms)
        for where, block in self.pool.blocks(bytes_per_arm=24 * d):
            Z = self.embedding().matrix(block)
            mean[where], quadratic[where] = Z @ vector, sketch.quadratic(Z, ridge)
        return replace(
            state,
            sketch=sketch,
            weights=Weights(_precision(sketch, ridge), vector, float(log_det)),
            pool_values=PoolValues(state.pool_values.residual, quadratic, mean),
        )

    def snapshot(self) -> dict[str, Any]:
        """The arrays of any posterior, and the sketch."""
        sketch = self._sketched().sketch
        assert sketch is not None
        return {
            **super().snapshot(),
            "sketch_rows": sketch.rows,
            "sketch_escaped": np.array(sketch.escaped),
        }

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Go to a state taken with `snapshot`."""
        super().restore(arrays)
        sketch = FrequentDirections(
            self._size, self.state.sketch_size, arrays["sketch_rows"], float(arrays["sketch_escaped"])
        )
        self.state = replace(self._sketched(), sketch=sketch)

    def _sketched(self) -> SketchedState:
        assert isinstance(self.state, SketchedState)
        return self.state


def _precision(sketch: FrequentDirections, ridge: float) -> InversePrecision:
    """V̂⁻¹ = (I − Σ_j s_j/(s_j + λ) u_j u_jᵀ)/λ, u_j the sketch's directions and s_j their squared lengths."""
    directions, squares = sketch.decomposed()
    terms = directions.T * np.sqrt(squares / (squares + ridge) / ridge)
    return InversePrecision(np.eye(sketch.n_features) / ridge, terms, np.full(len(squares), -1.0))
