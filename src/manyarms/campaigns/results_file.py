"""From the rows of a results file to what the database stores: pure functions, all or nothing.

A row names a ticket, an id, or both (then they must agree). Its outcome:

* an open ticket is settled; a ticket that was given up gets its late result all the same;
* a ticket told before with the same value changes nothing; with another value it is an error;
* a ticket named again in the same file is a replicate: one more measurement of its arm;
* an id alone settles the oldest open ticket of that arm, or else is a measurement nobody asked for;
* a row without value that is not marked as failed has not been measured yet, and is passed over.

A file told before is known by what its rows are about, not by its bytes. Told again, with rows added at its
end or values in rows that had none, only those are new; a file with another value in any row is another file.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from manyarms.campaigns.store.schema import FAILED, FORGOTTEN, OPEN, TOLD
from manyarms.campaigns.store.store import Ticket
from manyarms.errors import ResultsFileError, shown

LARGEST_VALUE = 1e100  # sums of squares of such values can still be computed
RESERVED = ("ticket", "value", "failed")
_YES, _NO = ("1", "true", "yes", "y", "t"), ("", "0", "false", "no", "n", "f")


@dataclass(frozen=True)
class Outcome:
    """One row: what was measured, and of what. `value` is None when the trial failed, or was not made yet."""

    where: str  # for messages
    ticket: int | None
    name: str | None
    value: float | None
    row: int | None = None
    note: str | None = None
    measured: bool = True


@dataclass(frozen=True)
class Told:
    """What became of the rows told."""

    new: int = 0  # results written, of which:
    failed: int = 0  # trials that gave no value
    unasked: int = 0  # measurements nobody had asked for, replicates among them
    late: int = 0  # of tickets given up before
    known: int = 0  # told before, passed over
    unmeasured: int = 0  # rows without a value, passed over


@dataclass
class Plan:
    """What to write: rows of results, and the new state of tickets."""

    results: list[dict[str, Any]] = field(default_factory=list)
    settled: dict[str, list[int]] = field(default_factory=lambda: {TOLD: [], FAILED: []})
    told: Told = field(default_factory=Told)

    def count(self, **more: int) -> None:
        """Add to the summary."""
        self.told = replace(
            self.told, **{name: getattr(self.told, name) + number for name, number in more.items()}
        )


# ------------------------------------------------------------------ reading a file


def read_outcomes(data: bytes, file: str, id_column: str, row_numbers: bool = False) -> list[Outcome]:
    """The rows of a CSV (or, by its ending, TSV) file. `row_numbers`: ids are numbers, and 07 is 7."""
    try:
        text = data.decode("utf-8-sig")
        lines = csv.reader(
            io.StringIO(text, newline=""), delimiter="\t" if file.endswith(".tsv") else ",", strict=True
        )
        numbered = [(lines.line_num, row) for row in lines if row]
    except (UnicodeDecodeError, csv.Error) as problem:
        raise ResultsFileError(f"{file}: not a readable text table: {problem}") from None
    if not numbered:
        raise ResultsFileError(f"{file}: the file is empty")
    header = [name.strip() for name in numbered[0][1]]
    _check_header(file, header, id_column)
    rows: list[Outcome] = []
    for number, (line, row) in enumerate(numbered[1:]):
        where = f"{file}: line {line}"
        if len(row) != len(header):
            raise ResultsFileError(f"{where} has {len(row)} cells, the header has {len(header)}")
        cells = dict(zip(header, row, strict=True))
        if row_numbers and id_column in cells:
            cells[id_column] = _plain_number(cells[id_column])
        rows.append(_outcome(where, number, cells, id_column))
    return rows


def _check_header(file: str, header: list[str], id_column: str) -> None:
    if "ticket" not in header and id_column not in header:
        raise ResultsFileError(
            f"{file}: no column 'ticket' or {id_column!r} to say what was measured; there are {shown(header)}"
        )
    if "value" not in header:
        raise ResultsFileError(f"{file}: no column 'value'; the file has {shown(header)}")
    for name in (*RESERVED, id_column):
        if header.count(name) > 1:
            raise ResultsFileError(f"{file}: column {name!r} appears more than once")


def _outcome(where: str, number: int, cells: Mapping[str, str], id_column: str) -> Outcome:
    failed = _flag(where, cells.get("failed", ""))
    text = cells["value"].strip()
    ticket = _ticket(where, cells.get("ticket", "").strip())
    name = cells.get(id_column) or None
    if not text and not failed:
        return Outcome(where, ticket, name, None, number, measured=False)
    if text and failed:
        raise ResultsFileError(f"{where}: both the value {shown(text)} and a mark that the trial failed")
    if ticket is None and name is None:
        raise ResultsFileError(f"{where}: neither a ticket nor an id")
    return Outcome(where, ticket, name, None if failed else checked_value(where, text), number)


def _plain_number(text: str) -> str:
    """A row number as it is written down everywhere; what is none stays, to be named in a message."""
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
        raise ResultsFileError(f"{where}, column 'ticket': {shown(text)} is not a ticket")
    return int(text)


def checked_value(where: str, text: str) -> float:
    """A finite number that sums of squares survive."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if "_" in text or math.isnan(value):
        raise ResultsFileError(f"{where}, column 'value': {shown(text)} is not a number")
    if abs(value) > LARGEST_VALUE:
        raise ResultsFileError(f"{where}, column 'value': {shown(text)} is too large")
    return value


# ------------------------------------------------------------------ knowing a file again


_HALF = 32  # digits of a digest for what the rows are about, and as many for what they say


def file_digest(rows: Sequence[Outcome]) -> str:
    """A file's identity: tickets and ids in order, then values; line ends and other columns do not count."""
    values = hashlib.sha256(repr([(row.measured, row.value) for row in rows]).encode())
    return _subjects(rows, {len(rows)})[len(rows)] + values.hexdigest()[:_HALF]


def earlier_versions(rows: Sequence[Outcome], files: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Files told before that are about the rows at the head of this one."""
    heads = _subjects(rows, {file["rows"] for file in files})
    return [file for file in files if file["digest"][:_HALF] == heads.get(file["rows"])]


def agrees(rows: Sequence[Outcome], told: Mapping[int, float | None]) -> bool:
    """Whether this file says nothing else, in any row, than what was told of an earlier one."""
    return all(rows[row].value == value for row, value in told.items() if rows[row].measured)


def _subjects(rows: Sequence[Outcome], sizes: set[int]) -> dict[int, str]:
    """Digests of what the first rows are about, for some numbers of rows."""
    sha, found = hashlib.sha256(), {}
    for number in range(len(rows) + 1):
        if number in sizes:
            found[number] = sha.hexdigest()[:_HALF]
        if number < len(rows):
            sha.update(repr((rows[number].ticket, rows[number].name)).encode())
    return found


# ------------------------------------------------------------------ deciding


def planned(
    outcomes: Sequence[Outcome],
    arms: Mapping[str, int],
    tickets: Mapping[int, Ticket],
    open_tickets: Sequence[Ticket],
    told: Mapping[int, float | None],
    lenient: bool = False,
) -> Plan:
    """What to write for these rows.

    `arms` knows the ids of rows without a ticket, `tickets` every ticket named, `told` what was told for
    them. `lenient` keeps a second, different result of a ticket as a replicate instead of refusing it: two
    workers who both measured it have both measured something.
    """
    plan, used = Plan(), set[int]()
    waiting: dict[int, list[int]] = defaultdict(list)
    for each in reversed(open_tickets):
        waiting[each.arm].append(each.ticket)
    for outcome in outcomes:
        ticket = None if outcome.ticket is None else tickets[outcome.ticket]
        if ticket is None:
            assert outcome.name is not None
            arm = arms[outcome.name]
            mine = _next_open(waiting[arm], used)
            _write(plan, outcome, arm, mine, OPEN if mine is not None else None)
            continue
        if outcome.name is not None and outcome.name != ticket.name:
            raise ResultsFileError(
                f"{outcome.where}: ticket {ticket.ticket} is for {shown(ticket.name)}, "
                f"not {shown(outcome.name)}"
            )
        if ticket.ticket in told and told[ticket.ticket] == outcome.value:
            plan.count(known=1)
        elif ticket.ticket in told and not lenient:
            raise ResultsFileError(
                f"{outcome.where}: ticket {ticket.ticket} was told already, as "
                f"{_shown_value(told[ticket.ticket])}; for a replicate leave the ticket empty and give the id"
            )
        elif ticket.ticket in told or ticket.ticket in used:
            _write(plan, outcome, ticket.arm, None, None)
        else:
            used.add(ticket.ticket)
            _write(plan, outcome, ticket.arm, ticket.ticket, ticket.state)
    return plan


def _next_open(waiting: list[int], used: set[int]) -> int | None:
    while waiting:
        ticket = waiting.pop()
        if ticket not in used:
            used.add(ticket)
            return ticket
    return None


def _write(plan: Plan, outcome: Outcome, arm: int, ticket: int | None, state: str | None) -> None:
    failed = outcome.value is None
    plan.results.append({
        "ticket": ticket, "arm": arm, "value": outcome.value, "failed": failed, "note": outcome.note,
        "row": outcome.row,
    })  # fmt: skip
    if ticket is not None and state == OPEN:
        plan.settled[FAILED if failed else TOLD].append(ticket)
    plan.count(new=1, failed=int(failed), unasked=int(ticket is None), late=int(state == FORGOTTEN))


def _shown_value(value: float | None) -> str:
    return "failed" if value is None else f"{value:g}"
