"""RFF-TS: Thompson sampling in random Fourier features. A peer, and with few features a warning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyarms.embeddings import Embedding, RandomFourierFeatures
from manyarms.policies.fixed_features import FixedFeatures
from manyarms.policies.thompson import Thompson
from manyarms.pool.pool import Pool


@dataclass(frozen=True, kw_only=True)
class RFFTS(Thompson, FixedFeatures):
    """Regression on `pairs` random frequencies, sine and cosine of each; for RBF and Matérn (theory §5.9)."""

    pairs: int = 100

    def feature_map(self, pool: Pool, rng: np.random.Generator) -> Embedding:
        """Frequencies drawn from the kernel's spectral density."""
        return RandomFourierFeatures(self.covariance, self.pairs, rng, pool.n_features)
