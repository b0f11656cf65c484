"""A matrix that grows to the right and downwards."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

_GROWTH = 1.25  # capacity is raised by this factor: few copies, and rows stay dense enough for the cache


class GrowingMatrix:
    """Rows × columns with spare room. Readers say which corner they mean, so a corner never changes.

    Writers only ever write outside the corner in use; whoever holds an earlier (rows, columns) corner
    still reads what it read before. That makes a failed or abandoned write harmless.
    """

    def __init__(self, rows: int, columns: int = 0, dtype: DTypeLike = np.float64) -> None:
        self._data: NDArray[Any] = np.empty((rows, columns), dtype=dtype)

    @classmethod
    def holding(cls, values: NDArray[Any]) -> GrowingMatrix:
        """A matrix with these contents and no spare room yet."""
        matrix = cls(values.shape[0], values.shape[1], values.dtype)
        matrix.write(slice(None), slice(None), values)
        return matrix

    @property
    def dtype(self) -> np.dtype[Any]:
        """Storage type: float64, or float32 for half the memory."""
        return self._data.dtype

    @property
    def nbytes(self) -> int:
        """Bytes held, spare room included."""
        return self._data.nbytes

    def reserve(self, rows: int, columns: int) -> None:
        """Make room for a corner of this size, keeping what is there."""
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
        """Store a block; the room must have been reserved."""
        self._data[row, column] = values

    def corner(self, rows: int, columns: int) -> NDArray[Any]:
        """The first rows and columns, as a view."""
        return self._data[:rows, :columns]
