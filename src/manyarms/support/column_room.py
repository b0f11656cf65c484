"""Where stored columns live: in memory, in temporary files, or nowhere, to be computed again at each use.

A folder of files lets a pool be larger than memory. The files are mapped, so the same loops read them, and
the same numbers come out. Before a column is written, room for it is reserved in the file
(`unnamed_file.py`).
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from manyarms.errors import InvalidParameterError, StorageFullError
from manyarms.support.column_store import PANEL, Columns, Panel
from manyarms.support.unnamed_file import UnnamedFile, default_folder, free_bytes
from manyarms.support.validation import count

WAYS = ("auto", "memory", "disk", "recompute")
SHARE = 0.6  # of the memory that is available when the first columns are made
EXPECTED = 512  # columns of a sketch; while it is rebuilt, the old ones exist beside the new ones
_log = logging.getLogger("manyarms.engines")


@dataclass(frozen=True)
class StorageSettings:
    """How columns are kept; see `manyarms.engines.Local` for the meaning."""

    way: str = "auto"
    folder: str | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        if self.way not in WAYS:
            raise InvalidParameterError("storage", self.way, f"one of {', '.join(WAYS)}")
        if self.memory is not None:
            count("memory", self.memory)

    def __str__(self) -> str:
        parts = [f"storage={self.way!r}"]
        parts += [f"{name}={value!r}" for name in ("folder", "memory") if (value := getattr(self, name))]
        return ", ".join(parts)


class ColumnRoom:
    """The room for columns of one process, and what has been used of it."""

    def __init__(self, settings: StorageSettings | None = None) -> None:
        self.settings = settings or StorageSettings()
        self.folder = self.settings.folder or default_folder()
        self._limit = self.settings.memory
        self._lock = Lock()
        self._used = {"memory": 0, "disk": 0}  # bytes
        self._freed: deque[tuple[str, int]] = deque()  # appended by finalizers, at any moment
        self._recomputed: weakref.WeakSet[Columns] = weakref.WeakSet()
        self._told: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        self.__init__(attributes["settings"])  # type: ignore[misc]

    def __deepcopy__(self, memo: dict[int, Any]) -> ColumnRoom:
        return self  # copies of a run share what the process has

    def columns(self, rows: int, dtype: Any, n_arms: int) -> Columns:
        """An empty store for some rows of a pool of `n_arms` arms."""
        if self.settings.way == "recompute" or (
            self.settings.way == "auto" and self._too_large(n_arms, dtype)
        ):
            from manyarms.support.recomputed_columns import RecomputedColumns

            made = RecomputedColumns(rows, dtype)
            self._recomputed.add(made)
            return made
        return Columns(rows, dtype, places=None if self.settings.way == "memory" else self)

    def panel(self, rows: int, dtype: np.dtype[Any]) -> Panel:
        """A new panel, in memory while there is room."""
        nbytes = PANEL * rows * dtype.itemsize
        with self._lock:
            self._take_freed()
            where = "disk" if self.settings.way == "disk" or self._full(nbytes) else "memory"
            panel = Panel(np.empty((PANEL, rows), dtype)) if where == "memory" else self._in_file(rows, dtype)
            self._used[where] += nbytes
        weakref.finalize(panel.array, self._freed.append, (where, nbytes)).atexit = False
        return panel

    def in_use(self) -> str:
        """One sentence: where the columns of this process are at present."""
        with self._lock:
            self._take_freed()
        parts = [
            f"{_amount(self._used[where])} in {place}"
            for where, place in (("memory", "memory"), ("disk", f"files in {self.folder}"))
            if self._used[where]
        ]
        if len(self._recomputed):
            parts.append("some computed again at each use")
        return "columns: " + (", ".join(parts) or "none yet")

    # ------------------------------------------------------------------ choosing

    @property
    def limit(self) -> int:
        """The bytes that columns may take in memory."""
        if self._limit is None:
            from manyarms.support.available_memory import available_memory

            self._limit = int(SHARE * available_memory())
        return self._limit

    def _full(self, nbytes: int) -> bool:
        if self._used["memory"] + nbytes <= self.limit:
            return False
        self._tell(
            f"columns of the posterior are kept in files in {self.folder}: they may take "
            f"{_amount(self.limit)} of memory"
        )
        return True

    def _too_large(self, n_arms: int, dtype: Any) -> bool:
        """Whether the columns of a usual sketch fit neither into memory nor into the folder."""
        wanted = 2 * EXPECTED * n_arms * np.dtype(dtype).itemsize
        if wanted <= self.limit or wanted <= self.limit + free_bytes(self.folder):
            return False
        self._tell(
            f"columns of the posterior are computed again at each use: {EXPECTED} columns, twice during a "
            f"rebuild, take {_amount(wanted)}, more than {_amount(self.limit)} of memory and "
            f"{_amount(free_bytes(self.folder))} of disk in {self.folder}"
        )
        return True

    def _tell(self, message: str) -> None:
        """Log what was chosen, once."""
        if message.split(":")[0] not in self._told:
            self._told.add(message.split(":")[0])
            _log.warning(message)

    def _take_freed(self) -> None:
        while self._freed:
            where, nbytes = self._freed.popleft()
            self._used[where] -= nbytes

    # ------------------------------------------------------------------ files

    def _in_file(self, rows: int, dtype: np.dtype[Any]) -> Panel:
        nbytes = PANEL * rows * dtype.itemsize
        try:
            file = UnnamedFile(self.folder, nbytes)
        except OSError as problem:
            raise StorageFullError(f"no file can be made in {self.folder}: {problem.strerror}") from None
        array: Any = np.frombuffer(file.mapped, dtype=dtype).reshape(PANEL, rows)
        return Panel(array, _Secured(file, self.folder, rows * dtype.itemsize).up_to)


@cache
def room_of_process(settings: StorageSettings) -> ColumnRoom:
    """The room that all shards of this process with these settings share."""
    return ColumnRoom(settings)


class _Secured:
    """How much of a file the disk has promised room for."""

    def __init__(self, file: UnnamedFile, folder: str, bytes_per_column: int) -> None:
        self._file, self._folder, self._step = file, folder, bytes_per_column
        self._secured = 0

    def up_to(self, columns: int) -> None:
        """Reserve room on the disk, so that writing through the mapping cannot fail."""
        wanted = columns * self._step
        if wanted <= self._secured:
            return
        try:
            self._file.reserve(self._secured, wanted - self._secured)
        except OSError as problem:
            raise StorageFullError(
                f"{self._folder} has no room for {_amount(wanted - self._secured)} of columns "
                f"({problem.strerror}): name another folder, or use storage='recompute'"
            ) from None
        self._secured = wanted


def _amount(nbytes: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} bytes"
