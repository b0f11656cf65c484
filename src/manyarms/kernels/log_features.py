"""A kernel on features of which some are on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from manyarms.errors import InvalidFeaturesError, InvalidParameterError
from manyarms.kernels.base import KernelLike
from manyarms.kernels.checks import numeric
from manyarms.kernels.combine import Kernel, as_kernel
from manyarms.support.validation import Floats, count


class LogFeatures(Kernel):
    """k(x, y) = k₀(x', y'), where x' is x with the natural logarithm of the features in `columns`."""

    def __init__(self, kernel: KernelLike, columns: Sequence[int]) -> None:
        self.kernel = as_kernel(kernel)
        self.columns = tuple(count("columns", column, minimum=0) for column in columns)
        if not self.columns:
            raise InvalidParameterError("columns", columns, "at least one column")

    def matrix(self, X: Any, Y: Any) -> Floats:
        """k₀ of the transformed features."""
        return self.kernel.matrix(self._transformed(X), self._transformed(Y))

    def diag(self, X: Any) -> Floats:
        """k₀ of the transformed features."""
        return self.kernel.diag(self._transformed(X))

    def _transformed(self, X: Any) -> Floats:
        features, columns = numeric(X).copy(), list(self.columns)
        if max(columns) >= features.shape[1]:
            raise InvalidFeaturesError(f"there is no column {max(columns)} in {features.shape[1]} features")
        logged = features[:, columns]
        if not (logged > 0).all():
            raise InvalidFeaturesError(f"feature {logged[~(logged > 0)][0]} has no logarithm")
        features[:, columns] = np.log(logged)
        return features

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogFeatures) and (self.kernel, self.columns) == (other.kernel, other.columns)

    def __hash__(self) -> int:
        return hash((LogFeatures, self.kernel, self.columns))

    def __repr__(self) -> str:
        return f"LogFeatures({self.kernel!r}, {self.columns!r})"
