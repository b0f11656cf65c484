"""The linear kernel: Bayesian linear regression, as in OFUL and its sketched versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.kernels.checks import numeric, numeric_pair
from manyarms.kernels.combine import Kernel
from manyarms.support.frozen import replace_field
from manyarms.support.validation import Floats, non_negative


@dataclass(frozen=True)
class Linear(Kernel):
    """k(x, y) = xᵀy + bias²."""

    bias: float = 0.0

    def __post_init__(self) -> None:
        replace_field(self, "bias", non_negative("bias", self.bias))

    def matrix(self, X: Any, Y: Any) -> Floats:
        """Inner products."""
        X, Y = numeric_pair(X, Y)
        return np.asarray(X @ Y.T + self.bias**2)

    def diag(self, X: Any) -> Floats:
        """Squared norms."""
        X = numeric(X)
        return np.asarray(np.einsum("ij,ij->i", X, X) + self.bias**2)
