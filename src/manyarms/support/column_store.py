"""The stored columns of z over the whole pool, and one fast pass over them.

Each column is contiguous, so writing a new one and reading all of them are sequential in memory. They are
kept in panels of `PANEL` columns. A new panel is added when the last one is full, so nothing is ever copied
or held twice: with a million arms the columns take nearly all the memory.

Passes go through blocks of rows, counted from the beginning of the range that they are given. A matrix
product rounds a row differently in blocks of different shapes. For results that do not depend on how a pool
is divided, let ranges begin at multiples of `BLOCK_ROWS` and end at one or at the end of the pool, and use
one thread for each product (`support/threads.py`); then a row has the same bits in every division.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from manyarms.support.validation import Floats

PANEL = 128  # columns; sums over a panel are in the storage precision, sums over panels in double
BLOCK_ROWS = 1 << 14
PRODUCT_ROWS = 4096  # of one matrix product
_CACHE_BYTES = 1 << 20  # of a panel, processed together when several linear forms are computed
_FEW_FORMS = 6  # up to this many forms, matrix–vector products on a cached block beat a matrix product
MOST_COMPILED_FORMS = 8  # above, a matrix product is faster than the compiled sweep

Fill = Callable[["Columns", slice], None]  # computes and writes some columns of consecutive rows


class Panel(NamedTuple):
    """An array of `PANEL` × rows; `secure(columns)`, if there is one, makes sure that they can be written."""

    array: NDArray[Any]
    secure: Callable[[int], None] | None = None


class Places(Protocol):
    """Where panels are kept, in memory or in files (`column_room.py`)."""

    def panel(self, rows: int, dtype: np.dtype[Any]) -> Panel:
        """A new panel."""


class Columns:
    """z of every arm: a matrix with a fixed number of rows that grows to the right.

    Readers state how many columns they use. Writers only write to the right of the columns in use, so a
    reader with an earlier number of columns still reads the same values, and an abandoned write is harmless.
    """

    stored = True  # whether what is written is kept

    def __init__(
        self, rows: int, dtype: DTypeLike = np.float64, columns: int = 0, places: Places | None = None
    ) -> None:
        self.n_rows, self.dtype, self._places = rows, np.dtype(dtype), places
        self._panels: list[NDArray[Any]] = []  # each `PANEL` × rows: a column of z is a row here
        self._secures: list[Callable[[int], None] | None] = []
        self.reserve(columns)

    def __getstate__(self) -> dict[str, Any]:
        """The columns as they are read in another process, where they are in memory."""
        return {**vars(self), "_places": None, "_secures": [None] * len(self._panels)}

    @property
    def nbytes(self) -> int:
        """Bytes allocated, including spare capacity."""
        return sum(panel.nbytes for panel in self._panels)

    def reserve(self, columns: int) -> None:
        """Allocate room for `columns` columns in total; pages that were never written take no memory yet."""
        while len(self._panels) * PANEL < columns:
            shape = PANEL, self.n_rows
            new = (
                Panel(np.empty(shape, dtype=self.dtype))
                if self._places is None
                else self._places.panel(self.n_rows, self.dtype)
            )
            self._panels.append(new.array)
            self._secures.append(new.secure)
        for place, secure in enumerate(self._secures):
            if secure is not None:
                secure(min(max(columns - place * PANEL, 0), PANEL))

    def remember(self, first: int, stop: int, rows: int, fill: Fill) -> None:
        """Take note of how the columns from `first` to before `stop` are computed, in blocks of `rows` rows.

        They are stored, so there is nothing to note; `RecomputedColumns` needs it.
        """

    def branched(self, columns: int) -> Columns:
        """A copy of the first columns, with room of its own for more."""
        other = Columns(self.n_rows, self.dtype, columns, self._places)
        other.write_parts(slice(None), self.parts(columns))
        return other

    def write(self, row: slice, first: int, values: NDArray[Any]) -> None:
        """Store `values` (rows × columns) starting at column `first`; the room must have been reserved."""
        self.write_columns(row, first, values.T)

    def write_columns(self, row: slice, first: int, values: NDArray[Any]) -> None:
        """Store `values` (columns × rows, as they are stored) starting at column `first`."""
        for start, begin, stop, panel in self._parts(first, first + len(values)):
            panel[begin - start : stop - start, row] = values[begin - first : stop - first]

    def write_parts(self, row: slice, parts: Sequence[NDArray[Any]]) -> None:
        """Store arrays of rows × columns side by side, from the first column on."""
        first = 0
        for part in parts:
            self.write(row, first, part)
            first += part.shape[1]

    def parts(self, columns: int) -> list[NDArray[Any]]:
        """The first columns, panel by panel, as views of rows × columns."""
        return [panel[: stop - start].T for start, _, stop, panel in self._parts(0, columns)]

    def rows(self, which: ArrayLike, columns: int) -> Floats:
        """Some rows of the first columns, in double precision, as a new array."""
        chosen = np.asarray(which)
        found = np.empty((*chosen.shape, columns))
        for start, _, stop, panel in self._parts(0, columns):
            found[..., start:stop] = panel[: stop - start, chosen].T
        return found

    def block(self, row: slice, columns: int) -> Floats:
        """The first columns of consecutive rows, in double precision, as a new array of rows × columns.

        Each column is contiguous, as in the store.
        """
        found = np.empty((columns, row.stop - row.start))
        for start, _, stop, panel in self._parts(0, columns):
            found[start:stop] = panel[: stop - start, row]
        return found.T

    def column(self, place: int) -> Floats:
        """One column of every row, in double precision."""
        return np.asarray(self._panels[place // PANEL][place % PANEL], dtype=np.float64)

    def product(self, forms: Floats, row: slice, compiled: bool = False) -> Floats:
        """Σ_j data[i, j] · forms[j, r] for the rows in `row`: an array of r × rows, in one pass over memory.

        Panels are summed in double precision. `compiled` chooses the loops of compiled_forms.py, which are
        faster for few forms; the caller decides (`support/compiled.py`), for the whole pool alike.
        """
        columns, n_forms = forms.shape
        begin, end, _ = row.indices(self.n_rows)
        total = np.zeros((n_forms, max(end - begin, 0)))
        if compiled and n_forms <= MOST_COMPILED_FORMS:
            from manyarms.support.compiled_forms import add_forms

            vectors = np.ascontiguousarray(forms.T)
            for place, _, stop, panel in self._parts(0, columns):
                add_forms(panel[: stop - place], vectors, place, begin, total)
            return total
        vectors = np.ascontiguousarray(forms.T, dtype=self.dtype)
        for start in range(begin, end, PRODUCT_ROWS):
            rows = slice(start, min(start + PRODUCT_ROWS, end))
            for place, _, stop, panel in self._parts(0, columns):
                part = _panel_product(vectors[:, place:stop], panel[: stop - place, rows])
                total[:, rows.start - begin : rows.stop - begin] += part
        return total

    def _parts(self, first: int, last: int) -> Iterator[tuple[int, int, int, NDArray[Any]]]:
        """(first column of the panel, begin, end, panel) for the panels with columns `first` to `last`."""
        for place in range(first // PANEL, -(-last // PANEL)):
            start = place * PANEL
            yield start, max(start, first), min(start + PANEL, last), self._panels[place]


def _panel_product(vectors: NDArray[Any], data: NDArray[Any]) -> NDArray[Any]:
    """vectors (forms × columns) times data (columns × rows, at most a block).

    A matrix product with very few columns spends its time packing. For few forms, a part of the block is
    loaded into the cache once and multiplied by one vector after the other.
    """
    if len(vectors) > _FEW_FORMS:
        return np.asarray(vectors @ data)
    result = np.empty((len(vectors), data.shape[1]), dtype=data.dtype)
    step = max(1, _CACHE_BYTES // (PANEL * data.dtype.itemsize))
    for start in range(0, data.shape[1], step):
        block = data[:, start : start + step]
        for r in range(len(vectors)):
            np.matmul(vectors[r], block, out=result[r, start : start + step])  # np.dot would copy
    return result
