"""The sparse Gaussian-process posterior over a whole pool, kept up to date step by step.

    mean      μ̃(x)  = z(x)ᵀ V⁻¹ b                                       (BKB (4), BBKB (1) with Zᵀy)
    leverage  σ̃²(x) = (k(x,x) − ‖z(x)‖²)/λ + z(x)ᵀ V⁻¹ z(x)              (BKB (2), BBKB (2); spec §1)

The state itself, and the two scales of σ̃², are in `state.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

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
from manyarms.posterior.history import grouped
from manyarms.posterior.precision import InversePrecision
from manyarms.posterior.state import PosteriorState
from manyarms.posterior.update import Border, PoolValues, PulledArms, Pulls, Weights, new_columns
from manyarms.support.column_store import Columns
from manyarms.support.growing_matrix import GrowingMatrix
from manyarms.support.linalg import forward, inverse_lower
from manyarms.support.validation import Floats, Ints, arm_indices, finite_rewards, positive

SMALLEST_RIDGE = 1e-13  # of the largest prior variance
_STATE_ARRAYS = ("inducing", "arms", "counts", "sums")
_POOL_ARRAYS = ("residual", "quadratic", "mean")
_PRECISION_ARRAYS = ("base", "terms", "signs")


class Posterior:
    """The owner of the big arrays: z of every arm (A × m) and, per arm, mean and leverage.

    It starts with an empty sketch (mean 0, leverage k/λ). `update` appends inducing arms and conditions
    on pulls together, in one pass over the pool. Every method checks its input before anything changes
    and then replaces `state` in one assignment, so a call that fails, or is interrupted, leaves the
    posterior as it was.

    `residual=False` drops the first term of the leverage: the subset of regressors (SoR), which grows
    overconfident away from its inducing arms. It is here to be compared with, not to be used.

    `storage="float32"` halves the memory of the columns. The variance is then within 1e-5 of the prior
    variance k, and the mean within 1e-4·(1 + k/λ)·max|reward|, of the values in double precision on the
    same inducing arms; among near-duplicate arms the variance is within 1e-3 of k. A smooth kernel on one
    or two features, whose inducing arms are nearly dependent, loses more, up to 3e-2 of k: use float64
    there (tests/agreement/test_single_precision.py).

    `feature_map`, an embedding that needs no inducing arms (eigenfunctions, Fourier features, a projection),
    takes the place of the Nyström sketch for good; there is then nothing to append.
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
        self.pool, self.feature_map = pool, feature_map
        self.kernel = as_kernel(kernel)
        self.ridge = positive("ridge", ridge)
        if storage not in (np.float64, np.float32, "float64", "float32", *SPAN_TOLERANCE):
            raise InvalidParameterError("storage", storage, "float64 or float32")
        self.storage = np.dtype(storage)
        self._slots = np.full(pool.n_arms, -1, dtype=np.int64)
        self.state = self._empty_state(residual)
        if self.ridge < SMALLEST_RIDGE * self.state.prior_max:
            rule = f"at least {SMALLEST_RIDGE:g} of the kernel's largest variance {self.state.prior_max:g}"
            raise InvalidParameterError("ridge", ridge, f"{rule}: below it rounding decides")
        if feature_map is not None:
            self.state = self._rebuilt_on(feature_map, self.state)

    # ------------------------------------------------------------------ reading

    @property
    def mean(self) -> Floats:
        """μ̃ of every arm."""
        return self.state.mean

    @property
    def leverage(self) -> Floats:
        """σ̃² of every arm, ridge-leverage scale."""
        return self.state.leverage

    @property
    def variance(self) -> Floats:
        """λσ̃² of every arm, squared reward units."""
        return self.state.variance

    @property
    def inducing(self) -> Ints:
        """The arms that span the sketch."""
        return self.state.inducing

    def rows(self, arms: ArrayLike) -> Floats:
        """z(x) of some arms, in double precision."""
        return self.state.columns.rows(arms, self.state.sketch_size)

    def embedding(self, state: PosteriorState | None = None) -> Embedding:
        """z as a function of features, also for points outside the pool; of this state or of another."""
        if self.feature_map is not None:
            return self.feature_map
        state = self.state if state is None else state
        factor = np.tril(state.columns.rows(state.inducing, state.sketch_size))
        return Nystrom(self.kernel, self.pool.take(state.inducing), factor)

    def at(self, features: Any) -> tuple[Floats, Floats]:
        """Mean and variance (squared reward units) at any points, in the pool or not."""
        values = self._values_at(self.embedding().matrix(features), self._prior(features))
        explained = self.ridge * values.quadratic
        return values.mean, explained + values.residual if self.state.keeps_residual else explained

    def _values_at(self, Z: Floats, prior: Floats) -> PoolValues:
        quadratic = np.einsum("ij,ji->i", Z, self.state.weights.precision.apply(Z.T))
        residual = np.maximum(prior - np.einsum("ij,ij->i", Z, Z), 0.0)
        return PoolValues(residual, np.maximum(quadratic, 0.0), Z @ self.state.weights.vector)

    def forms(self, vectors: Floats) -> Floats:
        """vᵀz(x) of every arm for each column v of an m × r matrix: an r × A array, in one pass."""
        return self.state.forms(vectors)

    # ------------------------------------------------------------------ changing

    def condition(self, arms: ArrayLike, rewards: ArrayLike) -> None:
        """Take in the rewards of pulled arms; an arm may appear any number of times."""
        self.update(arms=arms, rewards=rewards)

    def append(self, inducing: ArrayLike) -> None:
        """Add inducing arms; those already in the span are skipped."""
        self.update(inducing=inducing)

    def update(self, inducing: ArrayLike = (), arms: ArrayLike = (), rewards: ArrayLike = ()) -> None:
        """Append inducing arms, then condition on pulls: one pass over the pool for both."""
        self.commit(self.updated(inducing, arms, rewards))

    def updated(
        self, inducing: ArrayLike = (), arms: ArrayLike = (), rewards: ArrayLike = ()
    ) -> PosteriorState:
        """What `update` would lead to, without going there; `commit` goes there."""
        return self.advanced(*self._checked(inducing, arms, rewards))

    def commit(self, state: PosteriorState) -> None:
        """Make a state computed from the present one the present one."""
        known = len(self.state.arms)
        # The slots may run ahead of the state when this is interrupted, never behind: see `_merged`.
        self._slots[state.arms[known:]] = np.arange(known, len(state.arms))
        self.state = state

    def refit(self, arms: ArrayLike, sums: ArrayLike) -> None:
        """Replace the reward sums of arms pulled before; counts and variances stay. One pass for the mean."""
        chosen = arm_indices(arms, self.pool.n_arms)
        values = finite_rewards(sums, len(chosen))
        slots = self._places(chosen)
        if (slots < 0).any():
            raise InvalidParameterError("arms", int(chosen[slots < 0][0]), "an arm that was pulled before")
        state = self.state
        replaced = state.sums.copy()
        replaced[slots] = values
        vector = state.weights.precision.apply(
            (state.pulled_rows.corner(len(state.arms), state.sketch_size).T @ replaced)[:, None]
        )[:, 0]
        mean = self.state.columns.product(vector[:, None], slice(None))[0]
        self.state = replace(
            state,
            sums=replaced,
            weights=replace(state.weights, vector=vector),
            pool_values=replace(state.pool_values, mean=mean),
        )

    def rebuild(self, inducing: ArrayLike, arms: ArrayLike = (), rewards: ArrayLike = ()) -> None:
        """Build the sketch anew on these arms (compaction), keeping all pulls and taking in more. O(A·m²)."""
        self.commit(self.rebuilt(inducing, arms, rewards))

    def rebuilt(self, inducing: ArrayLike, arms: ArrayLike = (), rewards: ArrayLike = ()) -> PosteriorState:
        """What `rebuild` would lead to, without going there."""
        return self.rebuilt_with(*self._checked(inducing, arms, rewards))

    def rebuilt_with(self, wanted: Ints, pulled: Ints, counts: Floats, sums: Floats) -> PosteriorState:
        """`rebuilt` for input known to be right: different arms to stand on, different arms pulled."""
        merged = self._merged(pulled, counts, sums)
        if self.feature_map is not None:
            return self._rebuilt_on(self.feature_map, merged)
        points = self.pool.take(wanted)
        gram, prior = self._covariances(points, points), self.state.prior[wanted]
        chosen, factor = independent_subset(gram, prior, SPAN_TOLERANCE[self.storage])
        return self._rebuilt_on(
            Nystrom(self.kernel, points[chosen], factor), replace(merged, inducing=wanted[chosen])
        )

    def _rebuilt_on(self, embedding: Embedding, state: PosteriorState) -> PosteriorState:
        """The pulls and inducing arms named in `state`, everything else computed afresh."""
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
        rows = GrowingMatrix(len(state.arms), m)
        rows.write(slice(None), slice(0, m), pulled_rows)
        weights = Weights(precision, vector, log_det)
        return replace(state, weights=weights, pool_values=values, columns=columns, pulled_rows=rows)

    def extend(self, pool: Pool) -> None:
        """Go on with a pool that has more arms behind the present ones (`Pool.extended`)."""
        state, before, m = self.state, self.pool.n_arms, self.state.sketch_size
        if pool.n_arms < before:
            raise InvalidParameterError("pool", pool, f"a pool that begins with the present {before} arms")
        columns = Columns(pool.n_arms, self.storage, m)
        _fill(columns, slice(0, before), state.columns.parts(m))
        prior, values = np.empty(pool.n_arms), _empty_values(pool.n_arms)
        prior[:before] = state.prior
        for name in _POOL_ARRAYS:
            getattr(values, name)[:before] = getattr(state.pool_values, name)
        embedding = self.embedding()
        for where, block in pool.blocks(bytes_per_arm=8 * (5 * m + 8), first=before):
            prior[where], Z = self._prior(block), embedding.matrix(block)
            columns.write(where, 0, Z)
            now = self._values_at(Z, prior[where])
            for name in _POOL_ARRAYS:
                getattr(values, name)[where] = getattr(now, name)
        self._slots = np.concatenate([self._slots, np.full(pool.n_arms - before, -1, dtype=np.int64)])
        self.pool, self.state = pool, replace(state, prior=prior, pool_values=values, columns=columns)

    # ------------------------------------------------------------------ keeping

    def snapshot(self) -> dict[str, Any]:
        """Every array the next step reads, by name; `restore` takes them back bit for bit."""
        state, precision = self.state, self.state.weights.precision
        return {
            **{name: getattr(state, name) for name in _STATE_ARRAYS},
            **{name: getattr(state.pool_values, name) for name in _POOL_ARRAYS},
            **{name: getattr(precision, name) for name in _PRECISION_ARRAYS},
            "vector": state.weights.vector,
            "log_det": np.array(state.weights.log_det),
            **{f"columns_{i}": part for i, part in enumerate(state.columns.parts(state.sketch_size))},
            "pulled_rows": state.pulled_rows.corner(len(state.arms), state.sketch_size),
        }

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Go to a state taken with `snapshot` from a posterior on the same pool, kernel and ridge."""
        precision = InversePrecision(*(arrays[name] for name in _PRECISION_ARRAYS))
        columns = Columns(self.pool.n_arms, self.storage, len(arrays["vector"]))
        parts = sum(name.startswith("columns_") for name in arrays)
        _fill(columns, slice(None), [arrays[f"columns_{i}"] for i in range(parts)])
        rows = GrowingMatrix.holding(arrays["pulled_rows"])
        self._slots[:] = -1
        self.state = replace(self.state, arms=np.empty(0, dtype=np.int64))
        self.commit(
            replace(
                self.state,
                **{name: arrays[name] for name in _STATE_ARRAYS},
                pool_values=PoolValues(*(arrays[name] for name in _POOL_ARRAYS)),
                weights=Weights(precision, arrays["vector"], float(arrays["log_det"])),
                columns=columns,
                pulled_rows=rows,
            )
        )

    # ------------------------------------------------------------------ inside

    def _checked(
        self, inducing: ArrayLike, arms: ArrayLike, rewards: ArrayLike
    ) -> tuple[Ints, Ints, Floats, Floats]:
        wanted = _unique(arm_indices(inducing, self.pool.n_arms))
        if len(wanted) and self.feature_map is not None:
            raise InvalidParameterError("inducing", wanted.tolist(), "empty: the features are fixed")
        pulled = arm_indices(arms, self.pool.n_arms)
        return wanted, *grouped(pulled, finite_rewards(rewards, len(pulled)))

    def _places(self, arms: Ints) -> Ints:
        """Where each arm stands in `state.arms`, −1 if not pulled (interrupted updates leave traces)."""
        slots, pulled = self._slots[arms], self.state.arms
        slots[slots >= len(pulled)] = -1
        known = slots >= 0
        slots[known] = np.where(pulled[slots[known]] == arms[known], slots[known], -1)
        return slots

    def counted(self, pulled: Ints, counts: Floats) -> tuple[Ints, Floats]:
        """All arms pulled, these (different ones) included, and their pulls."""
        seen, slots = self._seated(pulled)
        return seen, _added(self.state.counts, len(seen), slots, counts)

    def _seated(self, pulled: Ints) -> tuple[Ints, Ints]:
        """All arms pulled, those of `pulled` that are new at the end, and where each of `pulled` stands."""
        known, slots = len(self.state.arms), self._places(pulled)
        unseen = slots < 0
        slots[unseen] = np.arange(known, known + np.count_nonzero(unseen))
        return np.concatenate([self.state.arms, pulled[unseen]]), slots

    def _merged(self, pulled: Ints, counts: Floats, sums: Floats) -> PosteriorState:
        """The state with these pulls counted but not conditioned on."""
        seen, slots = self._seated(pulled)
        return replace(self.state, **self._totals(seen, slots, counts, sums))

    def _totals(self, seen: Ints, slots: Ints, counts: Floats, sums: Floats) -> dict[str, Any]:
        """The state's entries about pulls after more of them, of the arms at `slots` of `seen`."""
        return {
            "arms": seen,
            "counts": _added(self.state.counts, len(seen), slots, counts),
            "sums": _added(self.state.sums, len(seen), slots, sums),
        }

    def advanced(self, wanted: Ints, pulled: Ints, counts: Floats, sums: Floats) -> PosteriorState:
        """`updated` for input known to be right: different arms to append, different arms pulled.

        It writes only outside the state in use.
        """
        state, m, known = self.state, self.state.sketch_size, len(self.state.arms)
        seen, slots = self._seated(pulled)
        store = state.pulled_rows
        store.reserve(len(seen), m + len(wanted))
        store.write(slice(known, len(seen)), slice(0, m), state.columns.rows(seen[known:], m))
        weights, forms, border, pulls = state.weights, [], None, None
        accepted, at_seen = np.empty(0, dtype=np.int64), np.empty((0, len(seen)))

        chosen = self._independent(wanted)
        if chosen is not None:
            accepted, rows, factor = chosen
            # A new column is zero at arms in the span, so only the others and the new arms are computed.
            outside = np.flatnonzero(state.pool_values.residual[state.arms] > 0)
            touched = np.concatenate([outside, np.arange(known, len(seen))])
            features = self.pool.features
            covariances = self._covariances(features[accepted], features[seen[touched]])
            at_touched = forward(factor, covariances - rows @ store.corner(len(seen), m)[touched].T)
            at_seen = np.zeros((len(accepted), len(seen)))
            at_seen[:, touched] = at_touched
            store.write(slice(0, len(seen)), slice(m, m + len(accepted)), at_seen.T)
            before = PulledArms(store.corner(known, m)[outside], state.counts[outside], state.sums[outside])
            border = Border.plan(weights, self.ridge, before, factor, at_touched[:, : len(outside)])
            weights = border.extend(weights, self.ridge)
            forms += [rows.T, border.H] if len(outside) else [rows.T]
        if len(pulled):
            rows = store.corner(len(seen), m + len(accepted))[slots]
            pulls = Pulls.plan(weights, PulledArms(rows, counts, sums))
            weights = pulls.apply(weights, counts)
            forms.append(pulls.G[:m])

        values = state.pool_values
        if forms:
            values = self._pass_over_pool(np.hstack(forms), border, pulls, accepted, seen, at_seen)
        inducing = np.concatenate([state.inducing, accepted])
        totals = self._totals(seen, slots, counts, sums)
        return replace(state, inducing=inducing, weights=weights, pool_values=values, **totals)

    def _independent(self, wanted: Ints) -> tuple[Ints, Floats, Floats] | None:
        """Of the wanted arms those that add to the span, their rows of z and their residual's factor."""
        tolerance, state = SPAN_TOLERANCE[self.storage], self.state
        wanted = wanted[state.pool_values.residual[wanted] > tolerance * state.prior[wanted]]
        wanted = wanted[self._outside_span(wanted)]
        if not len(wanted):
            return None
        rows = state.columns.rows(wanted, state.sketch_size)
        if len(wanted) == 1:  # the usual step
            gram = (state.prior[wanted] - np.einsum("ij,ij->i", rows, rows)).reshape(1, 1)
        else:
            points = self.pool.take(wanted)
            gram = self._covariances(points, points) - rows @ rows.T
        chosen, factor = independent_subset(gram, state.prior[wanted], tolerance)
        return (wanted[chosen], rows[chosen], factor) if len(chosen) else None

    def _outside_span(self, arms: Ints) -> NDArray[np.bool_]:
        """Which arms' residual is more than rounding error; only doubtful ones cost anything."""
        state = self.state
        share = state.pool_values.residual[arms] / state.prior[arms]
        outside = share > MOST_GROWTH * SPAN_TOLERANCE[self.storage]
        doubtful = np.flatnonzero(~outside)
        if len(doubtful) and state.sketch_size:
            factor, rows = np.tril(self.rows(state.inducing)), self.rows(arms[doubtful])
            outside[doubtful] = share[doubtful] > span_tolerance(factor, rows, SPAN_TOLERANCE[self.storage])
        return outside

    def _pass_over_pool(
        self,
        forms: Floats,
        border: Border | None,
        pulls: Pulls | None,
        accepted: Ints,
        seen: Ints,
        at_seen: Floats,
    ) -> PoolValues:
        """The one pass: all linear forms of z at every arm, new columns, and the updated values per arm."""
        m, a, u = self.state.sketch_size, len(accepted), 0 if pulls is None else len(pulls.gain)
        if border is not None:
            self.state.columns.reserve(m + a)
            points = self.pool.features[accepted]
        parts = []
        for where, block in self.pool.blocks(bytes_per_arm=8 * (3 * forms.shape[1] + 4 * a + 8)):
            products = self.state.columns.product(forms, where)
            now = PoolValues(*(getattr(self.state.pool_values, name)[where] for name in _POOL_ARRAYS))
            if border is not None:
                added = new_columns(border, self._covariances(block, points).T, products[:a])
                added = added.astype(self.storage).astype(np.float64)
                inside = (seen >= where.start) & (seen < where.stop)
                added[:, seen[inside] - where.start] = at_seen[:, inside]
                self.state.columns.write(where, m, added.T)
                now = now.bordered(border, products[a:-u] if u else products[a:], added)
            if pulls is not None:
                projections = products[-u:]
                if border is not None:
                    projections = projections + pulls.G[m:].T @ added
                now = now.pulled(pulls, projections)
            parts.append(now)
        values = parts[0] if len(parts) == 1 else _joined(parts)
        if border is not None:
            values.residual[accepted] = 0.0
        return values

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

    def _empty_state(self, residual: bool) -> PosteriorState:
        prior = np.concatenate([self._prior(block) for _, block in self.pool.blocks(bytes_per_arm=64)])
        if not prior.any():
            raise InvalidKernelError(f"{self.kernel!r}.diag is 0 for every arm: nothing can be learned")
        none, nothing = np.empty(0, dtype=np.int64), np.empty(0)
        weights = Weights(InversePrecision.of(np.empty((0, 0))), nothing, 0.0)
        values = PoolValues(prior.copy(), np.zeros_like(prior), np.zeros_like(prior))
        columns = Columns(len(prior), self.storage)
        return PosteriorState(
            none,
            none,
            nothing,
            nothing,
            weights,
            values,
            prior,
            self.ridge,
            columns,
            GrowingMatrix(0),
            residual,
        )


def _added(before: Floats, size: int, slots: Ints, amounts: Floats) -> Floats:
    """`before`, lengthened with zeros to `size`, plus the amounts at their slots."""
    total = np.zeros(size)
    total[: len(before)] = before
    total[slots] += amounts
    return total


def _fill(columns: Columns, rows: slice, parts: Sequence[NDArray[Any]]) -> None:
    """Write parts of rows × columns side by side."""
    first = 0
    for part in parts:
        columns.write(rows, first, part)
        first += part.shape[1]


def _joined(parts: list[PoolValues]) -> PoolValues:
    return PoolValues(*(np.concatenate([getattr(part, name) for part in parts]) for name in _POOL_ARRAYS))


def _empty_values(n_arms: int) -> PoolValues:
    return PoolValues(np.empty(n_arms), np.empty(n_arms), np.empty(n_arms))


def _unique(arms: Ints) -> Ints:
    """Without repetition, in order of appearance."""
    if len(arms) < 2:
        return arms
    return arms[np.sort(np.unique(arms, return_index=True)[1])]
