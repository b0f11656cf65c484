"""GP-TS (theory §5.7): Thompson sampling from the exact posterior, the reference for the sparse forms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from manyarms.choice.prior_draws import PriorSampler
from manyarms.choice.prior_features import prior_over
from manyarms.policies.thompson import Thompson
from manyarms.pool.pool import Pool


@dataclass(frozen=True, kw_only=True)
class GPTS(Thompson):
    """Chowdhury & Gopalan 2017: the best arm of an exact joint draw over the pool.

    The joint prior is factorised once in O(A³), and a draw then costs one pass over an A × A matrix. The pool
    may have up to 20 000 arms; use `SGPTS` for larger ones. The settings are those of `Thompson`.
    """

    def prior(self, pool: Pool, rng: np.random.Generator, storage: DTypeLike = np.float64) -> PriorSampler:
        """The joint prior of all arms."""
        return prior_over(pool, self.covariance, pool.n_arms, rng, "joint", storage)
