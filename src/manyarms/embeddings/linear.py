"""The exact features of the linear kernel: k(x, y) = xᵀy + bias² needs no approximation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from manyarms.embeddings.checks import checked_rows
from manyarms.errors import UnsuitableKernelError
from manyarms.kernels import KernelLike, Linear
from manyarms.kernels.combine import unscaled
from manyarms.support.validation import Floats


class LinearFeatures:
    """z(x) = (x, bias), times the square root of the kernel's variance."""

    def __init__(self, kernel: KernelLike, n_features: int) -> None:
        part, variance = unscaled(kernel)
        if not isinstance(part, Linear):
            raise UnsuitableKernelError(f"linear features represent the Linear kernel, not {kernel!r}")
        self.n_features, self.bias, self.scale = n_features, part.bias, math.sqrt(variance)

    @property
    def dimension(self) -> int:
        """d, plus one if there is a bias."""
        return self.n_features + (self.bias > 0)

    def matrix(self, X: Any) -> Floats:
        """The features and the bias."""
        rows = checked_rows(X, self.n_features)
        if self.bias > 0:
            rows = np.column_stack([rows, np.full(len(rows), self.bias)])
        return np.asarray(self.scale * rows)
