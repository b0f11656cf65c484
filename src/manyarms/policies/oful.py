"""OFUL (theory §5.12): upper confidence bounds for a linear reward."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from manyarms.embeddings import Embedding
from manyarms.embeddings.linear import LinearFeatures
from manyarms.kernels import KernelLike, Linear
from manyarms.policies.fixed_features import FixedFeatures
from manyarms.pool.pool import Pool


@dataclass(frozen=True, kw_only=True)
class OFUL(FixedFeatures):
    """Abbasi-Yadkori et al. 2011: regularised least squares on the features, without approximation.

    The kernel is `Linear()`, with or without a bias. The other settings are those of `Policy`.
    """

    kernel: KernelLike | str = field(default_factory=Linear)

    @property
    def proved_width(self) -> str:
        """The linear features are exact."""
        return "certified"

    def feature_map(self, pool: Pool, rng: np.random.Generator) -> Embedding:
        """The features x, and the bias of the kernel if it has one."""
        return LinearFeatures(self.covariance, pool.n_features)
