"""SOFUL (theory §5.13): OFUL, or linear Thompson sampling, its matrix sketched by frequent directions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from manyarms.choice.selection import SelectionRule, ThompsonDraws, UpperBounds
from manyarms.errors import InvalidParameterError
from manyarms.kernels import KernelLike, Linear
from manyarms.policies.fixed_features import FixedFeatures
from manyarms.pool.pool import Pool
from manyarms.posterior.linear_sketch import SketchedLinearModel
from manyarms.posterior.sparse_gp import SparseGP
from manyarms.support.validation import count


@dataclass(frozen=True, kw_only=True)
class SOFUL(FixedFeatures):
    """Kuzborskij, Cella & Cesa-Bianchi 2019: a sketch of `size` rows, fixed in advance.

    choose is "ucb" (SOFUL) or "thompson" (their SOFUL-TS). A sketch smaller than the rank of what is
    pulled loses ever more of V, and the regret becomes linear (BKB paper, §5). It is here to be compared
    with: V̂⁻¹ is held as a d × d matrix, as for every policy, so it does not save the time it could.
    """

    kernel: KernelLike | str = field(default_factory=Linear)
    size: int = 10
    choose: str = "ucb"

    theorem: ClassVar[str] = "soful"

    def __post_init__(self) -> None:
        count("size", self.size, minimum=2)
        super().__post_init__()

    def selection_rule(self) -> SelectionRule:
        """Bounds or draws."""
        if self.choose == "ucb":
            return UpperBounds()
        if self.choose == "thompson":
            return ThompsonDraws()
        raise InvalidParameterError("choose", self.choose, "'ucb' or 'thompson'")

    def process(self, pool: Pool, rng: np.random.Generator, storage: DTypeLike = np.float64) -> SparseGP:
        """Linear, with V sketched."""
        assert self.ridge is not None
        return SketchedLinearModel(pool, self.covariance, self.ridge, self.size, storage=storage)
