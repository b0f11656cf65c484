"""SOFUL (theory §5.13): OFUL or linear Thompson sampling, with V sketched by frequent directions."""

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
    """Kuzborskij, Cella & Cesa-Bianchi 2019: linear bandits with a sketch of `size` rows, fixed in advance.

    size: the number of rows of the sketch, at least 2.
    choose: "ucb" (SOFUL) or "thompson" (their SOFUL-TS).

    If the sketch is smaller than the rank of the pulled arms, it loses more and more of V, and the regret
    becomes linear (BKB paper, §5). The policy is provided for comparison: V̂⁻¹ is stored as a d × d matrix, as
    for every policy, so the possible speed-up is not realised. The kernel is `Linear()`; the other settings
    are those of `Policy`.
    """

    kernel: KernelLike | str = field(default_factory=Linear)
    size: int = 10
    choose: str = "ucb"

    theorem: ClassVar[str] = "soful"

    def __post_init__(self) -> None:
        count("size", self.size, minimum=2)
        super().__post_init__()

    @property
    def proved_width(self) -> str:
        """The width of their Theorem 3."""
        return "soful"

    def selection_rule(self) -> SelectionRule:
        """Upper bounds or Thompson draws."""
        if self.choose == "ucb":
            return UpperBounds()
        if self.choose == "thompson":
            return ThompsonDraws()
        raise InvalidParameterError("choose", self.choose, "'ucb' or 'thompson'")

    def process(self, pool: Pool, rng: np.random.Generator, storage: DTypeLike = np.float64) -> SparseGP:
        """Linear regression with a sketch of V."""
        assert self.ridge is not None
        return SketchedLinearModel(pool, self.covariance, self.ridge, self.size, storage=storage)
