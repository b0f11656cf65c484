"""The kernel contract: two methods, `matrix` and `diag`."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from manyarms.support.validation import Floats


@runtime_checkable
class KernelLike(Protocol):
    """The interface of a covariance function. Any object with these two methods is a kernel.

    `matrix(X, Y)` returns the float64 array k(x_i, y_j), `diag(X)` the vector k(x_i, x_i). Both receive
    slices of the features of a pool and must not modify them. `manyarms.testing.KernelContract` is a test
    suite that the tests of a new kernel can inherit.
    """

    def matrix(self, X: Any, Y: Any) -> Floats:
        """Covariances between every x in X and every y in Y."""

    def diag(self, X: Any) -> Floats:
        """Prior variances k(x, x)."""
