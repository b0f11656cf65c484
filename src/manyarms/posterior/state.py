"""The state of a posterior as one immutable value, and the two scales of its variance (theory §1.2).

The papers use σ̃² on two scales, which have two names here. *Leverage* is the ridge-leverage scale of BKB and
BBKB (at most k/λ). *Variance* is λ times the leverage: the posterior variance in squared reward units, which
S-GP-TS and DUETS use. The only conversion between the two is `PosteriorState.variance`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np

from manyarms.embeddings.grouped_nystrom import GroupedNystrom
from manyarms.posterior.over_pool import OverPool
from manyarms.posterior.shard import ArmValues
from manyarms.posterior.update import Weights
from manyarms.support.frozen import changed
from manyarms.support.growing_matrix import GrowingMatrix
from manyarms.support.validation import Floats, Ints

_LOOKED_AT = 256  # arms whose z is asked for in advance


@dataclass(frozen=True, eq=False)
class SharedArrays:
    """The growing arrays that successive states share; each reads only its own leading rows and columns.

    `places` maps a pulled arm to its row. It is a hint: a state checks each answer against its own arms.
    """

    pulled_rows: GrowingMatrix  # z of the pulled arms in double precision, P × m
    places: dict[int, int] = field(default_factory=dict)
    states: WeakSet[PosteriorState] = field(default_factory=WeakSet)
    lock: Lock = field(default_factory=Lock)  # held by the one who writes

    @classmethod
    def of(cls, pulled_rows: Floats, arms: Ints) -> SharedArrays:
        """Arrays that hold z of these pulled arms."""
        places = {arm: place for place, arm in enumerate(arms.tolist())}
        return cls(GrowingMatrix.holding(pulled_rows), places)

    def __getstate__(self) -> dict[str, Any]:
        """Without the states in use and the lock, which belong to a process."""
        return {"pulled_rows": self.pulled_rows, "places": self.places}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes, states=WeakSet(), lock=Lock())


@dataclass(frozen=True, eq=False)
class PosteriorState:
    """The sketch, the pulls and the resulting posterior over the pool; an update returns a new state.

    Everything here is small, O(m² + mP), except `over_pool`, which stands for what the shards hold.
    """

    inducing: Ints  # the arms that span the sketch
    groups: tuple[int, ...]  # how many of them were appended together, in order; their sum is len(inducing)
    arms: Ints  # the P different arms pulled, in order of their first pull
    counts: Floats  # the number of pulls of each of `arms`
    sums: Floats  # the reward sum of each of `arms`
    pulled_residual: Floats  # k − ‖z‖² of each of `arms`
    weights: Weights
    over_pool: OverPool
    ridge: float  # λ
    shared: SharedArrays
    keeps_residual: bool = True
    grouped: GroupedNystrom | None = None  # z, if the state was built from its definition

    def __post_init__(self) -> None:
        self.shared.states.add(self)

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes)
        self.shared.states.add(self)

    def followed_by(self, **changes: Any) -> PosteriorState:
        """`dataclasses.replace`, for states that are made at every step."""
        later = changed(self, **changes)
        later.shared.states.add(later)
        return later

    @property
    def pulled_rows(self) -> Floats:
        """z of `arms` in double precision, P × m."""
        return self.shared.pulled_rows.corner(len(self.arms), self.sketch_size)

    @property
    def prior_max(self) -> float:
        """κ², the largest prior variance."""
        return self.over_pool.prior_max

    # ------------------------------------------------------------------ some arms

    def at(self, arms: Ints) -> ArmValues:
        """Mean, leverage, residual and prior variance of these arms."""
        return self.over_pool.at(arms)

    def look(self, arms: Ints) -> ArmValues:
        """What `at` says, about arms with new results or that are about to have some.

        Of arms that were not pulled before, z is needed next, so it is asked for at the same time.
        """
        few_and_new = 0 < len(arms) <= _LOOKED_AT and (self.places(arms) < 0).all()
        return self.over_pool.look(arms) if few_and_new else self.over_pool.at(arms)

    def with_rows(self, arms: Ints) -> tuple[ArmValues, Floats]:
        """What `at` and `rows` say about these arms."""
        return (self.over_pool.look if len(arms) else self.at)(arms), self.rows(arms)

    def rows(self, arms: Ints) -> Floats:
        """z(x) of these arms in double precision, len(arms) × m."""
        return self.over_pool.rows(arms) if len(arms) else np.empty((0, self.sketch_size))

    # ------------------------------------------------------------------ every arm

    @cached_property
    def mean(self) -> Floats:
        """μ̃ of every arm, in reward units."""
        return self._whole("mean")

    @cached_property
    def leverage(self) -> Floats:
        """σ̃² of every arm on the ridge-leverage scale, between 0 and k/λ."""
        return self._whole("leverage")

    @property
    def residual(self) -> Floats:
        """k − ‖z‖² of every arm."""
        return self._whole("residual")

    @property
    def quadratic(self) -> Floats:
        """zᵀV⁻¹z of every arm."""
        return self._whole("quadratic")

    @property
    def prior(self) -> Floats:
        """k(x, x) of every arm."""
        return self._whole("prior")

    @property
    def variance(self) -> Floats:
        """λσ̃² of every arm: the posterior variance in squared reward units."""
        return self.ridge * self.leverage

    def forms(self, vectors: Floats) -> Floats:
        """vᵀz(x) of every arm for each column v of the m × r matrix `vectors`: r × A, in one pass."""
        return self.over_pool.forms(vectors)

    def _whole(self, name: str) -> Floats:
        whole: Floats = self.over_pool.whole(name)
        return whole

    # ------------------------------------------------------------------ numbers

    @property
    def sketch_size(self) -> int:
        """m, the number of columns of z."""
        return len(self.weights.vector)

    @cached_property
    def pulls(self) -> int:
        """t, the number of rewards that the state is conditioned on.

        If results have weights of their own (theory §2.1), it is their total weight, rounded up, and at least
        the number of arms pulled.
        """
        return max(math.ceil(float(self.counts.sum())), len(self.arms))

    @property
    def escaped(self) -> float:
        """ρ, the spectral mass lost by a sketch of V; zero for every posterior without such a sketch."""
        return 0.0

    @cached_property
    def pulled_leverage(self) -> Floats:
        """σ̃² of each of `arms`."""
        return self.at(self.arms).leverage

    @cached_property
    def effective_dimension(self) -> float:
        """Σ_i n_i σ̃²(x_i), which is d_eff = Tr K(K+λI)⁻¹ when the posterior is exact.

        As Σ n_i z_i z_iᵀ = V − λI, it is tr(K − Q)/λ + m − λ tr V⁻¹: the shards do not have to be asked.
        """
        explained = self.sketch_size - self.ridge * self.weights.precision.trace()
        return max(0.0, explained) + (self.residual_trace / self.ridge if self.keeps_residual else 0.0)

    @cached_property
    def residual_trace(self) -> float:
        """tr(K − Q) = Σ_i n_i (k(x_i, x_i) − ‖z(x_i)‖²); 0 when the posterior is exact."""
        return float(self.counts @ self.pulled_residual)

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

    def counted(self, arms: Ints, counts: Floats, sums: Floats) -> tuple[Ints, Floats, Floats]:
        """All arms pulled including these (without repetition), with the pulls and reward sum of each."""
        seen, places = self.with_places(arms)
        return seen, added(self.counts, len(seen), places, counts), added(self.sums, len(seen), places, sums)

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
        return replace(self, shared=SharedArrays.of(self.pulled_rows, self.arms))


def added(before: Floats, size: int, places: Ints, amounts: Floats) -> Floats:
    """`before`, padded with zeros to `size`, plus `amounts` at `places`."""
    total = np.zeros(size)
    total[: len(before)] = before
    total[places] += amounts
    return total
