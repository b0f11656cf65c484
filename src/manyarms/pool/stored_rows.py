"""Rows of numbers in Parquet files, read when they are used."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError, MissingExtraError, PoolTooLargeError, TableError, shown
from manyarms.pool.arrays import joined_columns
from manyarms.pool.row_copy import RowCopy
from manyarms.pool.tables import _columns, _parquet_column
from manyarms.support.validation import Ints

_REMEMBERED = 1 << 16  # rows that were asked for one by one; the driver asks for the same ones at each step
_WILDCARDS = "*?["


@dataclass(frozen=True)
class RowGroup:
    """A row group of a file; `first` is its first row among the rows of all files."""

    path: str
    number: int
    first: int
    stop: int


class StoredRows:
    """The features of a pool in files, with the part of an array's interface that passes over a pool need.

    A range of rows, some rows or one row are read when they are asked for. All rows are kept in memory once
    they were read in order, if they take at most `keep` bytes. If they take more, each row group is copied to
    a temporary file when it is read (`row_copy.py`). What is sent to another process are the places of the
    rows, not the rows.
    """

    ndim = 2

    def __init__(
        self, groups: Sequence[RowGroup], filesystem: Any, names: list[str], dtype: np.dtype[Any], keep: int
    ) -> None:
        self.groups, self.filesystem, self.names, self.keep = tuple(groups), filesystem, names, keep
        self.first, self.stop = 0, groups[-1].stop
        self.dtype, self.n_columns = dtype, len(names)
        self._copy = RowCopy(self.stop, self.n_columns, dtype)
        self._plain_dtype = dtype  # before rows are encoded
        self.encode: Callable[[Any], NDArray[Any]] | None = None
        self._forget()

    def _forget(self) -> None:
        self._all: NDArray[Any] | None = None
        self._last: tuple[RowGroup, NDArray[Any]] | None = None
        self._rows: dict[int, NDArray[Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_all": None, "_last": None, "_rows": {}}

    # ------------------------------------------------------------------ as an array

    def __len__(self) -> int:
        return self.stop - self.first

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return len(self), self.n_columns

    @property
    def nbytes(self) -> int:
        """The bytes that all rows take in memory."""
        return len(self) * self.n_columns * self.dtype.itemsize

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, tuple) and len(which) == 2 and isinstance(which[0], int | np.integer):
            return self[which[0]][which[1]]
        if isinstance(which, int | np.integer):
            return self._some(np.array([range(len(self))[which]]))[0]
        if isinstance(which, slice):
            first, stop, step = which.indices(len(self))
            if step == 1:
                return self._range(first, max(first, stop))
            return self._some(np.arange(first, stop, step))
        if isinstance(which, np.ndarray) and which.ndim == 1 and which.dtype.kind in "iu":
            return self._some(which.astype(np.int64))
        raise InvalidFeaturesError(f"the rows of a pool in files cannot be indexed with {shown(which)}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if self.nbytes > self.keep:
            raise PoolTooLargeError(
                f"this needs all {len(self)} rows of the pool in memory: {self.nbytes:,} bytes, while "
                f"max_memory is {self.keep:,}; give a kernel, or read the pool with a larger max_memory"
            )
        return np.asarray(self._range(0, len(self)), dtype=dtype)

    def part(self, first: int, stop: int) -> StoredRows:
        """Some consecutive rows, not read yet."""
        other = copy.copy(self)
        other.first, other.stop = self.first + first, self.first + stop
        other.groups = tuple(g for g in self.groups if g.stop > other.first and g.first < other.stop)
        other._forget()
        return other

    def encoded(self, encode: Callable[[Any], NDArray[Any]]) -> StoredRows:
        """The same rows as `encode` gives them."""
        other, before = copy.copy(self), self.encode
        sample = encode(self._some(np.array([0])))
        other.encode = encode if before is None else _Chain(before, encode)
        other.dtype, other.n_columns = sample.dtype, int(sample.shape[1])
        other._forget()
        return other

    # ------------------------------------------------------------------ reading

    def _range(self, first: int, stop: int) -> NDArray[Any]:
        if self._all is None and self.nbytes <= self.keep:
            self._all = self._read(self.first, self.stop)
            self._all.flags.writeable = False
        if self._all is not None:
            return self._all[first:stop]
        return self._read(self.first + first, self.first + stop)

    def _read(self, first: int, stop: int) -> NDArray[Any]:
        parts = [
            self._within(group, slice(max(first - group.first, 0), stop - group.first))
            for group in self.groups
            if group.stop > first and group.first < stop
        ]
        if not parts:
            return np.empty((0, self.n_columns), dtype=self.dtype)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _some(self, which: Ints) -> NDArray[Any]:
        """Some rows; each row group that holds some of them is read once."""
        if self._all is not None:
            return np.asarray(self._all[which])
        if len(which) and (which.min() < -len(self) or which.max() >= len(self)):
            raise IndexError(f"rows {shown(which)} of {len(self)}")
        places = np.where(which < 0, which + len(self), which) + self.first
        found = np.empty((len(which), self.n_columns), dtype=self.dtype)
        missing = [i for i, place in enumerate(places.tolist()) if place not in self._rows]
        starts = np.array([group.first for group in self.groups])
        owners = np.searchsorted(starts, places[missing], side="right") - 1
        for owner in np.unique(owners).tolist():
            here = np.array(missing)[owners == owner]
            found[here] = self._within(self.groups[owner], places[here] - self.groups[owner].first)
        known = sorted(set(range(len(which))) - set(missing))
        for i in known:
            found[i] = self._rows[int(places[i])]
        if len(self._rows) + len(missing) <= _REMEMBERED:
            self._rows |= {int(places[i]): found[i].copy() for i in missing}
        return found

    def _within(self, group: RowGroup, which: Any) -> NDArray[Any]:
        """Some rows of a row group, as they are encoded."""
        copied = None if self.nbytes <= self.keep else self._copied(group)
        if copied is None:
            return np.asarray(self._group(group)[which])
        return copied[which] if self.encode is None else self.encode(copied[which])

    def _copied(self, group: RowGroup) -> NDArray[Any] | None:
        """The rows of a row group as they are copied, before they are encoded; None if there is no room."""
        known = self._copy.rows(group.first, group.stop)
        if known is None and not self._copy.refused:
            self._copy.keep(group.first, self._decoded(group))
            known = self._copy.rows(group.first, group.stop)
        return known

    def _group(self, group: RowGroup) -> NDArray[Any]:
        """The rows of a row group; the last one read is kept, since blocks are smaller than row groups."""
        last = self._last
        if last is None or last[0] != group:
            rows = self._decoded(group)
            self._last = last = group, rows if self.encode is None else self.encode(rows)
        return last[1]

    def _decoded(self, group: RowGroup) -> NDArray[Any]:
        columns = read_columns(self.filesystem, group, self.names)
        return joined_columns(columns, self.names).astype(self._plain_dtype, copy=False)


@dataclass(frozen=True)
class _Chain:
    """One encoding after the other; a value, so that it can be sent to another process."""

    first: Callable[[Any], NDArray[Any]]
    second: Callable[[Any], NDArray[Any]]

    def __call__(self, features: Any) -> NDArray[Any]:
        return self.second(self.first(features))


# ---------------------------------------------------------------------- files


def is_several(path: Any) -> bool:
    """Whether a path stands for several files: it has wildcards, or is a folder without an ending."""
    text = str(path)
    name = text.rpartition("/")[2]
    if any(sign in name for sign in _WILDCARDS):
        return True
    try:
        return "://" not in text and not Path(text).suffix and Path(text).is_dir()
    except OSError:  # no file system allows such a name; reading it says so
        return False


def stored_rows(
    path: str | Path, id: str | None, features: Sequence[str] | str | None, keep: int
) -> StoredRows:
    """The rows of all Parquet files that the path stands for, in the order of their names."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "a pool in Parquet files") from None
    filesystem, paths = _files(str(path))
    groups: list[RowGroup] = []
    wanted = [features] if isinstance(features, str) else None if features is None else list(features)
    names: list[str] = []
    kinds: set[Any] = set()
    first = 0
    for each in paths:
        try:
            with pq.ParquetFile(each, filesystem=filesystem) as file:
                schema, metadata = file.schema_arrow, file.metadata
        except (pa.ArrowException, OSError) as problem:
            raise TableError(f"{each}: not a readable Parquet file: {problem}") from None
        names = _columns(Path(each), schema.names, id, wanted or names or None)
        kinds |= {_numpy_kind(schema.field(name).type, pa.types) for name in names}
        for number in range(metadata.num_row_groups):
            stop = first + metadata.row_group(number).num_rows
            if stop > first:
                groups.append(RowGroup(each, number, first, stop))
            first = stop
    if not groups:
        raise TableError(f"{path}: no rows")
    dtype = np.result_type(*kinds)
    rows = StoredRows(groups, filesystem, names, dtype, keep)
    rows[0]  # so that a column of texts is refused here
    return rows


def read_columns(filesystem: Any, group: RowGroup, names: list[str]) -> list[NDArray[Any]]:
    """Columns of numbers of one row group, checked to be finite."""
    table = read_group(filesystem, group, names)
    import pyarrow as pa

    place = Path(f"{group.path}, row group {group.number}")
    return [_parquet_column(place, name, table.column(name), pa.types) for name in names]


def read_group(filesystem: Any, group: RowGroup, names: list[str]) -> Any:
    """Some columns of one row group, as an Arrow table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(group.path, filesystem=filesystem) as file:
            return file.read_row_group(group.number, columns=names)
    except (pa.ArrowException, OSError, IndexError) as problem:
        raise TableError(f"{group.path}: row group {group.number} cannot be read: {problem}") from None


def _files(path: str) -> tuple[Any, list[str]]:
    """The file system, and the paths of the files on it."""
    from pyarrow import fs

    filesystem, place = fs.LocalFileSystem(), path
    if "://" in path:
        filesystem, place = fs.FileSystem.from_uri(path)
    else:
        place = Path(path).absolute().as_posix()
    folder, _, pattern = place.rpartition("/")
    if not any(sign in pattern for sign in _WILDCARDS):
        folder, pattern = place, "*.parquet"
    found = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    paths = sorted(info.path for info in found if info.is_file and fnmatch(info.base_name, pattern))
    if not paths:
        raise TableError(f"{path}: no such files")
    return filesystem, paths


def _numpy_kind(kind: Any, types: Any) -> np.dtype[Any]:
    """The type of a column in memory; texts are refused when they are read."""
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    return np.dtype(np.float64)


def id_blocks(rows: StoredRows, column: str) -> Iterator[list[Any]]:
    """The ids of the rows, one row group at a time."""
    for group in rows.groups:
        values = read_group(rows.filesystem, group, [column]).column(column).to_pylist()
        yield values[max(rows.first - group.first, 0) : rows.stop - group.first]
