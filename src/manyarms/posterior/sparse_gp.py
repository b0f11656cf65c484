"""The sparse Gaussian process over a whole pool, as functions from one posterior state to the next.

    mean      μ̃(x)  = z(x)ᵀ V⁻¹ b                                       (BKB (4), BBKB (1) with Zᵀy)
    leverage  σ̃²(x) = (k(x,x) − ‖z(x)‖²)/λ + z(x)ᵀ V⁻¹ z(x)            (BKB (4), BBKB (2); theory §2.2)

`SparseGP` holds what stays fixed: pool, kernel, ridge and storage. What depends on the pulls is a
`PosteriorState` (state.py, which also explains the two scales of σ̃²). No method modifies a state it is given.
This is the small side of the posterior: what has the length of the pool is held by shards (shard.py), which
receive one small message for each step.
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
from manyarms.engines.base import Engine, Shards
from manyarms.engines.local import DEFAULT
from manyarms.errors import InvalidKernelError, InvalidParameterError
from manyarms.kernels import KernelLike, as_kernel
from manyarms.pool.pool import Pool
from manyarms.posterior.over_pool import OverPool
from manyarms.posterior.pool_step import ByFactor, ByPrecision, LeverageScale, Rebuild, Start, Step
from manyarms.posterior.precision import InversePrecision
from manyarms.posterior.shard import VALUES, Shard, prior_variances
from manyarms.posterior.state import PosteriorState, SharedArrays, added
from manyarms.posterior.update import Border, PulledArms, Pulls, Weights
from manyarms.support.growing_matrix import GrowingMatrix
from manyarms.support.linalg import forward, inverse_lower
from manyarms.support.threads import one_thread
from manyarms.support.validation import Floats, Ints, positive

SMALLEST_RIDGE = 1e-13  # as a fraction of the largest prior variance
_STATE_ARRAYS = ("inducing", "arms", "counts", "sums")
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
        self._engine: Engine = DEFAULT
        self._shards: Shards | None = None

    def placed_on(self, engine: Engine) -> SparseGP:
        """The same process with its shards on this engine."""
        other = copy.copy(self)
        other._engine, other._shards = engine, None
        return other

    @property
    def shards(self) -> Shards:
        """The shards that hold the arms; they are placed at first use."""
        if self._shards is None:
            self._shards = self._engine.place(self.pool, Shard)
        return self._shards

    def empty(self) -> PosteriorState:
        """The state before any pull: mean 0, leverage k/λ, and an empty sketch or the fixed feature map."""
        state = self.started()
        return state if self.feature_map is None else self._rebuilt_on(self.feature_map, state)

    def started(self) -> PosteriorState:
        """The state before any pull, with an empty sketch."""
        start = Start(self.kernel, self.storage, self.pool.n_arms)
        over_pool = OverPool.started(self.shards, start, self.ridge, self.keeps_residual)
        largest = over_pool.prior_max
        if not largest:
            raise InvalidKernelError(f"{self.kernel!r}.diag is 0 for every arm: nothing can be learned")
        if self.ridge < SMALLEST_RIDGE * largest:
            rule = f"at least {SMALLEST_RIDGE:g} of the kernel's largest variance {largest:g}"
            raise InvalidParameterError("ridge", self.ridge, f"{rule}; below it, rounding errors dominate")
        none, nothing = np.empty(0, dtype=np.int64), np.empty(0)
        return PosteriorState(
            inducing=none,
            groups=(),
            arms=none,
            counts=nothing,
            sums=nothing,
            pulled_residual=nothing,
            weights=Weights(InversePrecision.of(np.empty((0, 0))), nothing, 0.0),
            over_pool=over_pool,
            ridge=self.ridge,
            shared=SharedArrays(GrowingMatrix(0)),
            keeps_residual=self.keeps_residual,
        )

    # ------------------------------------------------------------------ reading

    def embedding(self, state: PosteriorState) -> Embedding:
        """z as a function of the features, also at points outside the pool."""
        if self.feature_map is not None:
            return self.feature_map
        return Nystrom(self.kernel, self.pool.take(state.inducing), np.tril(state.rows(state.inducing)))

    def at(self, state: PosteriorState, features: Any) -> tuple[Floats, Floats]:
        """Mean and variance (squared reward units) at these feature rows, in the pool or not."""
        rule = ByPrecision(state.weights.precision, state.weights.vector)
        values = rule.values(self.embedding(state).matrix(features), prior_variances(self.kernel, features))
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
        m = state.sketch_size
        seen, places, residual = self._stored(state, pulled, room=len(wanted))
        weights, forms, border, pulls, points = state.weights, [], None, None, None
        accepted, at_seen = np.empty(0, dtype=np.int64), np.empty((0, len(seen)))

        chosen = self._independent(state, wanted)
        if chosen is not None:
            accepted, rows, factor = chosen
            points = self.pool.take(accepted)
            outside = np.flatnonzero(state.pulled_residual > 0)
            border, at_seen = self._border(state, points, rows, factor, seen, outside)
            weights = border.extend(weights, self.ridge)
            forms += [rows.T, border.H] if len(outside) else [rows.T]
            residual = np.maximum(residual - np.einsum("ij,ij->j", at_seen, at_seen), 0.0)
            residual[_places_in(seen, state, accepted)] = 0.0
        if len(pulled):
            rows = state.shared.pulled_rows.corner(len(seen), m + len(accepted))[places]
            pulls = Pulls.plan(weights, PulledArms(rows, counts, sums))
            weights = pulls.apply(weights, counts)
            forms.append(pulls.G[:m])

        over_pool, all_counts = state.over_pool, added(state.counts, len(seen), places, counts)
        if forms:
            scale = self.leverage_scale(state, all_counts)
            over_pool = over_pool.advanced(
                Step(np.concatenate(forms, axis=1), scale, border, pulls, accepted, points, seen, at_seen)
            )
        return state.followed_by(
            inducing=np.concatenate([state.inducing, accepted]) if len(accepted) else state.inducing,
            groups=(*state.groups, len(accepted)) if len(accepted) else state.groups,
            arms=seen,
            counts=all_counts,
            sums=added(state.sums, len(seen), places, sums),
            pulled_residual=residual,
            weights=weights,
            over_pool=over_pool,
            grouped=None,
        )

    def _stored(self, state: PosteriorState, pulled: Ints, room: int) -> tuple[Ints, Ints, Floats]:
        """Store z of the arms that are pulled for the first time, with room for more columns.

        Returns all arms pulled, the places of `pulled` among them, and the residual of each arm.
        """
        known = len(state.arms)
        seen, places = state.with_places(pulled)
        new, store = seen[known:], state.shared.pulled_rows
        store.reserve(len(seen), state.sketch_size + room)
        if not len(new):
            return seen, places, state.pulled_residual
        store.write(slice(known, len(seen)), slice(0, state.sketch_size), state.rows(new))
        state.shared.places.update(zip(new.tolist(), range(known, len(seen)), strict=True))
        return seen, places, np.concatenate([state.pulled_residual, state.at(new).residual])

    def _border(
        self, state: PosteriorState, points: Any, rows: Floats, factor: Floats, seen: Ints, outside: Ints
    ) -> tuple[Border, Floats]:
        """The update of V by the new columns, and these columns at all pulled arms (a × P), which are stored.

        A new column is zero at arms in the span, so it is computed only at the pulled arms `outside` the
        span (positions in `state.arms`) and at those pulled in this step.
        """
        store, m, known = state.shared.pulled_rows, state.sketch_size, len(state.arms)
        touched = np.concatenate([outside, np.arange(known, len(seen))])
        gram = self._covariances(points, self.pool.take(seen[touched]))
        at_touched = forward(factor, gram - rows @ store.corner(len(seen), m)[touched].T)
        at_seen = np.zeros((len(points), len(seen)))
        at_seen[:, touched] = at_touched
        store.write(slice(0, len(seen)), slice(m, m + len(points)), at_seen.T)
        before = PulledArms(store.corner(known, m)[outside], state.counts[outside], state.sums[outside])
        return Border.plan(state.weights, self.ridge, before, factor, at_touched[:, : len(outside)]), at_seen

    def _independent(self, state: PosteriorState, wanted: Ints) -> tuple[Ints, Floats, Floats] | None:
        """The wanted arms that extend the span, their rows of z, and their residual covariance's factor."""
        if not len(wanted):
            return None
        tolerance, known = SPAN_TOLERANCE[self.storage], state.at(wanted)
        outside = known.residual > tolerance * known.prior
        share = known.residual[outside] / known.prior[outside]
        outside[outside] = self._outside_span(state, wanted[outside], share)
        wanted, prior = wanted[outside], known.prior[outside]
        if not len(wanted):
            return None
        rows = state.rows(wanted)
        if len(wanted) == 1:  # the common case
            gram = (prior - np.einsum("ij,ij->i", rows, rows)).reshape(1, 1)
        else:
            points = self.pool.take(wanted)
            gram = self._covariances(points, points) - rows @ rows.T
        chosen, factor = independent_subset(gram, prior, tolerance)
        return (wanted[chosen], rows[chosen], factor) if len(chosen) else None

    def _outside_span(self, state: PosteriorState, arms: Ints, share: Floats) -> NDArray[np.bool_]:
        """Whether the residual of each arm exceeds rounding error; only unclear cases cost more than O(1).

        `share` is the residual as a share of the prior variance.
        """
        outside = share > MOST_GROWTH * SPAN_TOLERANCE[self.storage]
        unclear = np.flatnonzero(~outside)
        if len(unclear) and state.sketch_size:
            factor, rows = np.tril(state.rows(state.inducing)), state.rows(arms[unclear])
            outside[unclear] = share[unclear] > span_tolerance(factor, rows, SPAN_TOLERANCE[self.storage])
        return outside

    def leverage_scale(self, state: PosteriorState, counts: Floats) -> LeverageScale:
        """What turns values into leverage once arms were pulled so often."""
        return LeverageScale(self.ridge, int(counts.sum()), state.prior_max, self.keeps_residual)

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
        gram, prior = self._covariances(points, points), state.at(wanted).prior
        chosen, factor = independent_subset(gram, prior, SPAN_TOLERANCE[self.storage])
        return self._rebuilt_on(
            Nystrom(self.kernel, points[chosen], factor),
            replace(merged, inducing=wanted[chosen], groups=(len(chosen),)),
        )

    def _rebuilt_on(self, embedding: Embedding, state: PosteriorState) -> PosteriorState:
        """The state with the pulls and inducing arms of `state`, everything else computed from scratch."""
        rows = embedding.matrix(self.pool.take(state.arms))
        weights, rule = self.weights_from(rows, state)
        prior, scale = state.at(state.arms).prior, self.leverage_scale(state, state.counts)
        return replace(
            state,
            weights=weights,
            pulled_residual=np.maximum(prior - np.einsum("ij,ij->i", rows, rows), 0.0),
            over_pool=state.over_pool.rebuilt(Rebuild(embedding, rule, scale)),
            shared=SharedArrays.of(rows, state.arms),
            grouped=None,
        )

    def weights_from(self, rows: Floats, state: PosteriorState) -> tuple[Weights, ByFactor]:
        """V⁻¹ and w from all pulls, whose z are `rows`, and how the values of any arm follow from them."""
        m = rows.shape[1]
        with one_thread():  # of the size of the sketch: several threads would only wait for each other
            V = (rows.T * state.counts) @ rows + self.ridge * np.eye(m)
            inverse_factor = inverse_lower(V)
            precision = InversePrecision.of(V)
            vector = precision.apply((rows.T @ state.sums)[:, None])[:, 0]
        log_det = max(0.0, float(-2.0 * np.log(np.diag(inverse_factor)).sum() - m * np.log(self.ridge)))
        return Weights(precision, vector, log_det), ByFactor(inverse_factor, vector)

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
            grouped=None,
            weights=replace(state.weights, vector=vector),
            over_pool=state.over_pool.refitted(vector),
        )

    def on(self, pool: Pool) -> SparseGP:
        """The same process on a larger pool that begins with the present arms (`Pool.extended`)."""
        if pool.n_arms < self.pool.n_arms:
            rule = f"a pool that begins with the present {self.pool.n_arms} arms"
            raise InvalidParameterError("pool", pool, rule)
        other = copy.copy(self)
        other.pool, other._shards = pool, None
        return other

    def extended(self, state: PosteriorState, before: int) -> PosteriorState:
        """Extend a state that covers the first `before` arms to all arms of this pool."""
        over_pool = self.started().over_pool
        scale = LeverageScale(self.ridge, state.pulls, over_pool.prior_max, self.keeps_residual)
        arrays = self._pool_arrays(state) | {
            "embedding": self.embedding(state),
            "rule": ByPrecision(state.weights.precision, state.weights.vector),
        }
        shared = SharedArrays.of(state.pulled_rows, state.arms)
        return replace(state, over_pool=over_pool.restored(arrays, scale), shared=shared, grouped=None)

    # ------------------------------------------------------------------ saving

    def to_plain(self, state: PosteriorState) -> dict[str, Any]:
        """Every array that the next step reads, by name; `from_plain` restores the state bit for bit."""
        pool = self._pool_arrays(state)
        return {
            **{name: getattr(state, name) for name in _STATE_ARRAYS},
            **{name: pool[name] for name in VALUES},
            **{name: getattr(state.weights.precision, name) for name in _PRECISION_ARRAYS},
            "vector": state.weights.vector,
            "log_det": np.array(state.weights.log_det),
            "groups": np.array(state.groups, dtype=np.int64),
            **{f"columns_{i}": part for i, part in enumerate(pool["columns"])},
            "pulled_rows": state.pulled_rows,
            "pulled_residual": state.pulled_residual,
        }

    def from_plain(self, arrays: Mapping[str, Any]) -> PosteriorState:
        """The state that `to_plain` wrote for a process with the same pool, kernel and ridge."""
        precision = InversePrecision(*(arrays[name] for name in _PRECISION_ARRAYS))
        parts = sum(name.startswith("columns_") for name in arrays)
        pool = {name: arrays[name] for name in VALUES}
        pool |= {"columns": [arrays[f"columns_{i}"] for i in range(parts)], "size": len(arrays["vector"])}
        started = self.started()
        residual = arrays.get("pulled_residual")  # missing in files of earlier versions
        return replace(
            started,
            **{name: arrays[name] for name in _STATE_ARRAYS},
            groups=_groups(arrays),
            pulled_residual=arrays["residual"][arrays["arms"]] if residual is None else residual,
            weights=Weights(precision, arrays["vector"], float(arrays["log_det"])),
            over_pool=started.over_pool.restored(pool, self.leverage_scale(started, arrays["counts"])),
            shared=SharedArrays.of(arrays["pulled_rows"], arrays["arms"]),
        )

    # ------------------------------------------------------------------ helpers

    def _pool_arrays(self, state: PosteriorState) -> dict[str, Any]:
        """The columns and values of every arm."""
        over_pool = state.over_pool
        values = {name: over_pool.whole(name) for name in VALUES}
        return {**values, "columns": over_pool.columns(), "size": state.sketch_size}

    def _covariances(self, X: Any, Y: Any) -> Floats:
        return covariances(self.kernel, X, Y)


def _groups(arrays: Mapping[str, Any]) -> tuple[int, ...]:
    """The groups of a saved state; files of earlier versions have none, and theirs count as one group."""
    if "groups" in arrays:
        return tuple(arrays["groups"].tolist())
    return (len(arrays["inducing"]),) if len(arrays["inducing"]) else ()


def _places_in(seen: Ints, state: PosteriorState, arms: Ints) -> list[int]:
    """The places among the arms pulled of those of these arms that were pulled."""
    places = [(arm, state.shared.places.get(arm, -1)) for arm in arms.tolist()]
    return [place for arm, place in places if 0 <= place < len(seen) and seen[place] == arm]
