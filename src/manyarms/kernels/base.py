"""The kernel contract: two methods, `matrix` and `diag`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from manyarms.errors import InvalidFeaturesError, InvalidParameterError
from manyarms.validation import Floats, positive

if TYPE_CHECKING:
    from manyarms.kernels.combine import Product, Sum


@runtime_checkable
class KernelLike(Protocol):
    """What the rest of the package asks of a covariance. Any object with these two methods will do.

    `matrix(X, Y)` returns the float64 array k(x_i, y_j); `diag(X)` the vector k(x_i, x_i). Both take
    slices of a pool's features and must leave them untouched. `manyarms.testing.KernelContract` is a
    test suite that a new kernel can inherit.
    """

    def matrix(self, X: Any, Y: Any) -> Floats:
        """Covariances between every x in X and every y in Y."""

    def diag(self, X: Any) -> Floats:
        """Prior variances k(x, x)."""


class Kernel:
    """Base of the kernels shipped here: frozen dataclasses that add with `+` and multiply with `*`."""

    def matrix(self, X: Any, Y: Any) -> Floats:
        """Covariances between every x in X and every y in Y."""
        raise NotImplementedError(f"{type(self).__name__} must define matrix(X, Y)")

    def diag(self, X: Any) -> Floats:
        """Prior variances k(x, x)."""
        raise NotImplementedError(f"{type(self).__name__} must define diag(X)")

    def __add__(self, other: KernelLike) -> Sum:
        from manyarms.kernels.combine import Sum

        return Sum(self, other)

    def __mul__(self, other: KernelLike | float) -> Product | Kernel:
        from manyarms.kernels.combine import Product, Scale

        return Scale(self, float(other)) if isinstance(other, int | float) else Product(self, other)

    __rmul__ = __mul__


def numeric(X: Any) -> Floats:
    """`X` as a float64 matrix, one row an arm; a vector is read as one feature per arm."""
    array = np.asarray(X)
    if array.dtype == object or array.dtype.kind in "USV":
        raise InvalidFeaturesError(
            f"this kernel needs numeric features, got {array.dtype} (try Hamming or Tanimoto)"
        )
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InvalidFeaturesError(f"features must be a matrix with one row per arm, got shape {array.shape}")
    return array.astype(np.float64, copy=False)


def checked_lengthscale(lengthscale: Any) -> float | tuple[float, ...]:
    """One positive length-scale, or a tuple with one per feature."""
    if np.ndim(lengthscale) == 0:
        return positive("lengthscale", lengthscale)
    values = tuple(positive(f"lengthscale[{i}]", value) for i, value in enumerate(np.ravel(lengthscale)))
    if not values:
        raise InvalidParameterError("lengthscale", lengthscale, "a number or one number per feature")
    return values


def replace_field(instance: Any, name: str, value: Any) -> None:
    """Store a checked value in a frozen dataclass while it is being made."""
    assert dataclasses.is_dataclass(instance)
    object.__setattr__(instance, name, value)
