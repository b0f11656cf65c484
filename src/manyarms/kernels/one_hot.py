"""Kernels on the one-hot columns of codes, words or strings, without these columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError, InvalidKernelError
from manyarms.kernels.checks import checked_lengthscale
from manyarms.kernels.combine import Kernel
from manyarms.kernels.distances import over_pairs
from manyarms.kernels.hamming import codes_of
from manyarms.kernels.mismatches import Mismatches
from manyarms.kernels.stationary import radial
from manyarms.support.frozen import replace_field
from manyarms.support.validation import Floats, positive


@dataclass(frozen=True)
class OneHot(Kernel):
    """Matérn of smoothness ν, or RBF (nu=None), of arms whose positions are one-hot columns.

    Two arms have the squared distance Σ_j 2 [x_j ≠ y_j] / l_j², with one length-scale or one per position:
    a position that differs has a one in two different columns. With one length-scale l, RBF is
    `Hamming(l² / d)` of d positions. Features are strings of one common length, words, or integer codes.
    """

    lengthscale: float | tuple[float, ...] = 1.0
    nu: float | None = 2.5

    def __post_init__(self) -> None:
        replace_field(self, "lengthscale", checked_lengthscale(self.lengthscale))
        replace_field(self, "nu", None if self.nu is None else positive("nu", self.nu))

    def matrix(self, X: Any, Y: Any) -> Floats:
        """The function of the squared distance of the one-hot columns."""
        x, y = self._codes(X), self._codes(Y)
        if (x.dtype.kind == "U") != (y.dtype.kind == "U"):
            raise InvalidFeaturesError("words and codes cannot be compared")
        if x.shape[1] != y.shape[1]:
            raise InvalidFeaturesError(
                f"arms with {x.shape[1]} and with {y.shape[1]} positions cannot be compared"
            )
        if not x.shape[1]:
            return np.ones((len(x), len(y)))
        if not isinstance(self.lengthscale, tuple):
            return self._by_number_of_mismatches(x, y)
        weights = 2.0 / np.square(self.lengthscale)
        return over_pairs(x, y, 0, lambda few, _, __: Mismatches(few, weights), radial(self.nu))

    def _by_number_of_mismatches(self, x: NDArray[Any], y: NDArray[Any]) -> Floats:
        """With one length-scale there are only d + 1 different values."""
        assert not isinstance(self.lengthscale, tuple)
        squares, values = (
            2.0 / self.lengthscale**2 * np.arange(x.shape[1] + 1.0),
            np.empty((1, x.shape[1] + 1)),
        )
        radial(self.nu)(squares[None, :], values)

        def look_up(numbers: Floats, result: Floats) -> None:
            np.take(values[0], numbers.astype(np.intp), out=result, mode="clip")

        return over_pairs(x, y, 0, lambda few, _, __: Mismatches(few, np.ones(x.shape[1])), look_up)

    def diag(self, X: Any) -> Floats:
        """One everywhere."""
        return np.ones(len(self._codes(X)))

    def _codes(self, X: Any) -> NDArray[Any]:
        codes = codes_of(X)
        if isinstance(self.lengthscale, tuple) and codes.shape[1] != len(self.lengthscale):
            raise InvalidKernelError(
                f"the kernel has {len(self.lengthscale)} length-scales, "
                f"the arms have {codes.shape[1]} positions"
            )
        return codes
