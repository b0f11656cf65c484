"""A kernel on tables whose columns are read in different ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.errors import InvalidKernelError, InvalidParameterError
from manyarms.kernels.checks import checked_lengthscale, numeric, numeric_pair
from manyarms.kernels.combine import Kernel
from manyarms.kernels.distances import Measure, over_pairs, squares_to
from manyarms.kernels.mismatches import Mismatches
from manyarms.kernels.readings import NAME, Reading
from manyarms.kernels.stationary import radial
from manyarms.support.frozen import replace_field
from manyarms.support.validation import Floats, positive


@dataclass(frozen=True)
class Mixed(Kernel):
    """Matérn of smoothness ν, or RBF (nu=None), of columns read as the `readings` say.

    Two arms have the squared distance Σ_r ‖r(x) − r(y)‖² / l_r² with one length-scale l_r for each reading r
    (or one for all). A column read as names contributes 2 [x_j ≠ y_j] / l², as its one-hot columns would.
    """

    readings: tuple[Reading, ...]
    lengthscale: float | tuple[float, ...] = 1.0
    nu: float | None = 2.5

    def __post_init__(self) -> None:
        replace_field(self, "readings", tuple(self.readings))
        if not self.readings or not all(isinstance(each, Reading) for each in self.readings):
            raise InvalidParameterError("readings", self.readings, "one or more Reading objects")
        replace_field(self, "lengthscale", checked_lengthscale(self.lengthscale))
        if isinstance(self.lengthscale, tuple) and len(self.lengthscale) != len(self.readings):
            raise InvalidKernelError(
                f"the kernel has {len(self.lengthscale)} length-scales and {len(self.readings)} readings"
            )
        replace_field(self, "nu", None if self.nu is None else positive("nu", self.nu))

    def matrix(self, X: Any, Y: Any) -> Floats:
        """The function of the squared distance."""
        X, Y = numeric_pair(X, Y)
        self._check(X)
        lengths = np.broadcast_to(np.asarray(self.lengthscale), (len(self.readings),))
        is_name = np.array([reading.kind == NAME for reading in self.readings])
        scale = np.repeat(lengths, [reading.width for reading in self.readings])
        weights = 2.0 / np.square(lengths[is_name])

        def measure(few: Floats, n_many: int, products: bool) -> Measure:
            return _Distances(few, n_many, products, scale, weights)

        return over_pairs(self._read(X), self._read(Y), len(scale), measure, radial(self.nu))

    def _read(self, X: Floats) -> Floats:
        """The numbers of all readings, then the codes of those that are names."""
        numbers = [reading.numbers(X) for reading in self.readings if reading.kind != NAME]
        codes = [X[:, reading.columns] for reading in self.readings if reading.kind == NAME]
        return np.hstack([*numbers, *codes])

    def diag(self, X: Any) -> Floats:
        """One everywhere."""
        X = numeric(X)
        self._check(X)
        return np.ones(len(X))

    def _check(self, X: Floats) -> None:
        for reading in self.readings:
            reading.check(X.shape[1])


class _Distances:
    """The sum of a squared distance of numbers and of the weights of different codes."""

    def __init__(self, few: Floats, n_many: int, products: bool, scale: Floats, weights: Floats) -> None:
        self._n_numbers = len(scale)
        self._numbers = squares_to(few[:, : len(scale)], n_many, scale, products) if len(scale) else None
        self._names = Mismatches(few[:, len(scale) :], weights) if len(weights) else None
        one = self._numbers or self._names
        assert one is not None
        self.rows, self.points = one.rows, one.points

    def prepared(self, block: Floats) -> tuple[Any, Any]:
        numbers, codes = block[:, : self._n_numbers], block[:, self._n_numbers :]
        return (
            self._numbers.prepared(numbers) if self._numbers else None,
            self._names.prepared(codes) if self._names else None,
        )

    def fill(self, piece: Floats, points: slice, block: tuple[Any, Any]) -> None:
        numbers, names = block
        if self._names is not None:
            self._names.fill(piece, points, names)
        if self._numbers is None:
            return
        if self._names is None:
            self._numbers.fill(piece, points, numbers)
            return
        more = np.empty_like(piece)
        self._numbers.fill(more, points, numbers)
        piece += more
