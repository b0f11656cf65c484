"""What a posterior has learned, as one immutable value, and the two scales of its variance (theory §1.2).

The papers use σ̃² on two scales, and here they have two names: *leverage* is the ridge-leverage scale of
BKB and BBKB (at most k/λ), *variance* is λ times it, the posterior variance in squared reward units that
S-GP-TS and DUETS use. The conversion is in `PosteriorState.variance` and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from weakref import WeakSet

import numpy as np

from manyarms.posterior.update import PoolValues, Weights
from manyarms.support.column_store import Columns
from manyarms.support.growing_matrix import GrowingMatrix
from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True, eq=False)
class SharedArrays:
    """The growing arrays that successive states share. A state reads its own corner and nothing behind it.

    `places` finds the row of a pulled arm. It is a hint: the state checks each answer against its own arms.
    """

    columns: Columns  # z of every arm, A × m
    pulled_rows: GrowingMatrix  # z of the pulled arms in double precision, P × m
    places: dict[int, int] = field(default_factory=dict)
    states: WeakSet[PosteriorState] = field(default_factory=WeakSet)

    def __getstate__(self) -> dict[str, Any]:
        """Without the list of states in use, which is different in every process."""
        return {"columns": self.columns, "pulled_rows": self.pulled_rows, "places": self.places}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes, states=WeakSet())


@dataclass(frozen=True, eq=False)
class PosteriorState:
    """All that a posterior has learned, as one immutable value; an update makes a new one."""

    inducing: Ints  # arms that span the sketch
    arms: Ints  # different arms pulled, in order of their first pull
    counts: Floats
    sums: Floats
    weights: Weights
    pool_values: PoolValues
    prior: Floats
    ridge: float
    shared: SharedArrays
    keeps_residual: bool = True

    def __post_init__(self) -> None:
        self.shared.states.add(self)

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes)
        self.shared.states.add(self)

    @property
    def columns(self) -> Columns:
        """z of every arm; the first `sketch_size` columns are this state's."""
        return self.shared.columns

    @property
    def pulled_rows(self) -> Floats:
        """z of `arms` in double precision, P × m."""
        return self.shared.pulled_rows.corner(len(self.arms), self.sketch_size)

    @property
    def mean(self) -> Floats:
        """μ̃ of every arm."""
        return self.pool_values.mean

    @cached_property
    def leverage(self) -> Floats:
        """σ̃² of every arm on the ridge-leverage scale, between 0 and k/λ."""
        values = self.pool_values
        if not self.keeps_residual:
            return np.maximum(values.quadratic, 0.0)
        # V ≤ (λ + tκ²)I, so zᵀV⁻¹z cannot be smaller than this; rounding can make it so.
        floor = (self.prior - values.residual) / (self.ridge + self.pulls * self.prior_max)
        return np.asarray(np.maximum(values.quadratic, floor) + values.residual / self.ridge)

    @cached_property
    def prior_max(self) -> float:
        """κ², the largest prior variance."""
        return float(self.prior.max())

    def forms(self, vectors: Floats) -> Floats:
        """vᵀz(x) of every arm for each column v of an m × r matrix: an r × A array, in one pass."""
        return self.columns.product(vectors, slice(None))

    def rows(self, arms: Ints) -> Floats:
        """z(x) of some arms, in double precision."""
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
        """t, how many rewards have been conditioned on."""
        return int(self.counts.sum())

    @property
    def escaped(self) -> float:
        """ρ, the mass that a sketch of V itself has lost; zero for every other posterior."""
        return 0.0

    @cached_property
    def effective_dimension(self) -> float:
        """Σ_i n_i σ̃²(x_i), which is d_eff = Tr K(K+λI)⁻¹ when the posterior is exact."""
        return float(self.counts @ self.leverage[self.arms])

    @property
    def log_det(self) -> float:
        """log det(V/λ), which is log det(K/λ + I) when the posterior is exact."""
        return self.weights.log_det

    # ------------------------------------------------------------------ which arms were pulled

    def places(self, arms: Ints) -> Ints:
        """Where each arm stands in `self.arms`, −1 for an arm that was not pulled."""
        hints = self.shared.places
        found = np.array([hints.get(arm, -1) for arm in arms.tolist()], dtype=np.int64)
        known = (found >= 0) & (found < len(self.arms))
        known[known] = self.arms[found[known]] == arms[known]
        for place in np.flatnonzero((found >= 0) & ~known):  # the hint is about another state
            here = np.flatnonzero(self.arms == arms[place])
            found[place] = here[0] if len(here) else -1
        return found

    def with_places(self, arms: Ints) -> tuple[Ints, Ints]:
        """All arms pulled, these (different ones) included, and where each of these stands among them."""
        known, places = len(self.arms), self.places(arms)
        unseen = places < 0
        places[unseen] = np.arange(known, known + np.count_nonzero(unseen))
        return np.concatenate([self.arms, arms[unseen]]), places

    def counted(self, arms: Ints, counts: Floats) -> tuple[Ints, Floats]:
        """All arms pulled, these (different ones) included, and their pulls."""
        seen, places = self.with_places(arms)
        return seen, added(self.counts, len(seen), places, counts)

    def merged(self, arms: Ints, counts: Floats, sums: Floats) -> PosteriorState:
        """With these pulls counted, and not conditioned on yet."""
        seen, places = self.with_places(arms)
        return replace(
            self,
            arms=seen,
            counts=added(self.counts, len(seen), places, counts),
            sums=added(self.sums, len(seen), places, sums),
        )

    # ------------------------------------------------------------------ sharing arrays

    def writable(self) -> PosteriorState:
        """This state, on arrays of its own if another state in use has written behind its corner."""
        size = len(self.arms), self.sketch_size
        if not any(len(other.arms) > size[0] or other.sketch_size > size[1] for other in self.shared.states):
            return self
        columns = Columns(self.columns.n_rows, self.columns.dtype, self.sketch_size)
        columns.write_parts(slice(None), self.columns.parts(self.sketch_size))
        places = {arm: place for place, arm in enumerate(self.arms.tolist())}
        return replace(self, shared=SharedArrays(columns, GrowingMatrix.holding(self.pulled_rows), places))


def added(before: Floats, size: int, places: Ints, amounts: Floats) -> Floats:
    """`before`, lengthened with zeros to `size`, plus the amounts at their places."""
    total = np.zeros(size)
    total[: len(before)] = before
    total[places] += amounts
    return total
