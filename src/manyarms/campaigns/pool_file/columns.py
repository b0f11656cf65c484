"""Decide what each column of a table holds, and turn its cells into features.

The rules are those of docs/campaigns.md ("How columns are read"). A column that might be read in two ways is
refused, and a column that is left out says why: nothing is read by halves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from manyarms.campaigns.pool_file.cell_reader import CellReader
from manyarms.campaigns.pool_file.cells import (
    DAY_FIRST,
    MONTH_FIRST,
    is_other_number,
    time_unit,
    word_for_yes,
)
from manyarms.campaigns.text import counted
from manyarms.errors import TableError, TextColumnError, shown
from manyarms.support.validation import Floats

MAX_CATEGORIES = 100  # most different texts of a category
ID, NUMBER, YES_NO, TIME, CATEGORY, UNUSED = "id", "number", "yes/no", "time", "category", "left out"
SMILES, BITS, COST = "SMILES", "bits", "cost"
MISSING_KIND = "(missing)"
_SHOWN_KINDS = 4


@dataclass(frozen=True)
class ColumnPlan:
    """What a column is used as.

    `detail` is the form of a time or the word for yes, `kinds` are the texts of a category, and `fill` is the
    number that replaces a missing cell (None: the table has no missing cell in this column).
    """

    name: str
    role: str
    note: str = ""
    detail: str = ""
    kinds: tuple[str, ...] = ()
    fill: float | None = None

    @property
    def is_number(self) -> bool:
        """Whether the column becomes a numeric feature."""
        return self.role in (NUMBER, YES_NO, TIME)

    @property
    def feature_names(self) -> list[str]:
        """The names of the features that the column becomes."""
        if self.role == CATEGORY:
            return [f"{self.name} = {kind}" for kind in self.kinds]
        if not self.is_number:
            return []
        return [self.name] if self.fill is None else [self.name, f"{self.name} is missing"]

    def features(self, read: CellReader) -> Floats:
        """The features of the cells, one column for each name."""
        if self.role == CATEGORY:
            return self._indicators(read)
        numbers = self._numbers(read)
        missing = np.isnan(numbers)
        if self.fill is None:
            return numbers[:, None]
        return np.column_stack([np.where(missing, self.fill, numbers), missing])

    def _numbers(self, read: CellReader) -> Floats:
        if self.role == NUMBER or not read.n_texts:
            return read.numbers
        if self.role == TIME:
            assert read.times is not None
            return np.array(read.times[self.detail], dtype=np.float64)
        yes = np.array([float(kind.strip().lower() == self.detail) for kind in read.kinds] + [np.nan])
        return np.asarray(yes[read.codes])

    def _indicators(self, read: CellReader) -> Floats:
        place = {kind: i for i, kind in enumerate(self.kinds)}
        known = [place[kind] for kind in read.kinds] + [place.get(MISSING_KIND, -1)]
        codes = read.codes if read.n_texts else np.full(read.n_rows, -1)
        return np.asarray(np.eye(len(self.kinds))[np.array(known)[codes]])

    def plain(self) -> dict[str, Any]:
        """The plan as JSON data."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> ColumnPlan:
        """The plan that `plain` returned as data."""
        return cls(**{**plain, "kinds": tuple(plain["kinds"])})


Where = Callable[[int], str]  # names file and row in an error message


def understood(name: str, read: CellReader, where: Where, wanted: bool = False) -> ColumnPlan:
    """The plan for a column that was not declared a category; `wanted` if the user named it as a feature.

    A column that cannot be used is left out, and refused if it is wanted.
    """
    plan = _understood(name, read, where)
    if wanted and plan.role == CATEGORY and read.first_text is not None:
        row, cell = read.first_text
        raise TextColumnError(f"{where(row)}, column {name!r}: {shown(cell)} is not a number")
    if wanted and plan.role == UNUSED:
        if read.first_text is not None:
            row, cell = read.first_text
            raise TextColumnError(f"{where(row)}, column {name!r}: {shown(cell)} is not a number")
        raise TableError(f"{where(0).partition(': row')[0]}: column {name!r} cannot be used: {plan.note}")
    return plan


def _understood(name: str, read: CellReader, where: Where) -> ColumnPlan:
    if not name:
        return ColumnPlan(name, UNUSED, "the column has no name")
    if not read.n_numbers and not read.n_texts:
        return ColumnPlan(name, UNUSED, "every cell is empty")
    if read.n_texts and not read.n_numbers:
        return _of_texts(name, read, where)
    if read.first_text is not None:
        row, cell = read.first_text
        notation = ", but a number in another notation" if is_other_number(cell) else ""
        raise TextColumnError(
            f"{where(row)}, column {name!r}: {shown(cell)} is not a number{notation} "
            f"(the column also holds numbers)"
        )
    if read.first_infinite is not None:
        row, cell = read.first_infinite
        raise TableError(f"{where(row)}, column {name!r}: {shown(cell)} is not a finite number")
    return _filled(name, NUMBER, read, read.numbers)


def _of_texts(name: str, read: CellReader, where: Where) -> ColumnPlan:
    assert read.first_text is not None
    row, cell = read.first_text
    if read.times:
        if {DAY_FIRST, MONTH_FIRST} <= {*read.times}:
            raise TableError(
                f"{where(row)}, column {name!r}: {shown(cell)} is ambiguous, the day or the month may come "
                f"first: write dates as 2024-01-31"
            )
        form = next(iter(read.times))
        return _filled(name, TIME, read, np.array(read.times[form], dtype=np.float64), form)
    other = next((kind for kind in read.kinds if is_other_number(kind)), None)
    if other is not None:
        raise TextColumnError(
            f"{where(row)}, column {name!r}: {shown(other)} is not a plain number: remove thousands "
            f"separators, currency and percent signs, and use one decimal sign in the whole table"
        )
    yes = None if read.too_many_kinds else word_for_yes({kind.strip().lower() for kind in read.kinds})
    if yes is not None:
        flags = ColumnPlan(name, YES_NO, detail=yes)
        return _filled(name, YES_NO, read, flags._numbers(read), yes)
    different = f"more than {len(read.kinds)}" if read.too_many_kinds else str(len(read.kinds))
    if read.too_many_kinds or len(read.kinds) > MAX_CATEGORIES:
        rule = f"a category has at most {MAX_CATEGORIES}"
    elif 2 * len(read.kinds) > read.n_rows:
        rule = "a category has at most half as many as there are rows"
    else:
        return category(name, read)
    return ColumnPlan(name, UNUSED, f"{different} different texts: {rule}")


def category(name: str, read: CellReader) -> ColumnPlan:
    """The plan for a category with the texts of this column."""
    kinds = sorted(read.kinds) + ([MISSING_KIND] if read.n_missing else [])
    more = ", …" if len(kinds) > _SHOWN_KINDS else ""
    note = f"{counted(len(kinds), 'kind')}: {', '.join(kinds[:_SHOWN_KINDS])}{more}"
    if read.n_missing:
        note += f"; {counted(read.n_missing, 'missing cell')} {'is' if read.n_missing == 1 else 'are'} a kind"
    return ColumnPlan(name, CATEGORY, note, kinds=tuple(kinds))


def declared_category(name: str, read: CellReader, where: Where) -> ColumnPlan:
    """The plan for a column that the user declared a category."""
    if read.too_many_kinds or len(read.kinds) > MAX_CATEGORIES:
        several = f"more than {len(read.kinds)}" if read.too_many_kinds else str(len(read.kinds))
        raise TableError(
            f"{where(0).partition(': row')[0]}: column {name!r} holds {several} different texts, "
            f"more than the {MAX_CATEGORIES} that a category may have; "
            f"use --features to select the numeric columns without it"
        )
    return category(name, read)


def _filled(name: str, role: str, read: CellReader, numbers: Floats, detail: str = "") -> ColumnPlan:
    """The plan for a numeric column; missing cells become the median, with an indicator beside them."""
    if 2 * read.n_missing > read.n_rows:
        return ColumnPlan(
            name, UNUSED, f"{read.n_missing} of {read.n_rows} cells are missing, more than half"
        )
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    note = f"{low:.6g} to {high:.6g}"
    if role == TIME:
        note = f"{detail}; {time_unit(detail)}, {note}"
    if role == YES_NO:
        note = f"{detail} is 1"
    if not read.n_missing:
        return ColumnPlan(name, role, note, detail)
    fill = float(np.nanmedian(numbers))
    fill = float(fill >= 0.5) if role == YES_NO else fill
    note += (
        f"; {counted(read.n_missing, 'missing cell')}: filled with the median {fill:.6g}, with an indicator"
    )
    return ColumnPlan(name, role, note, detail, fill=fill)
