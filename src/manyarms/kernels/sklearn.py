"""Kernels of scikit-learn, used through this package's two-method contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from manyarms.errors import InvalidKernelError
from manyarms.kernels.base import Kernel, KernelLike, numeric
from manyarms.validation import Floats


class SklearnKernel(Kernel):
    """Adapter around a `sklearn.gaussian_process.kernels` object (which is called, never changed)."""

    def __init__(self, kernel: Any) -> None:
        if isinstance(kernel, type) or not (callable(kernel) and hasattr(kernel, "diag")):
            raise InvalidKernelError(f"not a scikit-learn kernel: {kernel!r}")
        parts = [kernel, *getattr(kernel, "get_params", dict)().values()]
        if any(type(part).__name__ == "WhiteKernel" for part in parts):
            raise InvalidKernelError(f"{kernel!r} holds noise (WhiteKernel): noise is what `ridge` is for")
        self.kernel = kernel

    def matrix(self, X: Any, Y: Any) -> Floats:
        """kernel(X, Y)."""
        X, Y = self._features(X), self._features(Y)
        if not len(X) or not len(Y):  # some of scikit-learn's kernels refuse to look at nothing
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
    """`kernel` itself when it keeps the contract, an adapter when it is scikit-learn's, else an error."""
    if isinstance(kernel, type):
        raise InvalidKernelError(f"{kernel.__name__} is a class: pass an instance, {kernel.__name__}()")
    if isinstance(kernel, KernelLike):
        return kernel
    if any(base.__module__.startswith("sklearn.") for base in type(kernel).__mro__):
        return SklearnKernel(kernel)
    raise InvalidKernelError(f"a kernel with matrix(X, Y) and diag(X) is needed, got {kernel!r}")
