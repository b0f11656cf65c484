"""A kernel that reads only some of the features, such as those of the action or those of the context."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from manyarms.errors import InvalidFeaturesError, InvalidParameterError
from manyarms.kernels.base import KernelLike
from manyarms.kernels.checks import as_array
from manyarms.kernels.combine import Kernel, as_kernel
from manyarms.support.validation import Floats


class OnColumns(Kernel):
    """k(x, y) = k₀(x_J, y_J) for the columns J of the features.

    Products and sums of such kernels treat groups of features differently: with rows of action features
    followed by context features, `OnColumns(RBF(1.0), range(0, 3)) * OnColumns(RBF(2.0), range(3, 8))` calls
    two rows similar if both the actions and the contexts are.
    """

    def __init__(self, kernel: KernelLike, columns: int | Iterable[int]) -> None:
        self.kernel = as_kernel(kernel)
        self.columns = _checked_columns(columns)
        first, last = self.columns[0], self.columns[-1]
        consecutive = self.columns == tuple(range(first, last + 1))
        self._index: Any = slice(first, last + 1) if consecutive else list(self.columns)  # a slice is a view

    def matrix(self, X: Any, Y: Any) -> Floats:
        """The covariances of the columns; rows that all agree in them are evaluated once."""
        X, Y = self._part(X), self._part(Y)
        if len(X) > 1 and (X[:1] == X).all():  # one context for every action of a round
            return np.repeat(self.kernel.matrix(X[:1], Y), len(X), axis=0)
        if len(Y) > 1 and (Y[:1] == Y).all():
            return np.repeat(self.kernel.matrix(X, Y[:1]), len(Y), axis=1)
        return self.kernel.matrix(X, Y)

    def diag(self, X: Any) -> Floats:
        """The prior variances of the columns."""
        return self.kernel.diag(self._part(X))

    def _part(self, X: Any) -> Any:
        array = as_array(X)
        if array.ndim != 2 or array.shape[1] <= max(self.columns):
            raise InvalidFeaturesError(
                f"the kernel reads column {max(self.columns)}, the features have shape {array.shape}"
            )
        return array[:, self._index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnColumns) and (self.kernel, self.columns) == (other.kernel, other.columns)

    def __hash__(self) -> int:
        return hash((OnColumns, self.kernel, self.columns))

    def __repr__(self) -> str:
        return f"OnColumns({self.kernel!r}, {list(self.columns)!r})"


def _checked_columns(columns: Any) -> tuple[int, ...]:
    """One or more different column numbers, from 0."""
    try:
        listed = list(columns) if isinstance(columns, Iterable) else [columns]
        numbers = tuple(operator.index(column) for column in listed if not isinstance(column, bool))
    except TypeError:
        numbers = ()
    if not numbers or len(set(numbers)) != len(listed) or min(numbers) < 0:
        raise InvalidParameterError("columns", columns, "different column numbers, counted from 0")
    return numbers
