"""Kernels of scikit-learn, used through this package's two-method contract."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyarms.errors import InvalidKernelError
from manyarms.kernels.base import Kernel, KernelLike, numeric
from manyarms.validation import Floats


class SklearnKernel(Kernel):
    """Adapter around a `sklearn.gaussian_process.kernels` object (which is called, never changed)."""

    def __init__(self, kernel: Any) -> None:
        if not (callable(kernel) and hasattr(kernel, "diag")):
            raise InvalidKernelError(f"not a scikit-learn kernel: {kernel!r}")
        self.kernel = kernel

    def matrix(self, X: Any, Y: Any) -> Floats:
        """kernel(X, Y)."""
        return np.asarray(self.kernel(numeric(X), numeric(Y)), dtype=np.float64)

    def diag(self, X: Any) -> Floats:
        """kernel.diag(X)."""
        return np.asarray(self.kernel.diag(numeric(X)), dtype=np.float64)

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
