"""All candidates of a campaign: its table, and the tables that were added later.

The rows of an added table follow those before it, so the number of an arm never changes. An added table is
read by the plans of the first one: its columns have the same meaning, or it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path

from manyarms.campaigns.pool_file.cell_reader import CellReader
from manyarms.campaigns.pool_file.cells import YES_NO as PAIRS
from manyarms.campaigns.pool_file.columns import CATEGORY, MISSING_KIND, TIME, YES_NO, ColumnPlan, Where
from manyarms.campaigns.pool_file.files import has_columns, is_parquet
from manyarms.campaigns.pool_file.fingerprints import ProgressCallback
from manyarms.campaigns.pool_file.source import Source
from manyarms.campaigns.pool_file.understanding import Roles, place, read_cells
from manyarms.errors import SettingsError, TableError, UnknownArmError, shown
from manyarms.pool.pool import Pool
from manyarms.pool.tables import check_file, row_format
from manyarms.pool.text_format import is_text_table

_MOST_CELLS = 200_000  # of a table that is kept in memory


@dataclass(frozen=True)
class Candidates:
    """The tables of a campaign, in the order in which they were added."""

    parts: tuple[Source, ...]

    @property
    def first(self) -> Source:
        """The table that the campaign was created with."""
        return self.parts[0]

    @property
    def id(self) -> str | None:
        """The id column; None: the row number is the id."""
        return self.first.id

    @cached_property
    def starts(self) -> list[int]:
        """The number of the first arm of each table, and the number of all arms."""
        return [0, *accumulate(part.n_arms for part in self.parts)]

    @property
    def n_arms(self) -> int:
        """The number of candidates."""
        return self.starts[-1]

    def read(self, progress: ProgressCallback | None = None) -> Pool:
        """The candidates of all tables."""
        return joined([part.read(progress) for part in self.parts])

    def arms_of(self, names: Mapping[str, str]) -> dict[str, int]:
        """The arms of these ids. Each id maps to the place that the error names if it is unknown."""
        if len(self.parts) == 1:
            return self.first.arms_of(names)
        if self.id is None:
            return replace(self.first, n_arms=self.n_arms).arms_of(names)
        known: dict[str, int] = {}
        for start, part in zip(self.starts, self.parts, strict=False):
            known |= {name: start + row for row, name in enumerate(part.names())}
        for name, where in names.items():
            if name not in known:
                raise UnknownArmError(f"{where}no candidate has the id {shown(name)}")
        return {name: known[name] for name in names}

    def cells_of(self, arms: Sequence[int]) -> list[dict[str, str]]:
        """The user's columns of some candidates as text, without the id column."""
        cells: dict[int, dict[str, str]] = {}
        for start, end, part in zip(self.starts, self.starts[1:], self.parts, strict=False):
            mine = [arm for arm in dict.fromkeys(arms) if start <= arm < end]
            rows = [arm - start for arm in mine]
            known = self._small_tables.get(start)
            cells |= dict(
                zip(mine, [known[row] for row in rows] if known else part.cells_of(rows), strict=True)
            )
        blank = dict.fromkeys(name for name in self.column_names() if name != self.id)
        return [{**dict.fromkeys(blank, ""), **cells[arm]} for arm in arms]

    @cached_property
    def _small_tables(self) -> dict[int, list[dict[str, str]]]:
        """All cells of small tables of text, which would be parsed again for every batch."""
        small = {
            start: part
            for start, part in zip(self.starts, self.parts, strict=False)
            if is_text_table(part.path) and part.n_arms * len(part.column_names()) <= _MOST_CELLS
        }
        return {start: part.cells_of(range(part.n_arms)) for start, part in small.items()}

    def column_names(self) -> list[str]:
        """The names of the columns of the first table."""
        return self.first.column_names()

    def feature_columns(self) -> list[str]:
        """The columns of numbers."""
        return self.first.feature_columns()


def joined(pools: Sequence[Pool]) -> Pool:
    """One pool with the arms of all these pools; an id that appears twice is an error."""
    pool = pools[0]
    for more in pools[1:]:
        pool = pool.extended(more.features, more.ids if more.has_ids else None)
    return pool


# ------------------------------------------------------------------ an added table


def fitting_source(
    first: Source, path: Path, given: Mapping[str, str | None], progress: ProgressCallback | None = None
) -> tuple[Source, Pool]:
    """A further table with the columns of the first one, and its candidates.

    Every column must hold what it holds in the first table: no other texts in a category, and no missing
    cells where there were none, because the model has no features for them.
    """
    check_file(path)
    if has_columns(path) != has_columns(first.path):
        raise TableError(
            f"{path}: the campaign's table and this one must both have named columns, or neither"
        )
    source = replace(first, path=path, digest="", n_arms=0, form=None)
    if has_columns(path) and not is_parquet(path):
        names = ("delimiter", "encoding", "decimal", "sheet")
        source = replace(source, form=row_format(path, *(given.get(name) for name in names)))
    if has_columns(path) and not first.molecular:
        if not first.columns:
            raise SettingsError(
                "candidates cannot be added to a campaign of an earlier version: create a new one"
            )
        _check_columns(source)
    pool = source.read(progress)
    return source.described(pool), pool


def _check_columns(source: Source) -> None:
    roles = Roles(source.id, source.features, source.categories, source.cost)
    cells = read_cells(source.path, source.text_form, roles)
    where = partial(place, source.path, source.text_form)
    for plan in source.columns:
        if plan.feature_names:
            _check_column(plan, cells.columns[plan.name], where)


def _check_column(plan: ColumnPlan, read: CellReader, where: Where) -> None:
    table = where(0).partition(": row")[0]
    column = f"column {plan.name!r}"
    if plan.role == CATEGORY:
        other = next((kind for kind in read.kinds if kind not in plan.kinds), None)
        if other is not None:
            raise TableError(f"{table}: {column}: {shown(other)} is not one of the kinds {shown(plan.kinds)}")
        if read.n_missing and MISSING_KIND not in plan.kinds:
            raise TableError(
                f"{table}: {column}: a cell is empty, but the first table has no empty cell in it"
            )
        return
    if read.n_missing and plan.fill is None:
        raise TableError(f"{table}: {column}: a cell is empty, but the first table has no empty cell in it")
    if read.first_infinite is not None:
        row, cell = read.first_infinite
        raise TableError(f"{where(row)}, {column}: {shown(cell)} is not a finite number")
    if read.first_text is None:
        fits = plan.role not in (TIME, YES_NO) or not read.n_numbers
    elif plan.role == TIME:
        fits = bool(read.times) and plan.detail in (read.times or {})
    elif plan.role == YES_NO:
        kinds = {kind.strip().lower() for kind in read.kinds}
        fits = not read.n_numbers and any(yes == plan.detail and kinds <= {yes, no} for yes, no in PAIRS)
    else:
        fits = False
    if not fits:
        row, cell = read.first_text or (0, "a number")
        form = f" in the form {plan.detail}" if plan.role == TIME else ""
        raise TableError(f"{where(row)}, {column}: {shown(cell)} is not a {plan.role}{form}")
