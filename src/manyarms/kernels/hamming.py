"""A kernel for categories: strings of equal length, or rows of integer codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError
from manyarms.kernels.base import Kernel, replace_field
from manyarms.validation import Floats, positive


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
        x, y = _codes(X), _codes(Y)
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
        return np.ones(len(X))


def _codes(X: Any) -> NDArray[Any]:
    """Strings become a matrix of character codes (a view, not a copy); integer codes pass through."""
    array = np.asarray(X)
    if array.dtype == object:
        if not all(isinstance(item, str) for item in array.ravel()):
            raise InvalidFeaturesError("Hamming needs strings of equal length or integer codes")
        array = array.astype(np.str_)
    if array.ndim == 1 and array.dtype.kind == "U":
        if len(array) and np.any(np.strings.str_len(array) != array.dtype.itemsize // 4):
            raise InvalidFeaturesError("Hamming needs strings of one common length")
        return np.ascontiguousarray(array).view(np.uint32).reshape(len(array), -1)
    if array.ndim != 2 or array.dtype.kind not in "iubU":
        raise InvalidFeaturesError(
            f"Hamming needs strings of equal length or integer codes, got {array.dtype} {array.shape}"
        )
    return array
