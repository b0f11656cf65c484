"""Read the columns of a table as text, and compute the digest of a file."""

from __future__ import annotations

import csv
import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from manyarms.errors import MissingExtraError, TableError, shown

_CHUNK = 1 << 20


def digest(path: Path) -> str:
    """The SHA-256 digest of the file, read in chunks."""
    try:
        with open(path, "rb") as stream:
            sha = hashlib.sha256()
            while piece := stream.read(_CHUNK):
                sha.update(piece)
    except OSError as problem:
        raise TableError(f"{path}: {problem.strerror}") from None
    return sha.hexdigest()


def is_text_table(path: Path) -> bool:
    """Whether the name of the file ends as CSV or TSV, possibly compressed."""
    endings = [ending.lower() for ending in path.suffixes if ending.lower() != ".gz"]
    return endings[-1:] in ([".csv"], [".tsv"])


def is_parquet(path: Path) -> bool:
    """Whether the name of the file ends as Parquet."""
    return path.suffix.lower() in (".parquet", ".pq")


def column_names(path: Path) -> list[str]:
    """The column names of a CSV, TSV or Parquet file; empty for an array file."""
    if is_text_table(path):
        return next(_text_rows(path), [])
    return list(_parquet(path).schema_arrow.names) if is_parquet(path) else []


def text_columns(path: Path, names: Sequence[str], rows: Sequence[int] | None = None) -> list[list[str]]:
    """The cells of some columns as text, for all rows or for the given rows in the given order.

    Rows are numbered as in `manyarms.pool.tables`: from 0, without the header and empty lines.
    """
    present = column_names(path)
    for name in names:
        if name not in present:
            raise TableError(f"{path}: no column {name!r}; the file has {shown(present)}")
    read = _from_text if is_text_table(path) else _from_parquet
    if rows is None:
        return read(path, names, None)
    different = sorted(set(rows))
    columns = read(path, names, different)
    place = {row: i for i, row in enumerate(different)}
    return [[column[place[row]] for row in rows] for column in columns]


def _from_text(path: Path, names: Sequence[str], rows: Sequence[int] | None) -> list[list[str]]:
    lines = _text_rows(path)
    header = next(lines, [])
    places = [header.index(name) for name in names]
    wanted = None if rows is None else set(rows)
    last = max(rows, default=-1) if rows is not None else None
    columns: list[list[str]] = [[] for _ in names]
    for number, row in enumerate(lines):
        if last is not None and number > last:
            break
        if wanted is None or number in wanted:
            for column, place in zip(columns, places, strict=True):
                column.append(row[place])
    return columns


def _text_rows(path: Path) -> Iterator[list[str]]:
    """The header and then every non-empty row, each as long as the header."""
    delimiter = "\t" if ".tsv" in [ending.lower() for ending in path.suffixes] else ","
    opened: Callable[..., Any] = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as stream:
            width = None
            for row in (reader := csv.reader(stream, delimiter=delimiter, strict=True)):
                if not row:
                    continue
                width = len(row) if width is None else width
                if len(row) != width:
                    where = f"{path}: line {reader.line_num}"
                    raise TableError(f"{where} has {len(row)} cells, the header has {width}")
                yield row
    except (UnicodeDecodeError, csv.Error, zlib.error, EOFError, OSError) as problem:
        raise TableError(f"{path}: not a readable CSV or TSV file: {problem}") from None


def _parquet(path: Path) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "a Parquet file") from None
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as problem:
        raise TableError(f"{path}: not a readable Parquet file: {problem}") from None


def _from_parquet(path: Path, names: Sequence[str], rows: Sequence[int] | None) -> list[list[str]]:
    """Read only the row groups that contain a wanted row."""
    columns: list[list[str]] = [[] for _ in names]
    with _parquet(path) as file:
        first = 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            inside = None if rows is None else [row - first for row in rows if first <= row < first + size]
            if inside is None or inside:
                table = file.read_row_group(group, columns=list(names))
                table = table if inside is None else table.take(inside)
                for column, name in zip(columns, names, strict=True):
                    column += ["" if cell is None else str(cell) for cell in table.column(name).to_pylist()]
            first += size
    return columns
