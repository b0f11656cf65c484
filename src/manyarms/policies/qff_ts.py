"""QFF-TS (theory §5.10): Thompson sampling with quadrature Fourier features, for arms with few features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyarms.embeddings import Embedding, QuadratureFourierFeatures
from manyarms.policies.fixed_features import FixedFeatures
from manyarms.policies.thompson import Thompson
from manyarms.pool.pool import Pool


@dataclass(frozen=True, kw_only=True)
class QFFTS(Thompson, FixedFeatures):
    """Mutný & Krause 2018: the frequencies are the nodes of a Gauss–Hermite rule; for the RBF kernel.

    nodes: the number of nodes for each feature. The other settings are those of `Thompson` and `Policy`
    (theory §5.10).
    """

    nodes: int = 16

    def feature_map(self, pool: Pool, rng: np.random.Generator) -> Embedding:
        """A map of dimension nodesᵈ."""
        return QuadratureFourierFeatures(self.covariance, self.nodes, pool.n_features)
