"""Read the columns of a table as text, and compute the digest of a file."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from manyarms.errors import MissingExtraError, TableError, shown
from manyarms.pool.excel import is_workbook
from manyarms.pool.tables import table_blocks
from manyarms.pool.text_format import ROW_NAMES, TextFormat, is_text_table

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


def is_parquet(path: Path) -> bool:
    """Whether the name of the file ends as Parquet."""
    return path.suffix.lower() in (".parquet", ".pq")


def has_columns(path: Path) -> bool:
    """Whether the file is a table with named columns, not an array file."""
    return is_text_table(path) or is_workbook(path) or is_parquet(path)


def plain_format(path: Path) -> TextFormat:
    """The format of text tables before formats were detected: UTF-8, commas or tabs, decimal points."""
    tabs = ".tsv" in [ending.lower() for ending in path.suffixes]
    return TextFormat(delimiter="\t" if tabs else ",")


def named(header: Sequence[str], form: TextFormat) -> list[str]:
    """The names of the columns. A first column without a name holds row names, as R and pandas write them."""
    names = list(header)
    if form.stripped and not names[0] and len(names) > 1 and ROW_NAMES not in names:
        names[0] = ROW_NAMES
    return names


def column_names(path: Path, form: TextFormat) -> list[str]:
    """The column names of a table, without columns that have no name; empty for an array file."""
    if is_text_table(path) or is_workbook(path):
        return [name for name in named(next(table_blocks(path, form))[0], form) if name or not form.stripped]
    return list(open_parquet(path).schema_arrow.names) if is_parquet(path) else []


def text_columns(
    path: Path, form: TextFormat, names: Sequence[str], rows: Sequence[int] | None = None
) -> list[list[str]]:
    """The cells of some columns as text, for all rows or for the given rows in the given order.

    Rows are numbered as in `manyarms.pool.tables`: from 0, without the header and empty lines.
    """
    present = column_names(path, form)
    for name in names:
        if name not in present:
            raise TableError(f"{path}: no column {name!r}; the file has {shown(present)}")
    different = None if rows is None else sorted(set(rows))
    if is_parquet(path):
        columns = _from_parquet(path, names, different)
    else:
        columns = _from_rows(path, form, names, different)
    if rows is None or different is None:
        return columns
    place = {row: i for i, row in enumerate(different)}
    return [[column[place[row]] for row in rows] for column in columns]


def _from_rows(
    path: Path, form: TextFormat, names: Sequence[str], rows: Sequence[int] | None
) -> list[list[str]]:
    """Blocks without a wanted row are skipped, and reading ends after the last wanted row."""
    blocks = table_blocks(path, form)
    header = named(next(blocks)[0], form)
    places = [header.index(name) for name in names]
    columns: list[list[str]] = [[] for _ in names]
    first, wanted = 0, deque(() if rows is None else rows)
    while rows is None or wanted:
        block = next(blocks, None)
        if block is None:
            break
        kept = block
        if rows is not None:
            kept = []
            while wanted and wanted[0] < first + len(block):
                kept.append(block[wanted.popleft() - first])
        for column, place in zip(columns, places, strict=True):
            column += [row[place] for row in kept]
        first += len(block)
    return columns


def open_parquet(path: Path) -> Any:
    """The open Parquet file."""
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
    with open_parquet(path) as file:
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
