"""What a posterior has learned, as one immutable value, and the two scales of its variance.

The papers use σ̃² on two scales, and here they have two names: *leverage* is the ridge-leverage scale of
BKB and BBKB (at most k/λ), *variance* is λ times it, the posterior variance in squared reward units that
S-GP-TS and DUETS use. The conversion is in `PosteriorState.variance` and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manyarms.posterior.update import PoolValues, Weights
from manyarms.support.column_store import Columns
from manyarms.support.growing_matrix import GrowingMatrix
from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True)
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
    columns: Columns  # z of every arm, A × m
    pulled_rows: GrowingMatrix  # z of `arms` in double precision, P × m
    keeps_residual: bool = True

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

    @property
    def variance(self) -> Floats:
        """λσ̃² of every arm: the posterior variance in squared reward units."""
        return self.ridge * self.leverage

    @property
    def sketch_size(self) -> int:
        """m, the size of the sketch."""
        return len(self.weights.vector)

    @cached_property
    def pulls(self) -> int:
        """t, how many rewards have been conditioned on."""
        return int(self.counts.sum())

    @property
    def escaped(self) -> float:
        """ρ, what a sketch of V itself has lost; nothing here."""
        return 0.0

    @cached_property
    def effective_dimension(self) -> float:
        """Σ_i n_i σ̃²(x_i), which is d_eff = Tr K(K+λI)⁻¹ when the posterior is exact."""
        return float(self.counts @ self.leverage[self.arms])

    @property
    def log_det(self) -> float:
        """log det(V/λ), which is log det(K/λ + I) when the posterior is exact."""
        return self.weights.log_det
