"""The stored columns of z over the whole pool, and the one fast pass over them.

They are kept in panels of a few dozen to a few hundred columns. A new panel is added when the last one
is full, so nothing is ever copied or held twice: at a million arms the columns are all the memory there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from manyarms.validation import Floats

_SMALLEST_PANEL, _LARGEST_PANEL = 64, 512  # columns
_CHEAP_BYTES = 1 << 26  # a panel of a small pool is wide from the start: fewer calls in a pass
_PANEL_BYTES = 1 << 29  # a panel of a very large pool is narrower, so that its unused part stays small
_CACHE_BYTES = 1 << 20  # rows worked on together in a pass; they stay in the second-level cache
_FEW_FORMS = 6  # up to here repeated matrix–vector products on a cached block beat a matrix product


class Columns:
    """z of every arm: a matrix with a fixed number of rows that grows to the right.

    Readers say how many columns they mean. Writers only write behind the columns in use, so whoever
    holds an earlier number of columns still reads what it read before, and an abandoned write is harmless.
    """

    def __init__(self, rows: int, dtype: DTypeLike = np.float64, widths: tuple[int, ...] = ()) -> None:
        self.n_rows, self.dtype = rows, np.dtype(dtype)
        self._panels: list[NDArray[Any]] = [np.empty((rows, width), dtype=self.dtype) for width in widths]

    @property
    def widths(self) -> tuple[int, ...]:
        """How many columns each panel has room for."""
        return tuple(panel.shape[1] for panel in self._panels)

    @property
    def nbytes(self) -> int:
        """Bytes held, spare room included."""
        return sum(panel.nbytes for panel in self._panels)

    def reserve(self, columns: int) -> None:
        """Make room for so many columns in all."""
        have, column_bytes = sum(self.widths), max(self.n_rows * self.dtype.itemsize, 1)
        while have < columns:
            width = max(_SMALLEST_PANEL, have // 2, _CHEAP_BYTES // column_bytes)
            width = min(width, _LARGEST_PANEL, max(_SMALLEST_PANEL // 2, _PANEL_BYTES // column_bytes))
            self._panels.append(np.empty((self.n_rows, width), dtype=self.dtype))
            have += width

    def write(self, row: slice, first: int, values: NDArray[Any]) -> None:
        """Store `values` (rows × columns) from column `first` on; the room must have been reserved."""
        for start, stop, panel in self._parts(first, first + values.shape[1]):
            begin = max(start, first)
            panel[row, begin - start : stop - start] = values[:, begin - first : stop - first]

    def parts(self, columns: int) -> list[NDArray[Any]]:
        """The first columns, panel by panel, as views."""
        return [panel[:, : stop - start] for start, stop, panel in self._parts(0, columns)]

    def rows(self, which: ArrayLike, columns: int) -> Floats:
        """Some rows of the first columns, in double precision, as a new array."""
        chosen = np.asarray(which)
        parts = [np.asarray(part[chosen], dtype=np.float64) for part in self.parts(columns)]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts, axis=-1) if parts else np.empty((*chosen.shape, 0))

    def column(self, place: int) -> Floats:
        """One column of every row, in double precision."""
        start, _, panel = next(self._parts(place, place + 1))
        return panel[:, place - start].astype(np.float64)

    def product(self, forms: Floats, row: slice) -> Floats:
        """Σ_j data[i, j] · forms[j, r] for the rows in `row`: an array of r × rows, in one pass over memory.

        A matrix product with very few columns spends its time packing. Here each block of rows is
        brought into cache once and multiplied by one vector after the other. Panels are summed in double
        precision.
        """
        columns, n_forms = forms.shape
        vectors = np.ascontiguousarray(forms.T, dtype=self.dtype)
        total: Floats | None = None
        for start, stop, panel in self._parts(0, columns):
            partial = _panel_product(panel[row, : stop - start], vectors[:, start:stop])
            if total is None:
                total = partial.astype(np.float64, copy=False)
            else:
                total += partial
        return np.zeros((n_forms, len(range(*row.indices(self.n_rows))))) if total is None else total

    def _parts(self, first: int, last: int) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """(first column, end, panel) of the panels that hold columns `first` to `last`."""
        start = 0
        for panel in self._panels:
            if start < last and start + panel.shape[1] > first:
                yield start, min(start + panel.shape[1], last), panel
            start += panel.shape[1]


def _panel_product(data: NDArray[Any], vectors: NDArray[Any]) -> NDArray[Any]:
    result = np.empty((len(vectors), len(data)), dtype=data.dtype)
    if len(vectors) > _FEW_FORMS:
        return np.matmul(vectors, data.T, out=result)
    step = max(16, _CACHE_BYTES // (data.shape[1] * data.dtype.itemsize))
    for start in range(0, len(data), step):
        block = data[start : start + step]
        for r in range(len(vectors)):
            np.matmul(block, vectors[r], out=result[r, start : start + step])  # np.dot would copy
    return result
