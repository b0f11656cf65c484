"""The sparse Gaussian process over a whole pool, as functions from one posterior state to the next.

    mean      μ̃(x)  = z(x)ᵀ V⁻¹ b                                       (BKB (4), BBKB (1) with Zᵀy)
    leverage  σ̃²(x) = (k(x,x) − ‖z(x)‖²)/λ + z(x)ᵀ V⁻¹ z(x)            (BKB (4), BBKB (2); theory §2.2)

`SparseGP` holds what stays fixed: pool, kernel, ridge and storage. What depends on the pulls is a
`PosteriorState` (state.py, which also explains the two scales of σ̃²). No method modifies a state it is given.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from manyarms.embeddings import Embedding, Nystrom
from manyarms.embeddings.nystrom import (
    MOST_GROWTH,
    SPAN_TOLERANCE,
    covariances,
    independent_subset,
    span_tolerance,
)
from manyarms.errors import InvalidKernelError, InvalidParameterError
from manyarms.kernels import KernelLike, as_kernel
from manyarms.pool.pool import Pool
from manyarms.posterior.precision import InversePrecision
from manyarms.posterior.state import PosteriorState, SharedArrays, added
from manyarms.posterior.update import Border, PoolValues, PulledArms, Pulls, Weights, new_columns
from manyarms.support.column_store import Columns
from manyarms.support.growing_matrix import GrowingMatrix
from manyarms.support.linalg import forward, inverse_lower
from manyarms.support.validation import Floats, Ints, positive

SMALLEST_RIDGE = 1e-13  # as a fraction of the largest prior variance
_STATE_ARRAYS = ("inducing", "arms", "counts", "sums")
_POOL_ARRAYS = ("residual", "quadratic", "mean")
_PRECISION_ARRAYS = ("base", "terms", "signs")


class SparseGP:
    """A kernel and a ridge on a pool; the methods compute posterior states. `Posterior` explains the options.

    Existing states are never written to: new columns and rows are stored after the part that they read.
    """

    def __init__(
        self,
        pool: Pool,
        kernel: KernelLike,
        ridge: float,
        *,
        storage: DTypeLike = np.float64,
        residual: bool = True,
        feature_map: Embedding | None = None,
    ) -> None:
        self.pool, self.feature_map, self.keeps_residual = pool, feature_map, residual
        self.kernel = as_kernel(kernel)
        self.ridge = positive("ridge", ridge)
        if storage not in (np.float64, np.float32, "float64", "float32", *SPAN_TOLERANCE):
            raise InvalidParameterError("storage", storage, "float64 or float32")
        self.storage = np.dtype(storage)

    def empty(self) -> PosteriorState:
        """The state before any pull: mean 0, leverage k/λ, and an empty sketch or the fixed feature map."""
        prior = np.concatenate([self._prior(block) for _, block in self.pool.blocks(bytes_per_arm=64)])
        if not prior.any():
            raise InvalidKernelError(f"{self.kernel!r}.diag is 0 for every arm: nothing can be learned")
        largest = float(prior.max())
        if self.ridge < SMALLEST_RIDGE * largest:
            rule = f"at least {SMALLEST_RIDGE:g} of the kernel's largest variance {largest:g}"
            raise InvalidParameterError("ridge", self.ridge, f"{rule}; below it, rounding errors dominate")
        none, nothing = np.empty(0, dtype=np.int64), np.empty(0)
        state = PosteriorState(
            inducing=none,
            arms=none,
            counts=nothing,
            sums=nothing,
            weights=Weights(InversePrecision.of(np.empty((0, 0))), nothing, 0.0),
            pool_values=PoolValues(prior.copy(), np.zeros_like(prior), np.zeros_like(prior)),
            prior=prior,
            prior_max=largest,
            ridge=self.ridge,
            shared=SharedArrays(Columns(len(prior), self.storage), GrowingMatrix(0)),
            keeps_residual=self.keeps_residual,
        )
        return state if self.feature_map is None else self._rebuilt_on(self.feature_map, state)

    # ------------------------------------------------------------------ reading

    def embedding(self, state: PosteriorState) -> Embedding:
        """z as a function of the features, also at points outside the pool."""
        if self.feature_map is not None:
            return self.feature_map
        return Nystrom(self.kernel, self.pool.take(state.inducing), np.tril(state.rows(state.inducing)))

    def values_at(self, state: PosteriorState, Z: Floats, prior: Floats) -> PoolValues:
        """Residual, zᵀV⁻¹z and mean at n points with rows of z (n × m) and prior variances (n)."""
        quadratic = np.einsum("ij,ji->i", Z, state.weights.precision.apply(Z.T))
        residual = np.maximum(prior - np.einsum("ij,ij->i", Z, Z), 0.0)
        return PoolValues(residual, np.maximum(quadratic, 0.0), Z @ state.weights.vector)

    def at(self, state: PosteriorState, features: Any) -> tuple[Floats, Floats]:
        """Mean and variance (squared reward units) at these feature rows, in the pool or not."""
        values = self.values_at(state, self.embedding(state).matrix(features), self._prior(features))
        explained = self.ridge * values.quadratic
        return values.mean, explained + values.residual if state.keeps_residual else explained

    # ------------------------------------------------------------------ one step

    def advanced(
        self, state: PosteriorState, wanted: Ints, pulled: Ints, counts: Floats, sums: Floats
    ) -> PosteriorState:
        """The state after appending inducing arms and conditioning on pulls, in one pass over the pool.

        `wanted` are the inducing arms to append and `pulled` the arms pulled, both valid and without
        repetition; `counts` and `sums` hold the number of pulls and the reward sum of each of `pulled`.
        """
        with state.writing() as own:
            return self._advanced(own, wanted, pulled, counts, sums)

    def _advanced(
        self, state: PosteriorState, wanted: Ints, pulled: Ints, counts: Floats, sums: Floats
    ) -> PosteriorState:
        m, known = state.sketch_size, len(state.arms)
        seen, places = state.with_places(pulled)
        store = state.shared.pulled_rows
        store.reserve(len(seen), m + len(wanted))
        store.write(slice(known, len(seen)), slice(0, m), state.rows(seen[known:]))
        state.shared.places.update(zip(seen[known:].tolist(), range(known, len(seen)), strict=True))
        weights, forms, border, pulls = state.weights, [], None, None
        accepted, at_seen = np.empty(0, dtype=np.int64), np.empty((0, len(seen)))

        chosen = self._independent(state, wanted)
        if chosen is not None:
            accepted, rows, factor = chosen
            outside = np.flatnonzero(state.pool_values.residual[state.arms] > 0)
            border, at_seen = self._border(state, accepted, rows, factor, seen, outside)
            weights = border.extend(weights, self.ridge)
            forms += [rows.T, border.H] if len(outside) else [rows.T]
        if len(pulled):
            rows = store.corner(len(seen), m + len(accepted))[places]
            pulls = Pulls.plan(weights, PulledArms(rows, counts, sums))
            weights = pulls.apply(weights, counts)
            forms.append(pulls.G[:m])

        values = state.pool_values
        if forms:
            values = self._pass_over_pool(
                state,
                np.hstack(forms),
                border=border,
                pulls=pulls,
                accepted=accepted,
                seen=seen,
                at_seen=at_seen,
            )
        return replace(
            state,
            inducing=np.concatenate([state.inducing, accepted]),
            arms=seen,
            counts=added(state.counts, len(seen), places, counts),
            sums=added(state.sums, len(seen), places, sums),
            weights=weights,
            pool_values=values,
        )

    def _border(
        self, state: PosteriorState, accepted: Ints, rows: Floats, factor: Floats, seen: Ints, outside: Ints
    ) -> tuple[Border, Floats]:
        """The update of V by the new columns, and these columns at all pulled arms (a × P), which are stored.

        A new column is zero at arms in the span, so it is computed only at the pulled arms `outside` the
        span (positions in `state.arms`) and at those pulled in this step.
        """
        store, m, known = state.shared.pulled_rows, state.sketch_size, len(state.arms)
        touched = np.concatenate([outside, np.arange(known, len(seen))])
        features = self.pool.features
        gram = self._covariances(features[accepted], features[seen[touched]])
        at_touched = forward(factor, gram - rows @ store.corner(len(seen), m)[touched].T)
        at_seen = np.zeros((len(accepted), len(seen)))
        at_seen[:, touched] = at_touched
        store.write(slice(0, len(seen)), slice(m, m + len(accepted)), at_seen.T)
        before = PulledArms(store.corner(known, m)[outside], state.counts[outside], state.sums[outside])
        return Border.plan(state.weights, self.ridge, before, factor, at_touched[:, : len(outside)]), at_seen

    def _independent(self, state: PosteriorState, wanted: Ints) -> tuple[Ints, Floats, Floats] | None:
        """The wanted arms that extend the span, their rows of z, and their residual covariance's factor."""
        tolerance = SPAN_TOLERANCE[self.storage]
        wanted = wanted[state.pool_values.residual[wanted] > tolerance * state.prior[wanted]]
        wanted = wanted[self._outside_span(state, wanted)]
        if not len(wanted):
            return None
        rows = state.rows(wanted)
        if len(wanted) == 1:  # the common case
            gram = (state.prior[wanted] - np.einsum("ij,ij->i", rows, rows)).reshape(1, 1)
        else:
            points = self.pool.take(wanted)
            gram = self._covariances(points, points) - rows @ rows.T
        chosen, factor = independent_subset(gram, state.prior[wanted], tolerance)
        return (wanted[chosen], rows[chosen], factor) if len(chosen) else None

    def _outside_span(self, state: PosteriorState, arms: Ints) -> NDArray[np.bool_]:
        """Whether the residual of each arm exceeds rounding error; only unclear cases cost more than O(1)."""
        share = state.pool_values.residual[arms] / state.prior[arms]
        outside = share > MOST_GROWTH * SPAN_TOLERANCE[self.storage]
        unclear = np.flatnonzero(~outside)
        if len(unclear) and state.sketch_size:
            factor, rows = np.tril(state.rows(state.inducing)), state.rows(arms[unclear])
            outside[unclear] = share[unclear] > span_tolerance(factor, rows, SPAN_TOLERANCE[self.storage])
        return outside

    def _pass_over_pool(
        self,
        state: PosteriorState,
        forms: Floats,
        *,
        border: Border | None,
        pulls: Pulls | None,
        accepted: Ints,
        seen: Ints,
        at_seen: Floats,
    ) -> PoolValues:
        """One pass over all arms: the linear forms of z, the new columns, and the updated values per arm."""
        m, a, u = state.sketch_size, len(accepted), 0 if pulls is None else len(pulls.gain)
        if border is not None:
            state.columns.reserve(m + a)
            points = self.pool.features[accepted]
        parts = []
        for where, block in self.pool.blocks(bytes_per_arm=8 * (3 * forms.shape[1] + 4 * a + 8)):
            products = state.columns.product(forms, where)
            now = PoolValues(*(getattr(state.pool_values, name)[where] for name in _POOL_ARRAYS))
            if border is not None:
                new = new_columns(border, self._covariances(block, points).T, products[:a])
                new = new.astype(self.storage).astype(np.float64)
                inside = (seen >= where.start) & (seen < where.stop)
                new[:, seen[inside] - where.start] = at_seen[:, inside]
                state.columns.write(where, m, new.T)
                now = now.bordered(border, products[a:-u] if u else products[a:], new)
            if pulls is not None:
                projections = products[-u:]
                if border is not None:
                    projections = projections + pulls.G[m:].T @ new
                now = now.pulled(pulls, projections)
            parts.append(now)
        values = parts[0] if len(parts) == 1 else _joined(parts)
        if border is not None:
            values.residual[accepted] = 0.0
        return values

    # ------------------------------------------------------------------ from scratch, and on more arms

    def rebuilt(
        self, state: PosteriorState, wanted: Ints, pulled: Ints, counts: Floats, sums: Floats
    ) -> PosteriorState:
        """The sketch rebuilt on the `wanted` arms (compaction), with all pulls of `state` and those given.

        The arguments are those of `advanced`. The cost is O(A·m²).
        """
        merged = state.merged(pulled, counts, sums)
        if self.feature_map is not None:
            return self._rebuilt_on(self.feature_map, merged)
        points = self.pool.take(wanted)
        gram, prior = self._covariances(points, points), state.prior[wanted]
        chosen, factor = independent_subset(gram, prior, SPAN_TOLERANCE[self.storage])
        return self._rebuilt_on(
            Nystrom(self.kernel, points[chosen], factor), replace(merged, inducing=wanted[chosen])
        )

    def _rebuilt_on(self, embedding: Embedding, state: PosteriorState) -> PosteriorState:
        """The state with the pulls and inducing arms of `state`, everything else computed from scratch."""
        m = embedding.dimension
        pulled_rows = embedding.matrix(self.pool.take(state.arms))
        V = (pulled_rows.T * state.counts) @ pulled_rows + self.ridge * np.eye(m)
        inverse_factor = inverse_lower(V)
        precision = InversePrecision.of(V)
        vector = precision.apply((pulled_rows.T @ state.sums)[:, None])[:, 0]
        log_det = max(0.0, float(-2.0 * np.log(np.diag(inverse_factor)).sum() - m * np.log(self.ridge)))
        columns = Columns(self.pool.n_arms, self.storage, m)
        values = _empty_values(self.pool.n_arms)
        for where, block in self.pool.blocks(bytes_per_arm=8 * (3 * m + 8)):
            Z = embedding.matrix(block)
            columns.write(where, 0, Z)
            values.residual[where] = np.maximum(state.prior[where] - np.einsum("ij,ij->i", Z, Z), 0.0)
            whitened = inverse_factor @ Z.T
            values.quadratic[where] = np.einsum("ij,ij->j", whitened, whitened)
            values.mean[where] = Z @ vector
        weights = Weights(precision, vector, log_det)
        return replace(
            state, weights=weights, pool_values=values, shared=_shared(columns, pulled_rows, state.arms)
        )

    def refitted(self, state: PosteriorState, places: Ints, sums: Floats) -> PosteriorState:
        """The state with other reward sums at some `places` (positions in `state.arms`).

        Counts and variances do not change; the mean takes one pass over the pool.
        """
        replaced = state.sums.copy()
        replaced[places] = sums
        vector = state.weights.precision.apply((state.pulled_rows.T @ replaced)[:, None])[:, 0]
        return replace(
            state,
            sums=replaced,
            weights=replace(state.weights, vector=vector),
            pool_values=replace(state.pool_values, mean=state.forms(vector[:, None])[0]),
        )

    def on(self, pool: Pool) -> SparseGP:
        """The same process on a larger pool that begins with the present arms (`Pool.extended`)."""
        if pool.n_arms < self.pool.n_arms:
            rule = f"a pool that begins with the present {self.pool.n_arms} arms"
            raise InvalidParameterError("pool", pool, rule)
        other = copy.copy(self)
        other.pool = pool
        return other

    def extended(self, state: PosteriorState, before: int) -> PosteriorState:
        """Extend a state that covers the first `before` arms to all arms of this pool."""
        n_arms, m = self.pool.n_arms, state.sketch_size
        columns = Columns(n_arms, self.storage, m)
        columns.write_parts(slice(0, before), state.columns.parts(m))
        prior, values = np.empty(n_arms), _empty_values(n_arms)
        prior[:before] = state.prior
        for name in _POOL_ARRAYS:
            getattr(values, name)[:before] = getattr(state.pool_values, name)
        embedding = self.embedding(state)
        for where, block in self.pool.blocks(bytes_per_arm=8 * (5 * m + 8), first=before):
            prior[where], Z = self._prior(block), embedding.matrix(block)
            columns.write(where, 0, Z)
            now = self.values_at(state, Z, prior[where])
            for name in _POOL_ARRAYS:
                getattr(values, name)[where] = getattr(now, name)
        shared = _shared(columns, state.pulled_rows, state.arms)
        return replace(state, prior=prior, prior_max=float(prior.max()), pool_values=values, shared=shared)

    # ------------------------------------------------------------------ saving

    def to_plain(self, state: PosteriorState) -> dict[str, Any]:
        """Every array that the next step reads, by name; `from_plain` restores the state bit for bit."""
        return {
            **{name: getattr(state, name) for name in _STATE_ARRAYS},
            **{name: getattr(state.pool_values, name) for name in _POOL_ARRAYS},
            **{name: getattr(state.weights.precision, name) for name in _PRECISION_ARRAYS},
            "vector": state.weights.vector,
            "log_det": np.array(state.weights.log_det),
            **{f"columns_{i}": part for i, part in enumerate(state.columns.parts(state.sketch_size))},
            "pulled_rows": state.pulled_rows,
        }

    def from_plain(self, arrays: Mapping[str, Any]) -> PosteriorState:
        """The state that `to_plain` wrote for a process with the same pool, kernel and ridge."""
        precision = InversePrecision(*(arrays[name] for name in _PRECISION_ARRAYS))
        columns = Columns(self.pool.n_arms, self.storage, len(arrays["vector"]))
        parts = sum(name.startswith("columns_") for name in arrays)
        columns.write_parts(slice(None), [arrays[f"columns_{i}"] for i in range(parts)])
        return replace(
            self.empty(),
            **{name: arrays[name] for name in _STATE_ARRAYS},
            pool_values=PoolValues(*(arrays[name] for name in _POOL_ARRAYS)),
            weights=Weights(precision, arrays["vector"], float(arrays["log_det"])),
            shared=_shared(columns, arrays["pulled_rows"], arrays["arms"]),
        )

    # ------------------------------------------------------------------ helpers

    def _covariances(self, X: Any, Y: Any) -> Floats:
        return covariances(self.kernel, X, Y)

    def _prior(self, features: Any) -> Floats:
        prior = np.asarray(self.kernel.diag(features), dtype=np.float64)
        if prior.shape != (len(features),):
            raise InvalidKernelError(
                f"{self.kernel!r}.diag gave shape {prior.shape} for {len(features)} arms"
            )
        wrong = ~(np.isfinite(prior) & (prior >= 0))
        if wrong.any():
            raise InvalidKernelError(
                f"{self.kernel!r}.diag gave {prior[wrong][0]}, a variance must be finite and ≥ 0"
            )
        return prior


def _shared(columns: Columns, pulled_rows: Floats, arms: Ints) -> SharedArrays:
    places = {arm: place for place, arm in enumerate(arms.tolist())}
    return SharedArrays(columns, GrowingMatrix.holding(pulled_rows), places)


def _joined(parts: list[PoolValues]) -> PoolValues:
    return PoolValues(*(np.concatenate([getattr(part, name) for part in parts]) for name in _POOL_ARRAYS))


def _empty_values(n_arms: int) -> PoolValues:
    return PoolValues(np.empty(n_arms), np.empty(n_arms), np.empty(n_arms))
