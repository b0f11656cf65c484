"""A kernel for categories: strings of equal length, or rows of integer codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError, shown
from manyarms.kernels.checks import as_array
from manyarms.kernels.combine import Kernel
from manyarms.support.frozen import replace_field
from manyarms.support.validation import Floats, positive


@dataclass(frozen=True)
class Hamming(Kernel):
    """k(x, y) = exp(−h(x, y) / l) with h the share of positions where x and y differ.

    A product over positions of "1 if equal, else a constant", hence positive semi-definite.
    Features are strings of one common length, or a matrix of integer codes.
    """

    lengthscale: float = 1.0

    def __post_init__(self) -> None:
        replace_field(self, "lengthscale", positive("lengthscale", self.lengthscale))

    def matrix(self, X: Any, Y: Any) -> Floats:
        """exp(−share of differing positions / length-scale)."""
        x, y = codes_of(X), codes_of(Y)
        if (x.dtype.kind == "U") != (y.dtype.kind == "U"):
            raise InvalidFeaturesError("words and codes cannot be compared")
        if x.shape[1] != y.shape[1]:
            raise InvalidFeaturesError(
                f"arms with {x.shape[1]} and with {y.shape[1]} positions cannot be compared"
            )
        differing = np.zeros((len(x), len(y)))
        for position in range(x.shape[1]):
            differing += x[:, position, None] != y[None, :, position]
        return np.asarray(np.exp(differing / (-self.lengthscale * max(x.shape[1], 1))))

    def diag(self, X: Any) -> Floats:
        """One everywhere."""
        return np.ones(len(codes_of(X)))


def codes_of(X: Any) -> NDArray[Any]:
    """Strings as a matrix of character codes (a view, not a copy); codes and words as they are."""
    array = as_array(X)
    if array.dtype.kind in "OT":
        others = [item for item in array.ravel() if not isinstance(item, str)]
        if others:
            raise InvalidFeaturesError(f"Hamming needs strings or integer codes, got {shown(others[0])}")
        array = array.astype(object).astype(np.str_)
    if array.ndim == 1 and array.dtype.kind == "U":
        return _characters(array)
    if array.ndim != 2 or array.dtype.kind not in "iubUf":
        raise InvalidFeaturesError(
            f"Hamming needs strings of equal length or integer codes, got {array.dtype} {array.shape}"
        )
    if array.dtype.kind == "f" and (fractions := array[array != np.floor(array)]).size:
        raise InvalidFeaturesError(f"Hamming needs integer codes, got {fractions[0]}")
    return array


def _characters(strings: NDArray[np.str_]) -> NDArray[Any]:
    length = strings.dtype.itemsize // 4
    lengths = np.strings.str_len(strings)
    if np.any(lengths != length):
        other = strings[lengths != length][0]
        raise InvalidFeaturesError(
            f"Hamming needs strings of one common length, got {shown(str(other))} among strings of {length}"
        )
    native = strings.astype(strings.dtype.newbyteorder("="), copy=False)
    return np.ascontiguousarray(native).view(np.uint32).reshape(len(strings), length)
