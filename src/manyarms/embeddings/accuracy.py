"""How accurately a feature map approximates its kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyarms.embeddings.base import Embedding
from manyarms.embeddings.nystrom import covariances
from manyarms.kernels import KernelLike


def kernel_error(embedding: Embedding, kernel: KernelLike, X: Any) -> float:
    """max |z(x)ᵀz(y) − k(x, y)| over all pairs of rows of X, usually a sample of the arms."""
    Z = embedding.matrix(X)
    return float(np.abs(Z @ Z.T - covariances(kernel, X, X)).max())
