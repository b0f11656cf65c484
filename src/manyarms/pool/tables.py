"""Read a pool's columns from text tables, Excel, Parquet and array files; errors name row and column."""

from __future__ import annotations

import math
import zipfile
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError, MissingExtraError, TableError, TextColumnError, shown
from manyarms.pool.arrays import joined_columns
from manyarms.pool.excel import is_workbook, sheet_blocks
from manyarms.pool.text_format import (
    TEXT_TABLES,
    TextFormat,
    extension,
    find_format,
    is_text_table,
    line_of,
    text_blocks,
)

KNOWN = (*TEXT_TABLES, *(f"{each}.gz" for each in TEXT_TABLES), ".xlsx", ".parquet", ".npy", ".npz")


@dataclass(frozen=True)
class Table:
    """The contents of a file: features, and ids and feature names if it has them."""

    features: NDArray[Any]
    ids: Sequence[Any] | NDArray[Any] | None
    names: list[str] | None


def read_table(
    path: str | Path,
    id: str | None = None,
    features: Sequence[str] | str | None = None,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    sheet: str | None = None,
) -> Table:
    """Read a file in the format of its extension.

    These are .csv, .tsv and .txt, also with .gz, .xlsx, .parquet, .npy and .npz. In a table `id` names the id
    column and `features` the feature columns (default: all others). In an npz file they name arrays (default:
    `features`, or the only array in the file). An npy file holds the features and is memory-mapped. The
    delimiter, the encoding and the decimal sign of a text table are found unless they are given, and `sheet`
    names the sheet of a workbook with several.
    """
    try:
        path = Path(path)
        wanted = [features] if isinstance(features, str) else None if features is None else list(features)
    except TypeError:
        raise TableError(
            f"a path and a list of column names are needed, got {path!r}, {features!r}"
        ) from None
    check_file(path)
    kind = extension(path)
    if is_text_table(path) or is_workbook(path):
        form = row_format(path, delimiter, encoding, decimal, sheet)
        return _read_rows(path, id, wanted, form)
    if kind in (".parquet", ".pq"):
        return _read_parquet(path, id, wanted)
    if kind == ".npy":
        return _read_npy(path, id, wanted)
    if kind == ".npz":
        return _read_npz(path, id, wanted)
    raise TableError(f"{path}: unknown format; known extensions are {', '.join(KNOWN)}")


def check_file(path: Path) -> None:
    """Raise an error if there is no file at this path."""
    try:
        if not path.is_file():
            raise TableError(f"{path}: {'a directory, not a file' if path.is_dir() else 'no such file'}")
    except OSError as problem:  # a name longer than the file system allows
        raise TableError(f"{shown(str(path))}: {problem.strerror}") from None


def row_format(
    path: Path, delimiter: str | None, encoding: str | None, decimal: str | None, sheet: str | None
) -> TextFormat:
    """The format of a text table or a workbook; what is None is found."""
    if not is_workbook(path):
        return find_format(path, delimiter, encoding, decimal)
    return TextFormat(decimal=decimal or ".", stripped=True, sheet=sheet or "")


def table_blocks(path: Path, form: TextFormat) -> Iterator[list[list[str]]]:
    """The header of a text table or a workbook as a block of its own, then its rows in blocks."""
    return sheet_blocks(path, form.sheet or None, str(path)) if is_workbook(path) else text_blocks(path, form)


def place_of(path: Path, form: TextFormat, row: int) -> str:
    """File, row and line, for an error message about a cell."""
    line = "" if is_workbook(path) else f" (line {line_of(path, form, row)})"
    return f"{path}: row {row}{line}"


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


def _read_rows(path: Path, id: str | None, features: list[str] | None, form: TextFormat) -> Table:
    blocks = table_blocks(path, form)
    header = next(blocks)[0]
    names = _columns(path, header, id, features)
    columns = [array("d") for _ in names]
    ids: list[str] = []
    for block in blocks:
        n_rows, cells = len(columns[0]), list(zip(*block, strict=True))
        for name, column in zip(names, columns, strict=True):
            numbers = form.numbers(cells[header.index(name)])
            if numbers is None:
                numbers = _checked_numbers(path, form, name, cells[header.index(name)], n_rows)
            column.extend(numbers)
        if id is not None:
            named = cells[header.index(id)]
            if not all(named):
                row = n_rows + named.index("")
                raise TableError(f"{place_of(path, form, row)}, column {id!r}: the id is empty")
            ids += named
    if not columns[0]:
        raise TableError(f"{path}: the file has a header but no rows")
    return Table(np.column_stack([*map(np.asarray, columns)]), ids if id is not None else None, names)


def _checked_numbers(
    path: Path, form: TextFormat, name: str, cells: Sequence[str], first: int
) -> list[float]:
    """The numbers in the cells; the first cell that holds no finite number raises an error."""
    for row, cell in enumerate(cells, start=first):
        found = _problem(cell, form)
        if found is not None:
            kind, problem = found
            raise kind(f"{place_of(path, form, row)}, column {name!r}: {problem}")
    return [form.number(cell) for cell in cells]


def _problem(cell: str, form: TextFormat) -> tuple[type[TableError], str] | None:
    """The error for a cell that cannot be a feature, and its message; None for a valid cell."""
    if not cell.strip():
        return TableError, "the cell is empty"
    try:
        finite = math.isfinite(form.number(cell))
    except ValueError:
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
