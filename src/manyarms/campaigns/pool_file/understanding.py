"""Read a table once: its ids, and for every column that may become features what it holds.

`understand` decides what the columns of a new table are. `encode` turns a table whose columns are already
known into features, so that every ask of a campaign sees the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from manyarms.campaigns.pool_file.cell_reader import CellReader
from manyarms.campaigns.pool_file.columns import (
    COST,
    ID,
    UNUSED,
    ColumnPlan,
    declared_category,
    understood,
)
from manyarms.campaigns.pool_file.files import is_parquet, named, open_parquet, text_columns
from manyarms.errors import TableError, shown
from manyarms.pool.tables import place_of, table_blocks
from manyarms.pool.text_format import ROW_NAMES, TextFormat
from manyarms.support.validation import Floats


@dataclass(frozen=True)
class Roles:
    """What the user said about the columns. `features` is None if every usable column may be one.

    The column `cost` is then none of them; it can only be a feature if it is named.
    """

    id: str | None
    features: tuple[str, ...] | None
    categories: tuple[str, ...]
    cost: str | None = None


@dataclass(frozen=True)
class Cells:
    """The contents of a table: ids (None: there is no id column) and the columns that may be features."""

    header: list[str]
    ids: list[str] | None
    columns: dict[str, CellReader]
    n_rows: int


def place(path: Path, form: TextFormat, row: int) -> str:
    """File and row, for an error message."""
    return f"{path}: row {row}" if is_parquet(path) else place_of(path, form, row)


# ------------------------------------------------------------------ reading


def read_cells(path: Path, form: TextFormat, roles: Roles) -> Cells:
    """Read the id column and every column that may be a feature, in one pass."""
    if is_parquet(path):
        return _parquet_cells(path, form, roles)
    blocks = table_blocks(path, form)
    header = named(next(blocks)[0], form)
    roles = _with_row_names(header, roles)
    wanted = _wanted(path, header, roles)
    columns = {name: CellReader(form, name in roles.categories) for name in wanted}
    ids: list[str] = []
    n_rows = 0
    for block in blocks:
        cells = list(zip(*block, strict=True))
        for name, column in columns.items():
            column.add(cells[header.index(name)])
        if roles.id is not None:
            ids += _checked_ids(cells[header.index(roles.id)], n_rows, roles.id, partial(place, path, form))
        n_rows += len(block)
    if not n_rows:
        raise TableError(f"{path}: the file has a header but no rows")
    return Cells(header, None if roles.id is None else ids, columns, n_rows)


def _with_row_names(header: Sequence[str], roles: Roles) -> Roles:
    """A first column without a name identifies the candidates if the user names no other id."""
    if roles.id is None and header[0] == ROW_NAMES and roles.features is None:
        return replace(roles, id=ROW_NAMES)
    return roles


def _wanted(path: Path, header: Sequence[str], roles: Roles) -> list[str]:
    """The columns that may become features; every name must exist and be unique."""
    single = [name for name in (roles.id, roles.cost) if name is not None]
    given = [*single, *(roles.features or ()), *roles.categories]
    present = [name for name in header if name]
    missing = next((name for name in given if name not in present), None)
    if missing is not None:
        raise TableError(f"{path}: no column {missing!r}; the file has {shown(present)}")
    for names, where in ((present, "in the file"), (list(roles.features or ()), "among the features")):
        twice = (
            next((name for name in names if names.count(name) > 1), None)
            if len({*names}) < len(names)
            else None
        )
        if twice is not None:
            raise TableError(f"{path}: column {twice!r} appears more than once {where}")
    numeric = [each for each in present if each != roles.cost] if roles.features is None else roles.features
    kept = [name for name in numeric if name not in (roles.id, ROW_NAMES)]
    return list(dict.fromkeys([*kept, *roles.categories]))


def _checked_ids(cells: Sequence[str], first: int, column: str, where: Any) -> list[str]:
    ids = list(cells)
    if not all(ids):
        raise TableError(f"{where(first + ids.index(''))}, column {column!r}: the id is empty")
    return ids


def _parquet_cells(path: Path, form: TextFormat, roles: Roles) -> Cells:
    with open_parquet(path) as file:
        header, n_rows = list(file.schema_arrow.names), file.metadata.num_rows
        wanted = _wanted(path, header, roles)
        columns = {name: _parquet_column(file, path, form, name, name in roles.categories) for name in wanted}
    if not n_rows:
        raise TableError(f"{path}: no rows")
    ids = None
    if roles.id is not None:
        (texts,) = text_columns(path, form, [roles.id])
        ids = _checked_ids(texts, 0, roles.id, partial(place, path, form))
    return Cells(header, ids, columns, n_rows)


def _parquet_column(file: Any, path: Path, form: TextFormat, name: str, as_text: bool) -> CellReader:
    import pyarrow.types as types

    kind = file.schema_arrow.field(name).type
    numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if numeric and not as_text:
        column = file.read(columns=[name]).column(name).cast("float64", safe=False)
        return CellReader.of_numbers(np.asarray(column.to_numpy(), dtype=np.float64))
    read = CellReader(form, as_text or types.is_dictionary(kind))
    if types.is_nested(kind):
        raise TableError(f"{path}: column {name!r} holds {kind}: use --features to select other columns")
    read.add(text_columns(path, form, [name])[0])
    return read


# ------------------------------------------------------------------ deciding


def understand(path: Path, form: TextFormat, cells: Cells, roles: Roles) -> tuple[ColumnPlan, ...]:
    """The plan of every column of the table, in the order of the file."""
    where = partial(place, path, form)
    plans = []
    for name in cells.header:
        if cells.ids is not None and name == (ROW_NAMES if roles.id is None else roles.id):
            plans.append(ColumnPlan(name, ID, f"{len(cells.ids)} candidates"))
        elif name in roles.categories:
            plans.append(declared_category(name, cells.columns[name], where))
        elif name in cells.columns:
            wanted = roles.features is not None
            plans.append(understood(name, cells.columns[name], where, wanted))
        elif name == roles.cost:
            plans.append(ColumnPlan(name, COST, "what a trial costs"))
        else:
            note = "the column has no name" if name in ("", ROW_NAMES) else "not among the features"
            plans.append(ColumnPlan(name, UNUSED, note))
    return tuple(plans)


def encode(path: Path, plans: Iterable[ColumnPlan], cells: Cells) -> tuple[Floats, list[str]]:
    """The features of a table and their names, in the order of these plans. The cells are used up."""
    used = [plan for plan in plans if plan.feature_names]
    names = [name for plan in used for name in plan.feature_names]
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TableError(f"{path}: the name of column {twice!r} clashes with a category: rename the column")
    matrix = np.empty((cells.n_rows, len(names)))
    first = 0
    for plan in used:  # a column is released before the next one is turned into features
        block = plan.features(cells.columns.pop(plan.name))
        matrix[:, first : first + block.shape[1]] = block
        first += block.shape[1]
    return matrix, names
