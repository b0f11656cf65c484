"""Check features and length-scales for the kernels; errors show the offending value."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError, InvalidKernelError, InvalidParameterError, shown
from manyarms.support.validation import Floats, inexact_integer, positive


def as_array(X: Any) -> NDArray[Any]:
    """`X` as an array."""
    try:
        return np.asarray(X)
    except (ValueError, TypeError):
        raise InvalidFeaturesError(
            f"features must be a matrix with one row per arm, got {shown(X)}"
        ) from None


def numeric(X: Any) -> Floats:
    """`X` as a float64 matrix with one row per arm; a vector is read as one feature per arm."""
    array = as_array(X)
    if array.dtype.kind not in "biuf":
        example_cell = next((cell for cell in array.flat if not isinstance(cell, Real)), None)
        example = "" if example_cell is None else f", such as {shown(example_cell)}"
        raise InvalidFeaturesError(
            f"this kernel needs numeric features, got {array.dtype}{example} (try Hamming or Tanimoto)"
        )
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InvalidFeaturesError(f"features must be a matrix with one row per arm, got shape {array.shape}")
    too_large = inexact_integer(array)
    if too_large is not None:
        raise InvalidFeaturesError(f"feature {too_large} is too large to be stored exactly as a float64")
    return array.astype(np.float64, copy=False)


def numeric_pair(X: Any, Y: Any) -> tuple[Floats, Floats]:
    """Both as float64 matrices with the same number of features."""
    X, Y = numeric(X), numeric(Y)
    if X.shape[1] != Y.shape[1]:
        raise InvalidKernelError(f"arms with {X.shape[1]} and with {Y.shape[1]} features cannot be compared")
    return X, Y


def checked_lengthscale(lengthscale: Any) -> float | tuple[float, ...]:
    """One positive length-scale, or a tuple with one per feature."""
    rule = "a number or one number per feature"
    try:
        values = np.asarray(lengthscale)
    except ValueError:  # ragged
        raise InvalidParameterError("lengthscale", lengthscale, rule) from None
    if values.ndim == 0:
        return positive("lengthscale", lengthscale)
    if values.ndim > 1 or not values.size:
        raise InvalidParameterError("lengthscale", lengthscale, rule)
    return tuple(positive(f"lengthscale[{i}]", value) for i, value in enumerate(values))
