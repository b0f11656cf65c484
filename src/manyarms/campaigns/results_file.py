"""Parse a results file and plan the database rows it leads to. These are pure functions.

A row names a ticket, an id, or both, which must then agree. The following rules apply:

* A result answers an open ticket. A forgotten ticket still accepts its late result.
* If a ticket already has a result, the same value changes nothing and a different value is an error.
* If a file names a ticket more than once, the further rows are replicates: new measurements of its arm.
* A row with an id alone answers the oldest open ticket of that arm. If there is none, it is recorded as a
  measurement without a ticket.
* A row without a value that is not marked as failed has not been measured yet and is skipped.

A file is recognised by the tickets and ids of its rows, not by its bytes. When a known file is imported again
with rows appended, or with values in rows that had none, only those rows are new. A file in which an earlier
value has changed is a different file.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from manyarms.campaigns.result_rows import result_rows
from manyarms.campaigns.store.schema import FAILED, FORGOTTEN, OPEN, TOLD
from manyarms.campaigns.store.store import Ticket
from manyarms.errors import ResultsFileError, TableError, shown
from manyarms.pool.text_format import decimal_sign

LARGEST_VALUE = 1e100  # the squares of larger values could overflow when they are summed
RESERVED = ("ticket", "value", "failed")
_YES, _NO = ("1", "true", "yes", "y", "t"), ("", "0", "false", "no", "n", "f")


@dataclass(frozen=True)
class ReportedResult:
    """One result from a file or a worker. `value` is None if the trial failed or has not been made yet."""

    where: str  # the place that error messages name
    ticket: int | None
    name: str | None
    value: float | None
    row: int | None = None
    note: str | None = None
    measured: bool = True


@dataclass(frozen=True)
class ImportSummary:
    """The number of imported and skipped rows."""

    new: int = 0  # recorded results; the next three count parts of them
    failed: int = 0  # trials without a value
    unasked: int = 0  # measurements without a ticket, including replicates
    late: int = 0  # results of forgotten tickets
    known: int = 0  # rows skipped because their result is already recorded
    unmeasured: int = 0  # rows skipped because they have no value


@dataclass
class ResultsPlan:
    """The database changes of an import: new rows of results, and the tickets to close by their new state."""

    results: list[dict[str, Any]] = field(default_factory=list)
    closed: dict[str, list[int]] = field(default_factory=lambda: {TOLD: [], FAILED: []})
    summary: ImportSummary = field(default_factory=ImportSummary)

    def count(self, **more: int) -> None:
        """Increase the counts of the summary."""
        self.summary = replace(
            self.summary, **{name: getattr(self.summary, name) + number for name, number in more.items()}
        )


# ------------------------------------------------------------------ reading a file


def read_results(
    data: bytes, file: str, id_column: str, row_numbers: bool = False, own: Collection[str] = ()
) -> list[ReportedResult]:
    """Parse a text table, or an Excel file if its name ends in .xlsx. With `row_numbers`, 07 means row 7.

    `own` are the columns of the table of candidates, none of which is taken for the values by its name.
    """
    header, numbered = result_rows(data, file)
    value_column = _value_column(file, header, id_column, own)
    place = header.index(value_column)
    decimal = _decimal(file, [(row[place],) for _, row in numbered])
    rows: list[ReportedResult] = []
    for number, (line, row) in enumerate(numbered):
        cells = dict(zip(header, row, strict=True))
        cells["value"] = cells[value_column].replace(",", ".") if decimal == "," else cells[value_column]
        if row_numbers and id_column in cells:
            cells[id_column] = _plain_number(cells[id_column])
        rows.append(_parsed_row(f"{file}: line {line}", number, cells, id_column))
    return rows


def reported(rows: Iterable[Mapping[str, str]], id_column: str) -> list[ReportedResult]:
    """Results that are given as rows of text, by a program instead of a file."""
    return [_parsed_row(f"row {number}", number, row, id_column) for number, row in enumerate(rows)]


def _decimal(file: str, cells: Sequence[Sequence[str]]) -> str:
    try:
        return decimal_sign(cells, file)
    except TableError:
        first = next(cell for (cell,) in cells if "," in cell)
        raise ResultsFileError(
            f"{file}: the value {shown(first)} is ambiguous, a decimal comma or thousands: use a point"
        ) from None


def _value_column(file: str, header: list[str], id_column: str, own: Collection[str]) -> str:
    """The column of the values: `value`, or the only column called so in other letters, or `result`."""
    if "ticket" not in header and id_column not in header:
        raise ResultsFileError(f"{file}: no column 'ticket' or {id_column!r}; the file has {shown(header)}")
    for name in (*RESERVED, id_column):
        if header.count(name) > 1:
            raise ResultsFileError(f"{file}: column {name!r} appears more than once")
    if "value" in header:
        return "value"
    for word in ("value", "result"):
        found = [name for name in header if name.lower() == word and name not in own and name != id_column]
        if len(found) > 1:
            raise ResultsFileError(f"{file}: the values may be in {' or '.join(map(repr, found))}: keep one")
        if found:
            return found[0]
    raise ResultsFileError(f"{file}: no column 'value'; the file has {shown(header)}")


def _parsed_row(where: str, number: int, cells: Mapping[str, str], id_column: str) -> ReportedResult:
    failed = _flag(where, cells.get("failed", ""))
    text = cells["value"].strip()
    ticket = _ticket(where, cells.get("ticket", "").strip())
    name = cells.get(id_column) or None
    if not text and not failed:
        return ReportedResult(where, ticket, name, None, number, measured=False)
    if text and failed:
        raise ResultsFileError(f"{where}: the row has the value {shown(text)} and is also marked as failed")
    if ticket is None and name is None:
        raise ResultsFileError(f"{where}: the row has neither a ticket nor an id")
    return ReportedResult(where, ticket, name, None if failed else checked_value(where, text), number)


def _plain_number(text: str) -> str:
    """A row number without leading zeros; any other text is returned unchanged, for the error message."""
    plain = text.strip()
    return (plain.lstrip("0") or "0") if plain.isascii() and plain.isdecimal() else text


def _flag(where: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in (*_YES, *_NO):
        raise ResultsFileError(f"{where}, column 'failed': {shown(text)} is neither true nor false")
    return word in _YES


def _ticket(where: str, text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or len(text) > 18:
        raise ResultsFileError(f"{where}, column 'ticket': {shown(text)} is not a ticket number")
    return int(text)


def checked_value(where: str, text: str) -> float:
    """The number in a cell; it must not be NaN or exceed `LARGEST_VALUE` in size."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if "_" in text or math.isnan(value):
        raise ResultsFileError(f"{where}, column 'value': {shown(text)} is not a number")
    if abs(value) > LARGEST_VALUE:
        raise ResultsFileError(
            f"{where}, column 'value': {shown(text)} is too large, the limit is {LARGEST_VALUE:g}"
        )
    return value


# ------------------------------------------------------------------ recognising a file


_HALF = 32  # hexadecimal digits for the tickets and ids, followed by as many for the values


def file_digest(rows: Sequence[ReportedResult]) -> str:
    """The identity of a file: its tickets and ids in order, then its values. Other columns do not count."""
    values = hashlib.sha256(repr([(row.measured, row.value) for row in rows]).encode())
    return _subjects(rows, {len(rows)})[len(rows)] + values.hexdigest()[:_HALF]


def earlier_versions(
    rows: Sequence[ReportedResult], files: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The imported files whose tickets and ids are the first rows of this one."""
    heads = _subjects(rows, {file["rows"] for file in files})
    return [file for file in files if file["digest"][:_HALF] == heads.get(file["rows"])]


def is_consistent(rows: Sequence[ReportedResult], recorded: Mapping[int, float | None]) -> bool:
    """Whether no row contradicts what was recorded from an earlier version of the file."""
    return all(rows[row].value == value for row, value in recorded.items() if rows[row].measured)


def _subjects(rows: Sequence[ReportedResult], sizes: set[int]) -> dict[int, str]:
    """Digests of the tickets and ids of the first rows, for the given numbers of rows."""
    sha, found = hashlib.sha256(), {}
    for number in range(len(rows) + 1):
        if number in sizes:
            found[number] = sha.hexdigest()[:_HALF]
        if number < len(rows):
            sha.update(repr((rows[number].ticket, rows[number].name)).encode())
    return found


# ------------------------------------------------------------------ planning the import


def plan_import(
    outcomes: Sequence[ReportedResult],
    arms: Mapping[str, int],
    tickets: Mapping[int, Ticket],
    open_tickets: Sequence[Ticket],
    recorded: Mapping[int, float | None],
    lenient: bool = False,
) -> ResultsPlan:
    """The database changes for these results.

    `arms` maps the ids of rows without a ticket, `tickets` holds every ticket that is named, and `recorded`
    the values that those tickets already have. With `lenient`, a second and different result of a ticket is
    kept as a replicate instead of being refused, because two workers may both have measured it.
    """
    plan, used = ResultsPlan(), set[int]()
    waiting: dict[int, list[int]] = defaultdict(list)
    for each in reversed(open_tickets):
        waiting[each.arm].append(each.ticket)
    for outcome in outcomes:
        ticket = None if outcome.ticket is None else tickets[outcome.ticket]
        if ticket is None:
            assert outcome.name is not None
            arm = arms[outcome.name]
            mine = _next_open(waiting[arm], used)
            _add_result(plan, outcome, arm, mine, OPEN if mine is not None else None)
            continue
        if outcome.name is not None and outcome.name != ticket.name:
            raise ResultsFileError(
                f"{outcome.where}: ticket {ticket.ticket} is for {shown(ticket.name)}, "
                f"not {shown(outcome.name)}"
            )
        if ticket.ticket in recorded and recorded[ticket.ticket] == outcome.value:
            plan.count(known=1)
        elif ticket.ticket in recorded and not lenient:
            raise ResultsFileError(
                f"{outcome.where}: ticket {ticket.ticket} already has a result, "
                f"{_shown_value(recorded[ticket.ticket])}; "
                f"for a replicate, leave the ticket empty and give the id"
            )
        elif ticket.ticket in recorded or ticket.ticket in used:
            _add_result(plan, outcome, ticket.arm, None, None)
        else:
            used.add(ticket.ticket)
            _add_result(plan, outcome, ticket.arm, ticket.ticket, ticket.state)
    return plan


def _next_open(waiting: list[int], used: set[int]) -> int | None:
    while waiting:
        ticket = waiting.pop()
        if ticket not in used:
            used.add(ticket)
            return ticket
    return None


def _add_result(
    plan: ResultsPlan, outcome: ReportedResult, arm: int, ticket: int | None, state: str | None
) -> None:
    failed = outcome.value is None
    plan.results.append({
        "ticket": ticket, "arm": arm, "value": outcome.value, "failed": failed, "note": outcome.note,
        "row": outcome.row,
    })  # fmt: skip
    if ticket is not None and state == OPEN:
        plan.closed[FAILED if failed else TOLD].append(ticket)
    plan.count(new=1, failed=int(failed), unasked=int(ticket is None), late=int(state == FORGOTTEN))


def _shown_value(value: float | None) -> str:
    return "failed" if value is None else f"{value:g}"
