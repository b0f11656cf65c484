"""QFF-TS: Thompson sampling in quadrature Fourier features, accurate on arms of a few features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyarms.embeddings import Embedding, QuadratureFourierFeatures
from manyarms.policies.fixed_features import FixedFeatures
from manyarms.policies.thompson import Thompson
from manyarms.pool.pool import Pool


@dataclass(frozen=True, kw_only=True)
class QFFTS(Thompson, FixedFeatures):
    """Mutný & Krause 2018: the frequencies of a Gauss–Hermite rule, `nodes` per feature (theory §5.10)."""

    nodes: int = 16

    def feature_map(self, pool: Pool, rng: np.random.Generator) -> Embedding:
        """nodesᵈ features."""
        return QuadratureFourierFeatures(self.covariance, self.nodes, pool.n_features)
