"""A copy of rows that are read again and again, in a temporary file that is mapped into memory.

A row of a Parquet file cannot be read alone: its row group has to be decoded as a whole, often a million rows
for one. A run asks for hundreds of single rows in each batch, and passes over all rows several times. So each
row group is decoded once, and its rows are copied as they are.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.support.unnamed_file import UnnamedFile, default_folder, free_bytes

ROOM = 2  # times the bytes of all rows must be free on the disk; otherwise nothing is copied
_log = logging.getLogger("manyarms.engines")


class RowCopy:
    """The rows from 0 to before `n_rows`, of which some are known. Several threads may use it.

    The file is made when the first rows are kept; `refused` says that it could not be made or grow. A copy in
    another process begins without any rows.
    """

    def __init__(self, n_rows: int, n_columns: int, dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = (n_rows, n_columns), dtype
        self._forget()

    def _forget(self) -> None:
        self._file: UnnamedFile | None = None
        self._rows: NDArray[Any] | None = None
        self._known: set[int] = set()  # the first row of each range that was kept
        self.refused = False

    def __getstate__(self) -> dict[str, Any]:
        return {"shape": self.shape, "dtype": self.dtype}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes)
        self._forget()

    def rows(self, first: int, stop: int) -> NDArray[Any] | None:
        """The rows of a range that was kept, or None."""
        return self._rows[first:stop] if self._rows is not None and first in self._known else None

    def keep(self, first: int, rows: NDArray[Any]) -> None:
        """Copy a range of rows; nothing happens if there is no room on the disk."""
        if self.refused or first in self._known:
            return
        width = self.shape[1] * self.dtype.itemsize
        try:
            writable = self._opened()
            assert self._file is not None
            self._file.reserve(first * width, len(rows) * width)
        except OSError as problem:
            self.refused = True
            _log.warning(f"rows are decoded again at every pass: {problem.strerror or problem}")
            return
        writable[first : first + len(rows)] = rows
        self._known.add(first)

    def _opened(self) -> NDArray[Any]:
        """All rows of the file, to be written to."""
        if self._file is None:
            folder, nbytes = default_folder(), self.shape[0] * self.shape[1] * self.dtype.itemsize
            if free_bytes(folder) < ROOM * nbytes:
                raise OSError(f"a copy of them takes {nbytes:,} bytes of {folder}, which has too little room")
            self._file = UnnamedFile(folder, nbytes)
        whole: NDArray[Any] = np.frombuffer(self._file.mapped, dtype=self.dtype).reshape(self.shape)
        if self._rows is None:
            self._rows = whole.view()
            self._rows.flags.writeable = False
        return whole
