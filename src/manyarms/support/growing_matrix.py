"""A matrix that can grow in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

_GROWTH = 1.25  # factor of a capacity increase: few copies, and rows stay dense enough for the cache


class GrowingMatrix:
    """Rows × columns with spare capacity. Readers state the size of the upper-left corner they use.

    Writers only write outside the corner in use, so a reader with an earlier (rows, columns) corner still
    reads the same values. A failed or abandoned write is therefore harmless.
    """

    def __init__(self, rows: int, columns: int = 0, dtype: DTypeLike = np.float64) -> None:
        self._data: NDArray[Any] = np.empty((rows, columns), dtype=dtype)

    @classmethod
    def holding(cls, values: NDArray[Any]) -> GrowingMatrix:
        """A matrix with these contents and no spare capacity."""
        matrix = cls(values.shape[0], values.shape[1], values.dtype)
        matrix.write(slice(None), slice(None), values)
        return matrix

    @property
    def dtype(self) -> np.dtype[Any]:
        """Storage type: float64, or float32 for half the memory."""
        return self._data.dtype

    @property
    def nbytes(self) -> int:
        """Bytes allocated, including spare capacity."""
        return self._data.nbytes

    def reserve(self, rows: int, columns: int) -> None:
        """Ensure capacity for a corner of this size; the contents are kept."""
        have_rows, have_columns = self._data.shape
        if rows <= have_rows and columns <= have_columns:
            return
        new_rows = have_rows if rows <= have_rows else max(rows, int(have_rows * _GROWTH))
        new_columns = (
            have_columns if columns <= have_columns else max(columns + 8, int(have_columns * _GROWTH))
        )
        larger = np.empty((new_rows, new_columns), dtype=self.dtype)
        larger[:have_rows, :have_columns] = self._data
        self._data = larger

    def write(self, row: slice, column: slice, values: ArrayLike) -> None:
        """Store a block; the capacity must have been reserved."""
        self._data[row, column] = values

    def corner(self, rows: int, columns: int) -> NDArray[Any]:
        """The first rows and columns, as a view."""
        return self._data[:rows, :columns]
