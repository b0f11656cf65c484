"""RFF-TS (theory §5.9): Thompson sampling with random Fourier features, overconfident with too few."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyarms.embeddings import Embedding, RandomFourierFeatures
from manyarms.policies.fixed_features import FixedFeatures
from manyarms.policies.thompson import Thompson
from manyarms.pool.pool import Pool


@dataclass(frozen=True, kw_only=True)
class RFFTS(Thompson, FixedFeatures):
    """Bayesian linear regression on random Fourier features; for RBF and Matérn.

    pairs: the number of random frequencies, each with a sine and a cosine. The other settings are those of
        `Thompson` and `Policy` (theory §5.9).
    """

    pairs: int = 100

    def feature_map(self, pool: Pool, rng: np.random.Generator) -> Embedding:
        """Frequencies drawn from the kernel's spectral density."""
        return RandomFourierFeatures(self.covariance, self.pairs, rng, pool.n_features)
