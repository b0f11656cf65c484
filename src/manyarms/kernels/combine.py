"""Kernels made of kernels: sum, product, and a scaled copy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from manyarms.errors import InvalidKernelError
from manyarms.kernels.base import Kernel, KernelLike
from manyarms.kernels.sklearn import as_kernel
from manyarms.validation import Floats, positive


class _Combination(Kernel):
    """Two or more kernels on the same features, combined entry by entry."""

    def __init__(self, *parts: KernelLike) -> None:
        if len(parts) < 2:
            raise InvalidKernelError(f"{type(self).__name__} needs at least two kernels, got {len(parts)}")
        self.parts = tuple(as_kernel(part) for part in parts)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.parts == getattr(other, "parts", None)

    def __hash__(self) -> int:
        return hash((type(self), self.parts))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.parts))})"


class Sum(_Combination):
    """k(x, y) = Σ k_i(x, y): effects that add up."""

    def matrix(self, X: Any, Y: Any) -> Floats:
        """Entry-wise sum."""
        return np.asarray(sum(part.matrix(X, Y) for part in self.parts))

    def diag(self, X: Any) -> Floats:
        """Sum of the prior variances."""
        return np.asarray(sum(part.diag(X) for part in self.parts))


class Product(_Combination):
    """k(x, y) = Π k_i(x, y): alike only where all parts say so."""

    def matrix(self, X: Any, Y: Any) -> Floats:
        """Entry-wise product."""
        return np.asarray(math.prod(part.matrix(X, Y) for part in self.parts))

    def diag(self, X: Any) -> Floats:
        """Product of the prior variances."""
        return np.asarray(math.prod(part.diag(X) for part in self.parts))


class Scale(Kernel):
    """k(x, y) = variance · k_0(x, y)."""

    def __init__(self, kernel: KernelLike, variance: float) -> None:
        self.kernel = as_kernel(kernel)
        self.variance = positive("variance", variance)

    def matrix(self, X: Any, Y: Any) -> Floats:
        """The scaled covariances."""
        return np.asarray(self.variance * self.kernel.matrix(X, Y))

    def diag(self, X: Any) -> Floats:
        """The scaled prior variances."""
        return np.asarray(self.variance * self.kernel.diag(X))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scale) and (self.kernel, self.variance) == (other.kernel, other.variance)

    def __hash__(self) -> int:
        return hash((Scale, self.kernel, self.variance))

    def __repr__(self) -> str:
        return f"Scale({self.kernel!r}, {self.variance!r})"


def unscaled(kernel: KernelLike) -> tuple[KernelLike, float]:
    """The kernel inside any number of `Scale`, and the product of their variances."""
    variance = 1.0
    while isinstance(kernel, Scale):
        variance *= kernel.variance
        kernel = kernel.kernel
    return kernel, variance
