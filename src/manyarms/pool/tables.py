"""Read a pool's columns from CSV, Parquet, npy and npz files, with errors that name row and column."""

from __future__ import annotations

import csv
import gzip
import math
import zipfile
import zlib
from array import array
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError, MissingExtraError, TableError, TextColumnError, shown
from manyarms.pool.arrays import joined_columns


@dataclass(frozen=True)
class Table:
    """The contents of a file: features, and ids and feature names if it has them."""

    features: NDArray[Any]
    ids: Sequence[Any] | NDArray[Any] | None
    names: list[str] | None


def read_table(path: str | Path, id: str | None = None, features: Sequence[str] | str | None = None) -> Table:
    """Read a file in the format of its extension: .csv, .csv.gz, .tsv, .tsv.gz, .parquet, .npy or .npz.

    In a table `id` names the id column and `features` the feature columns (default: all others). In an npz
    file they name arrays (default: `features`, or the only array in the file). An npy file holds the features
    and is memory-mapped.
    """
    try:
        path = Path(path)
        wanted = [features] if isinstance(features, str) else None if features is None else list(features)
    except TypeError:
        raise TableError(
            f"a path and a list of column names are needed, got {path!r}, {features!r}"
        ) from None
    try:
        if not path.is_file():
            raise TableError(f"{path}: {'a directory, not a file' if path.is_dir() else 'no such file'}")
    except OSError as problem:  # a name longer than the file system allows
        raise TableError(f"{shown(str(path))}: {problem.strerror}") from None
    extensions = [extension.lower() for extension in path.suffixes]
    kind = "".join(extensions[-2:]) if extensions[-1:] == [".gz"] else "".join(extensions[-1:])
    if kind in (".csv", ".tsv", ".csv.gz", ".tsv.gz"):
        return _read_csv(path, id, wanted, "\t" if kind.startswith(".tsv") else ",")
    if kind in (".parquet", ".pq"):
        return _read_parquet(path, id, wanted)
    if kind == ".npy":
        return _read_npy(path, id, wanted)
    if kind == ".npz":
        return _read_npz(path, id, wanted)
    raise TableError(
        f"{path}: unknown format; known extensions are .csv, .csv.gz, .tsv, .tsv.gz, .parquet, .npy, .npz"
    )


def _columns(path: Path, present: list[str], id: str | None, features: list[str] | None) -> list[str]:
    """The feature columns to read; they and the id column are checked to exist."""
    wanted = [name for name in present if name != id] if features is None else features
    missing = [name for name in ([id] if id is not None else []) + wanted if name not in present]
    if missing:
        raise TableError(f"{path}: no column {missing[0]!r}; the file has {shown(present)}")
    for names, where in ((present, "in the file"), (wanted, "among the features")):
        if len(set(names)) < len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise TableError(f"{path}: column {repeated!r} appears more than once {where}")
    if not wanted:
        raise TableError(f"{path}: no feature column")
    if features is None and not all(wanted):  # often row numbers that were saved with the data
        raise TableError(f"{path}: column {present.index('')} has no name; state which columns are features")
    return wanted


def _read_csv(path: Path, id: str | None, features: list[str] | None, delimiter: str) -> Table:
    def opened() -> AbstractContextManager[IO[str]]:
        if path.suffix.lower() == ".gz":
            return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
        return open(path, encoding="utf-8-sig", newline="")

    values = array("d")
    ids: list[str] = []
    n_rows = 0
    try:
        with opened() as stream:
            rows = csv.reader(stream, delimiter=delimiter, strict=True)
            header = next(rows, None)
            if not header:
                raise TableError(
                    f"{path}: {'the file is empty' if header is None else 'the first line is empty'}"
                )
            names = _columns(path, header, id, features)
            positions = [header.index(name) for name in names]
            id_position = header.index(id) if id is not None else -1
            for row in rows:
                if not row:
                    continue
                where = f"{path}: row {n_rows} (line {rows.line_num})"
                if len(row) != len(header):
                    raise TableError(f"{where} has {len(row)} cells, the header has {len(header)}")
                values.extend(_numbers(where, row, positions, names))
                if id_position >= 0:
                    if not row[id_position]:
                        raise TableError(f"{where}, column {id!r}: the id is empty")
                    ids.append(row[id_position])
                n_rows += 1
    except (UnicodeDecodeError, csv.Error, zlib.error, EOFError, OSError) as problem:
        raise TableError(f"{path}: not a readable text table: {problem}") from None
    if not n_rows:
        raise TableError(f"{path}: the file has a header but no rows")
    return Table(np.array(values).reshape(n_rows, len(names)), ids if id is not None else None, names)


def _numbers(where: str, row: list[str], positions: list[int], names: list[str]) -> list[float]:
    try:
        numbers = [float(row[position]) for position in positions]
    except ValueError:
        numbers = [math.nan]
    if all(map(math.isfinite, numbers)) and not any("_" in row[position] for position in positions):
        return numbers
    name, (kind, problem) = next(
        (name, found)
        for position, name in zip(positions, names, strict=True)
        if (found := _problem(row[position])) is not None
    )
    raise kind(f"{where}, column {name!r}: {problem}")


def _problem(cell: str) -> tuple[type[TableError], str] | None:
    """The error for a cell that cannot be a feature, and its message; None for a valid cell."""
    if not cell.strip():
        return TableError, "the cell is empty"
    try:
        finite = math.isfinite(float(cell))
    except ValueError:
        return TextColumnError, f"{shown(cell)} is not a number"
    if "_" in cell:  # Python reads 1_000 as a number, but in a table it is more likely a name
        return TextColumnError, f"{shown(cell)} is not a number"
    return None if finite else (TableError, f"{shown(cell)} is not a finite number")


def _read_parquet(path: Path, id: str | None, features: list[str] | None) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "a Parquet file as a pool") from None
    try:
        with pq.ParquetFile(path) as file:
            names = _columns(path, file.schema_arrow.names, id, features)
            table = file.read(columns=names + ([id] if id is not None and id not in names else []))
    except (pa.ArrowException, OSError) as problem:
        raise TableError(f"{path}: not a readable Parquet file: {problem}") from None
    if table.num_rows == 0:
        raise TableError(f"{path}: no rows")
    columns = [_parquet_column(path, name, table.column(name), pa.types) for name in names]
    try:
        matrix = joined_columns(columns, names)
    except InvalidFeaturesError as problem:
        raise TableError(f"{path}: {problem}") from None
    return Table(matrix, table.column(id).to_pylist() if id is not None else None, names)


def _parquet_column(path: Path, name: str, column: Any, types: Any) -> NDArray[Any]:
    kind = column.type
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise TableError(f"{path}: row {row}, column {name!r}: the cell is empty")
    if types.is_decimal(kind):
        column = column.cast("float64")
    elif not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        cell = shown(column[0].as_py())
        raise TextColumnError(
            f"{path}: row 0, column {name!r}: {cell} is not a number (the column holds {kind})"
        )
    values = np.asarray(column.to_numpy())
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise TableError(f"{path}: row {row}, column {name!r}: {values[row]} is not a finite number")
    return values


def _read_npy(path: Path, id: str | None, features: list[str] | None) -> Table:
    if id is not None or features is not None:
        raise TableError(f"{path}: an npy file holds one unnamed array; leave out id and features")
    try:
        with open(path, "rb") as stream:  # checked first: numpy would also open a zip file with this name
            np.lib.format.read_magic(stream)
        return Table(np.load(path, mmap_mode="r", allow_pickle=False), None, None)
    except Exception as problem:  # for a damaged header numpy raises many kinds of errors
        raise TableError(f"{path}: not a readable npy file: {problem}") from None


def _read_npz(path: Path, id: str | None, features: list[str] | None) -> Table:
    if not zipfile.is_zipfile(path):  # numpy would try to read it as npy, and as a pickle
        raise TableError(f"{path}: not a readable npz file: it is not a zip archive, or it is truncated")
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            present = list(archive.files)
            others = [name for name in present if name != id]
            default = ["features"] if "features" in others else others
            wanted = features if features is not None else default
            if len(wanted) != 1:
                raise TableError(f"{path}: state which array holds the features; the file has {present}")
            missing = [name for name in (*wanted, *([id] if id is not None else [])) if name not in present]
            if missing:
                raise TableError(f"{path}: no array {missing[0]!r}; the file has {present}")
            return Table(archive[wanted[0]], archive[id] if id is not None else None, None)
    except TableError:
        raise
    except Exception as problem:  # zipfile, zlib and numpy each raise their own errors for a damaged archive
        raise TableError(f"{path}: not a readable npz file: {problem}") from None
