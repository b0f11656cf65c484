"""The base class of kernels, their sums, products and multiples, and an adapter for scikit-learn's kernels.

They are in one file because each needs the others: `+` makes a `Sum`, which also accepts scikit-learn's
kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from manyarms.errors import InvalidKernelError
from manyarms.kernels.base import KernelLike
from manyarms.kernels.checks import numeric
from manyarms.support.validation import Floats, positive


class Kernel:
    """Base class of the kernels in this package, which combine with `+` and `*`."""

    __array_ufunc__ = None  # so that numpy scalars leave `2 * kernel` to the kernel

    def matrix(self, X: Any, Y: Any) -> Floats:
        """Covariances between every x in X and every y in Y."""
        raise NotImplementedError(f"{type(self).__name__} must define matrix(X, Y)")

    def diag(self, X: Any) -> Floats:
        """Prior variances k(x, x)."""
        raise NotImplementedError(f"{type(self).__name__} must define diag(X)")

    def __add__(self, other: KernelLike) -> Sum:
        return Sum(self, other)

    def __mul__(self, other: KernelLike | float) -> Product | Kernel:
        return Scale(self, other) if isinstance(other, Real) else Product(self, other)  # type: ignore[arg-type]

    __rmul__ = __mul__


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
    """k(x, y) = Σ k_i(x, y): independent effects that add up."""

    def matrix(self, X: Any, Y: Any) -> Floats:
        """Entry-wise sum."""
        return np.asarray(sum(part.matrix(X, Y) for part in self.parts))

    def diag(self, X: Any) -> Floats:
        """Sum of the prior variances."""
        return np.asarray(sum(part.diag(X) for part in self.parts))


class Product(_Combination):
    """k(x, y) = Π k_i(x, y): arms are similar only if all parts agree."""

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


class SklearnKernel(Kernel):
    """Adapter for a `sklearn.gaussian_process.kernels` object, which is called but never modified."""

    def __init__(self, kernel: Any) -> None:
        if isinstance(kernel, type) or not (callable(kernel) and hasattr(kernel, "diag")):
            raise InvalidKernelError(f"not a scikit-learn kernel: {kernel!r}")
        parts = [kernel, *getattr(kernel, "get_params", dict)().values()]
        if any(type(part).__name__ == "WhiteKernel" for part in parts):
            raise InvalidKernelError(f"{kernel!r} contains noise (WhiteKernel): set the noise with `ridge`")
        self.kernel = kernel

    def matrix(self, X: Any, Y: Any) -> Floats:
        """kernel(X, Y)."""
        X, Y = self._features(X), self._features(Y)
        if not len(X) or not len(Y):  # some of scikit-learn's kernels refuse empty input
            return np.empty((len(X), len(Y)))
        return self._call(self.kernel, X, Y)

    def diag(self, X: Any) -> Floats:
        """kernel.diag(X)."""
        return self._call(self.kernel.diag, self._features(X))

    def _features(self, X: Any) -> Any:
        return numeric(X) if getattr(self.kernel, "requires_vector_input", True) else X

    def _call(self, function: Callable[..., Any], *features: Any) -> Floats:
        try:
            return np.asarray(function(*features), dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise InvalidKernelError(f"{self.kernel!r} does not fit the features: {problem}") from problem

    def __repr__(self) -> str:
        return f"SklearnKernel({self.kernel!r})"


def as_kernel(kernel: Any) -> KernelLike:
    """`kernel` itself if it has the two methods, an adapter for a scikit-learn kernel, otherwise an error."""
    if isinstance(kernel, type):
        raise InvalidKernelError(f"{kernel.__name__} is a class: pass an instance, {kernel.__name__}()")
    if isinstance(kernel, KernelLike):
        return kernel
    if any(base.__module__.startswith("sklearn.") for base in type(kernel).__mro__):
        return SklearnKernel(kernel)
    raise InvalidKernelError(f"a kernel with matrix(X, Y) and diag(X) is needed, got {kernel!r}")
