"""Checks shared by the feature maps on numbers: matching rows, and read-only arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError
from manyarms.kernels.checks import numeric
from manyarms.support.validation import Floats


def checked_rows(X: Any, n_features: int) -> Floats:
    """X as a float64 matrix with this many columns."""
    rows = numeric(X)
    if rows.shape[1] != n_features:
        raise InvalidFeaturesError(
            f"this map was made for {n_features} features, but the arms have {rows.shape[1]}"
        )
    return rows


def read_only(array: Any, dtype: type[np.generic] = np.float64) -> NDArray[Any]:
    """A read-only copy."""
    copy = np.array(array, dtype=dtype)
    copy.flags.writeable = False
    return copy
