"""Columns of z that are not stored: blocks of rows are computed again whenever they are read.

The store keeps, for each group of columns, the function that computed them. A block of rows is filled by
calling these functions in their order, with the same blocks of rows as at first, so the numbers are those of
stored columns to the last bit. A pass then costs O(A·m²) instead of O(A·m), and no memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from manyarms.support.column_store import PRODUCT_ROWS, Columns, Fill
from manyarms.support.validation import Floats

_MOST_ROWS = 1 << 13  # single rows that are remembered; the driver asks for the same ones repeatedly


@dataclass(frozen=True)
class _Group:
    """The columns from `first` to before `stop`, and how they are computed."""

    first: int
    stop: int
    rows: int
    fill: Fill


class _Window(Columns):
    """Some consecutive rows, addressed by their positions in the whole store."""

    def __init__(self, row: slice, dtype: DTypeLike, columns: int) -> None:
        super().__init__(row.stop - row.start, dtype, columns)
        self.row = row

    def _here(self, row: slice) -> slice:
        return slice(row.start - self.row.start, row.stop - self.row.start)

    def write_columns(self, row: slice, first: int, values: NDArray[Any]) -> None:
        super().write_columns(self._here(row), first, values)

    def block(self, row: slice, columns: int) -> Floats:
        return super().block(self._here(row), columns)

    def product(self, forms: Floats, row: slice, compiled: bool = False) -> Floats:
        return super().product(forms, self._here(row), compiled)


class RecomputedColumns(Columns):
    """z of every arm, computed again from the functions that `remember` was given."""

    stored = False

    def __init__(self, rows: int, dtype: DTypeLike = np.float64) -> None:
        super().__init__(rows, dtype)
        self._groups: tuple[_Group, ...] = ()
        self._last: tuple[Any, _Window] | None = (
            None  # the window of the last read: passes read it repeatedly
        )
        self._known: dict[int, Floats] = {}  # single rows, with as many columns as were asked for

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_last": None, "_known": {}}

    # ------------------------------------------------------------------ writing

    def reserve(self, columns: int) -> None:
        """Nothing is stored."""

    def write_columns(self, row: slice, first: int, values: NDArray[Any]) -> None:
        """Nothing is stored: `remember` says how to compute it again."""

    def remember(self, first: int, stop: int, rows: int, fill: Fill) -> None:
        """Take note of how columns are computed; later ones, which nothing refers to, are dropped."""
        kept = tuple(group for group in self._groups if group.stop <= first)
        if len(kept) < len(self._groups):
            self._known = {}
        self._last = None
        self._groups = (*kept, _Group(first, stop, rows, fill))

    def branched(self, columns: int) -> RecomputedColumns:
        """The same first columns, to which others can be added."""
        other = RecomputedColumns(self.n_rows, self.dtype)
        other._groups = tuple(group for group in self._groups if group.stop <= columns)
        return other

    # ------------------------------------------------------------------ reading

    def parts(self, columns: int) -> list[NDArray[Any]]:
        """All first columns, stored for the occasion."""
        stored = Columns(self.n_rows, self.dtype, columns)
        for row, window in self._windows(slice(0, self.n_rows), columns):
            stored.write_parts(row, window.parts(columns))
        return stored.parts(columns)

    def rows(self, which: ArrayLike, columns: int) -> Floats:
        """Some rows of the first columns, in double precision; each block that holds some is computed."""
        chosen = np.asarray(which)
        places = chosen.ravel()
        missing = [p for p in dict.fromkeys(places.tolist()) if not self._has(p, columns)]
        fresh: dict[int, Floats] = {}
        whole = self._stop(columns)
        for begin, inside in self._by_window(missing, whole):
            window = self._window(begin, whole)
            values = Columns.rows(window, np.array(inside) - window.row.start, columns)
            fresh.update(zip(inside, values, strict=True))
        found = np.empty((len(places), columns))
        for i, place in enumerate(places.tolist()):
            found[i] = (fresh[place] if place in fresh else self._known[place])[:columns]
        if len(self._known) + len(fresh) <= _MOST_ROWS:
            self._known |= fresh
        return found.reshape(*chosen.shape, columns)

    def block(self, row: slice, columns: int) -> Floats:
        """The first columns of consecutive rows, in double precision."""
        return np.concatenate([window.block(here, columns) for here, window in self._windows(row, columns)])

    def column(self, place: int) -> Floats:
        """One column of every row, in double precision."""
        parts = [window.column(place) for _, window in self._windows(slice(0, self.n_rows), place + 1)]
        return np.concatenate(parts)

    def product(self, forms: Floats, row: slice, compiled: bool = False) -> Floats:
        """Σ_j data[i, j] · forms[j, r] for the rows in `row`: an array of r × rows."""
        begin, end, _ = row.indices(self.n_rows)
        windows = self._windows(slice(begin, end), len(forms))
        return np.concatenate([window.product(forms, here, compiled) for here, window in windows], axis=1)

    # ------------------------------------------------------------------ windows

    def _windows(self, row: slice, columns: int) -> Iterator[tuple[slice, _Window]]:
        """The rows of `row` in each block, and the window that holds their first columns (or more)."""
        columns = self._stop(columns)
        size = self._size(columns)
        for begin in range(row.start // size * size, row.stop, size):
            window = self._window(begin, columns)
            yield slice(max(begin, row.start), min(window.row.stop, row.stop)), window

    def _window(self, begin: int, columns: int) -> _Window:
        """The window that begins with row `begin`, filled with the first columns."""
        known = self._last
        if known is not None and known[0] == (begin, columns):
            return known[1]
        window = _Window(slice(begin, min(begin + self._size(columns), self.n_rows)), self.dtype, columns)
        for group in self._groups:
            if group.stop <= columns:
                group.fill(window, window.row)
        self._last = (begin, columns), window
        return window

    def _size(self, columns: int) -> int:
        """Rows of a window: no smaller than any block in which a column was computed or is multiplied."""
        return max([PRODUCT_ROWS, *(group.rows for group in self._groups if group.stop <= columns)])

    def _stop(self, columns: int) -> int:
        """The end of the group that holds the last of these columns; a group is computed as a whole."""
        return min((group.stop for group in self._groups if group.stop >= columns), default=columns)

    def _has(self, place: int, columns: int) -> bool:
        return place in self._known and len(self._known[place]) >= columns

    def _by_window(self, places: Sequence[int], columns: int) -> list[tuple[int, list[int]]]:
        size, found = self._size(columns), dict[int, list[int]]()
        for place in sorted(places):
            found.setdefault(place // size * size, []).append(place)
        return list(found.items())
