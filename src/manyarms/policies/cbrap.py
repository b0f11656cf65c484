"""CBRAP (theory §5.14): OFUL on a random projection of the features."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from manyarms.embeddings import Embedding, RandomProjection
from manyarms.kernels import KernelLike, Linear
from manyarms.policies.fixed_features import FixedFeatures
from manyarms.pool.pool import Pool


@dataclass(frozen=True, kw_only=True)
class CBRAP(FixedFeatures):
    """Yu, Lyu & King 2017: `size` random linear combinations replace the features.

    The kernel is `Linear()`, with or without a bias. The other settings are those of `Policy`.
    """

    kernel: KernelLike | str = field(default_factory=Linear)
    size: int = 10

    def feature_map(self, pool: Pool, rng: np.random.Generator) -> Embedding:
        """P x, where P has independent normal entries."""
        return RandomProjection(self.covariance, self.size, rng, pool.n_features)
