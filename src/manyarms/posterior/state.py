"""The state of a posterior as one immutable value, and the two scales of its variance (theory §1.2).

The papers use σ̃² on two scales, which have two names here. *Leverage* is the ridge-leverage scale of BKB and
BBKB (at most k/λ). *Variance* is λ times the leverage: the posterior variance in squared reward units, which
S-GP-TS and DUETS use. The only conversion between the two is `PosteriorState.variance`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np

from manyarms.posterior.update import PoolValues, Weights
from manyarms.support.column_store import Columns
from manyarms.support.growing_matrix import GrowingMatrix
from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True, eq=False)
class SharedArrays:
    """The growing arrays that successive states share; each reads only its own leading rows and columns.

    `places` maps a pulled arm to its row. It is a hint: a state checks each answer against its own arms.
    """

    columns: Columns  # z of every arm, A × m
    pulled_rows: GrowingMatrix  # z of the pulled arms in double precision, P × m
    places: dict[int, int] = field(default_factory=dict)
    states: WeakSet[PosteriorState] = field(default_factory=WeakSet)
    lock: Lock = field(default_factory=Lock)  # held by the one who writes

    def __getstate__(self) -> dict[str, Any]:
        """Without the states in use and the lock, which belong to a process."""
        return {"columns": self.columns, "pulled_rows": self.pulled_rows, "places": self.places}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes, states=WeakSet(), lock=Lock())


@dataclass(frozen=True, eq=False)
class PosteriorState:
    """The sketch, the pulls and the resulting posterior over the pool; an update returns a new state."""

    inducing: Ints  # the arms that span the sketch
    arms: Ints  # the P different arms pulled, in order of their first pull
    counts: Floats  # the number of pulls of each of `arms`
    sums: Floats  # the reward sum of each of `arms`
    weights: Weights
    pool_values: PoolValues
    prior: Floats  # k(x, x) of every arm
    prior_max: float  # κ², the largest prior variance
    ridge: float  # λ
    shared: SharedArrays
    keeps_residual: bool = True

    def __post_init__(self) -> None:
        self.shared.states.add(self)

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes)
        self.shared.states.add(self)

    @property
    def columns(self) -> Columns:
        """z of every arm; the first `sketch_size` columns belong to this state."""
        return self.shared.columns

    @property
    def pulled_rows(self) -> Floats:
        """z of `arms` in double precision, P × m."""
        return self.shared.pulled_rows.corner(len(self.arms), self.sketch_size)

    @property
    def mean(self) -> Floats:
        """μ̃ of every arm, in reward units."""
        return self.pool_values.mean

    @cached_property
    def leverage(self) -> Floats:
        """σ̃² of every arm on the ridge-leverage scale, between 0 and k/λ."""
        values = self.pool_values
        if not self.keeps_residual:
            return np.maximum(values.quadratic, 0.0)
        # V ≼ (λ + tκ²)I gives this lower bound on zᵀV⁻¹z, which rounding errors can violate.
        floor = (self.prior - values.residual) / (self.ridge + self.pulls * self.prior_max)
        return np.asarray(np.maximum(values.quadratic, floor) + values.residual / self.ridge)

    def forms(self, vectors: Floats) -> Floats:
        """vᵀz(x) of every arm for each column v of the m × r matrix `vectors`: r × A, in one pass."""
        return self.columns.product(vectors, slice(None))

    def rows(self, arms: Ints) -> Floats:
        """z(x) of these arms in double precision, len(arms) × m."""
        return self.columns.rows(arms, self.sketch_size)

    @property
    def variance(self) -> Floats:
        """λσ̃² of every arm: the posterior variance in squared reward units."""
        return self.ridge * self.leverage

    @property
    def sketch_size(self) -> int:
        """m, the number of columns of z."""
        return len(self.weights.vector)

    @cached_property
    def pulls(self) -> int:
        """t, the number of rewards that the state is conditioned on."""
        return int(self.counts.sum())

    @property
    def escaped(self) -> float:
        """ρ, the spectral mass lost by a sketch of V; zero for every posterior without such a sketch."""
        return 0.0

    @cached_property
    def effective_dimension(self) -> float:
        """Σ_i n_i σ̃²(x_i), which is d_eff = Tr K(K+λI)⁻¹ when the posterior is exact."""
        return float(self.counts @ self.leverage[self.arms])

    @cached_property
    def residual_trace(self) -> float:
        """tr(K − Q) = Σ_i n_i (k(x_i, x_i) − ‖z(x_i)‖²); 0 when the posterior is exact."""
        return float(self.counts @ self.pool_values.residual[self.arms])

    @property
    def log_det(self) -> float:
        """log det(V/λ), which is log det(K/λ + I) when the posterior is exact."""
        return self.weights.log_det

    # ------------------------------------------------------------------ which arms were pulled

    def places(self, arms: Ints) -> Ints:
        """The position of each arm in `self.arms`, −1 for an arm that was not pulled."""
        return np.array([self._place(arm) for arm in arms.tolist()], dtype=np.int64)

    def _place(self, arm: int) -> int:
        place = self.shared.places.get(arm, -1)
        if place < 0 or (place < len(self.arms) and self.arms[place] == arm):
            return place
        here = np.flatnonzero(self.arms == arm)  # the entry belongs to another state
        return int(here[0]) if len(here) else -1

    def with_places(self, arms: Ints) -> tuple[Ints, Ints]:
        """All arms pulled including these (without repetition), and the positions of these among them."""
        known, places = len(self.arms), self.places(arms)
        unseen = places < 0
        places[unseen] = np.arange(known, known + np.count_nonzero(unseen))
        return np.concatenate([self.arms, arms[unseen]]), places

    def counted(self, arms: Ints, counts: Floats) -> tuple[Ints, Floats]:
        """All arms pulled including these (without repetition), and the number of pulls of each."""
        seen, places = self.with_places(arms)
        return seen, added(self.counts, len(seen), places, counts)

    def merged(self, arms: Ints, counts: Floats, sums: Floats) -> PosteriorState:
        """The state with these pulls counted, but not yet conditioned on."""
        seen, places = self.with_places(arms)
        return replace(
            self,
            arms=seen,
            counts=added(self.counts, len(seen), places, counts),
            sums=added(self.sums, len(seen), places, sums),
        )

    # ------------------------------------------------------------------ sharing arrays

    @contextmanager
    def writing(self) -> Iterator[PosteriorState]:
        """This state while the next one is being written behind its corner of the shared arrays.

        It has arrays of its own if another state in use was written there, or another thread is writing.
        """
        alone = self.shared.lock.acquire(blocking=False)
        try:
            yield self if alone and not self._written_behind() else self._on_own_arrays()
        finally:
            if alone:
                self.shared.lock.release()

    def _written_behind(self) -> bool:
        size = len(self.arms), self.sketch_size
        return any(len(other.arms) > size[0] or other.sketch_size > size[1] for other in self.shared.states)

    def _on_own_arrays(self) -> PosteriorState:
        columns = Columns(self.columns.n_rows, self.columns.dtype, self.sketch_size)
        columns.write_parts(slice(None), self.columns.parts(self.sketch_size))
        places = {arm: place for place, arm in enumerate(self.arms.tolist())}
        return replace(self, shared=SharedArrays(columns, GrowingMatrix.holding(self.pulled_rows), places))


def added(before: Floats, size: int, places: Ints, amounts: Floats) -> Floats:
    """`before`, padded with zeros to `size`, plus `amounts` at `places`."""
    total = np.zeros(size)
    total[: len(before)] = before
    total[places] += amounts
    return total
