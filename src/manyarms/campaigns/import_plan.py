"""Plan the database changes of an import. These are pure functions; the rules are:

* A result answers an open ticket. A forgotten ticket still accepts its late result.
* A ticket is accepted if its check is right, or if the row also gives the id of its candidate. A number alone
  is accepted only for tickets that were handed out without a check, because a file that a failed ask has left
  behind holds numbers that were handed out for other candidates later.
* If a ticket already has a result, the same value changes nothing. A different value is an error, unless the
  caller says that it is a correction or a replicate.
* If a file names a ticket more than once, the further rows are replicates: new measurements of its candidate.
* A row with an id alone is compared with the earlier version of the file (`file_versions.py`). If it is new,
  it answers the oldest open ticket of that candidate. If there is none, it is a measurement without a ticket.
* A result that was removed with `untell` is not recorded again by importing the same row again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from manyarms.campaigns.file_versions import IdRow, Mode, compared
from manyarms.campaigns.results_file import ReportedResult
from manyarms.campaigns.store.corrections import Change, RecordedResult
from manyarms.campaigns.store.result_noise import ResultNoise, Said
from manyarms.campaigns.store.schema import FAILED, FORGOTTEN, OPEN, TOLD
from manyarms.campaigns.store.store import Ticket
from manyarms.errors import ResultsFileError, UnknownTicketError, shown


@dataclass(frozen=True)
class ImportSummary:
    """The number of imported and skipped rows."""

    new: int = 0  # recorded results; the next three count parts of them
    failed: int = 0  # trials without a value
    unasked: int = 0  # measurements without a ticket, including replicates
    late: int = 0  # results of forgotten tickets
    known: int = 0  # rows skipped because their result is already recorded
    unmeasured: int = 0  # rows skipped because they have no value
    corrected: int = 0  # results whose value was corrected
    removed: int = 0  # results that were removed, because a corrected file no longer has them
    untold: int = 0  # rows skipped because their result was removed with `untell`
    missing: int = 0  # results that an earlier version of the file held; they stay recorded


@dataclass
class ResultsPlan:
    """The database changes of an import: new results, tickets to close by their new state, and changes."""

    results: list[dict[str, Any]] = field(default_factory=list)
    closed: dict[str, list[int]] = field(default_factory=lambda: {TOLD: [], FAILED: []})
    changes: list[Change] = field(default_factory=list)
    file: int | None = None  # the earlier version of the file
    summary: ImportSummary = field(default_factory=ImportSummary)

    def count(self, **more: int) -> None:
        """Increase the counts of the summary."""
        self.summary = replace(
            self.summary, **{name: getattr(self.summary, name) + number for name, number in more.items()}
        )

    def add(self, outcome: ReportedResult, arm: int, ticket: Ticket | None, row: int | None = None) -> None:
        """Record a result; `row` is its place among those that the file gives by id."""
        failed = outcome.value is None
        number, state = (None, None) if ticket is None else (ticket.ticket, ticket.state)
        self.results.append({
            "ticket": number, "arm": arm, "value": outcome.value, "failed": failed, "note": outcome.note,
            "row": row, **outcome.noise.columns(),
        })  # fmt: skip
        if number is not None and state == OPEN:
            self.closed[FAILED if failed else TOLD].append(number)
        self.count(new=1, failed=int(failed), unasked=int(number is None), late=int(state == FORGOTTEN))


@dataclass(frozen=True)
class Recorded:
    """What the plan is compared with: named tickets, open tickets, all results and all files."""

    tickets: Mapping[int, Ticket]
    open_tickets: Sequence[Ticket]
    results: Sequence[RecordedResult]
    files: Sequence[Mapping[str, Any]]


def plan_workers(
    outcomes: Sequence[ReportedResult], tickets: Mapping[int, Ticket], known: Mapping[int, Said]
) -> ResultsPlan:
    """The changes for results of tickets from workers; `known` are those that the tickets already have.

    A second and different result of a ticket is a replicate, because two workers may both have measured it.
    """
    plan, used = ResultsPlan(), set[int]()
    for outcome in outcomes:
        assert outcome.ticket is not None
        ticket = tickets[outcome.ticket]
        if ticket.ticket in known and known[ticket.ticket] == outcome.said:
            plan.count(known=1)
        elif ticket.ticket in known or ticket.ticket in used:
            plan.add(outcome, ticket.arm, None)
        else:
            used.add(ticket.ticket)
            plan.add(outcome, ticket.arm, ticket)
    return plan


def check_tickets(rows: Iterable[ReportedResult], tickets: Mapping[int, Ticket]) -> None:
    """Raise an error unless every ticket is the one that was handed out, for the candidate of its row."""
    for row in rows:
        if row.ticket is None:
            continue
        ticket, place = tickets[row.ticket], f"{row.where}: " if row.where else ""
        check = ticket.code.partition("-")[2] or None
        if row.check is not None and row.check != check:
            raise UnknownTicketError(
                f"{place}ticket {row.ticket}-{row.check} was never handed out: another ask has used the "
                f"number {row.ticket}. The file is from an ask that failed, or from another campaign; "
                f"`manyarms ask --again` writes the open tickets"
            )
        if row.name is not None and row.name != ticket.name:
            raise ResultsFileError(
                f"{place}ticket {ticket.ticket} is for {shown(ticket.name)}, not {shown(row.name)}"
            )
        if row.check is None and check is not None and row.name is None:
            raise UnknownTicketError(
                f"{place}ticket {row.ticket} has no check: give the ticket as in the batch file (a "
                f"number and a check, such as 7-k3f5m), or the id of the candidate as well"
            )


class _FilePlan:
    """The plan for one file: first the rows with tickets, then those that give an id alone."""

    def __init__(self, recorded: Recorded, mode: Mode) -> None:
        self.recorded, self.mode, self.plan = recorded, mode, ResultsPlan()
        self.fresh: list[tuple[ReportedResult, int, Ticket | None, bool]] = []  # the last: given by an id
        self.id_rows: dict[int, tuple[ReportedResult, IdRow]] = {}
        self.seen: set[int] = set()  # results that a row names by its ticket
        self.current = {r.ticket: r for r in recorded.results if r.ticket is not None and not r.removed}
        self.gone: dict[int, set[Said]] = defaultdict(set)
        for result in recorded.results:
            if result.removed and result.ticket is not None:
                self.gone[result.ticket] |= {result.said, *result.earlier}

    def add_tickets(self, rows: Sequence[ReportedResult]) -> None:
        by_ticket: dict[int, list[ReportedResult]] = defaultdict(list)
        for row in rows:
            if row.ticket is not None:
                by_ticket[row.ticket].append(row)
        for number, named in by_ticket.items():
            ticket, result = self.recorded.tickets[number], self.current.get(number)
            first = self._unrecorded(named, ticket) if result is None else self._known(named, ticket, result)
            for row in named:
                if row is not first:
                    self.add_id(row, ticket.arm, ticket.name)

    def _unrecorded(self, rows: list[ReportedResult], ticket: Ticket) -> ReportedResult | None:
        """Record the first row as the result, unless it is one that was removed."""
        for row in list(rows):
            if row.said in self.gone[ticket.ticket] and self.mode is not Mode.AS_NEW:
                rows.remove(row)
                self.plan.count(untold=1)
        if rows:
            self.fresh.append((rows[0], ticket.arm, ticket, False))
        return rows[0] if rows else None

    def _known(
        self, rows: list[ReportedResult], ticket: Ticket, result: RecordedResult
    ) -> ReportedResult | None:
        self.seen.add(result.sequence)
        same = next(
            (row for said in (result.said, *result.earlier) for row in rows if row.said == said), None
        )
        if same is not None:
            self.plan.count(known=1)
        elif self.mode is Mode.CORRECT:
            same = rows[0]
            self.plan.changes.append(Change(result, same.value, noise=same.noise))
        elif self.mode is not Mode.REPLICATES:
            raise ResultsFileError(
                f"{rows[0].where}: ticket {ticket.code} already has a result, {shown_said(*result.said)}; "
                f"use --correct to correct it, or --replicates to record a further measurement"
            )
        return same

    def add_id(self, row: ReportedResult, arm: int, name: str) -> None:
        key = len(self.id_rows)
        self.id_rows[key] = row, IdRow(key, arm, name, row.value, row.exported, row.noise)

    def add_ids(self, name: str) -> None:
        """Compare the rows that give an id with the earlier version of the file."""
        others = [each for each in self.recorded.results if each.sequence not in self.seen]
        found = compared(
            [row for _, row in self.id_rows.values()], self.recorded.files, others, name, self.mode
        )
        self.plan.file = found.file
        self.plan.count(known=len(found.known), untold=len(found.removed), missing=len(found.missing))
        for key in found.new:
            row, given = self.id_rows[key]
            self.fresh.append((row, given.arm, None, True))
        if self.mode is Mode.CORRECT:
            rows = [(self.id_rows[key][0], old) for key, old in found.changed]
            self.plan.changes += [Change(old, row.value, noise=row.noise) for row, old in rows]
            self.plan.changes += [Change(old, removed=True) for old in found.missing]
            self.plan.count(missing=-len(found.missing))

    def finished(self, first_row: Mapping[int | None, int]) -> ResultsPlan:
        """Record what is new in the order of the file; an id alone answers the oldest open ticket."""
        used = {ticket.ticket for _, _, ticket, _ in self.fresh if ticket is not None}
        waiting: dict[int, list[Ticket]] = defaultdict(list)
        for each in reversed(self.recorded.open_tickets):
            if each.ticket not in used:
                waiting[each.arm].append(each)
        number = first_row.get(self.plan.file, 0)
        for row, arm, ticket, by_id in sorted(self.fresh, key=lambda each: each[0].row or 0):
            if by_id and row.ticket is None and waiting[arm]:
                ticket = waiting[arm].pop()
            self.plan.add(row, arm, ticket, number if by_id else None)
            number += by_id
        removed = sum(change.removed for change in self.plan.changes)
        self.plan.count(corrected=len(self.plan.changes) - removed, removed=removed)
        return self.plan


def plan_file(
    rows: Sequence[ReportedResult], arms: Mapping[str, int], recorded: Recorded, name: str, mode: Mode
) -> ResultsPlan:
    """The changes for the measured rows of a results file; `arms` maps the ids of rows without a ticket."""
    check_tickets(rows, recorded.tickets)
    planned = _FilePlan(recorded, mode)
    planned.add_tickets(rows)
    for row in rows:
        if row.ticket is None:
            assert row.name is not None
            planned.add_id(row, arms[row.name], row.name)
    planned.add_ids(name)
    used: dict[int | None, int] = {}
    for result in recorded.results:
        if result.row is not None:
            used[result.file] = max(used.get(result.file, 0), result.row + 1)
    return planned.finished(used)


def shown_said(value: float | None, noise: ResultNoise) -> str:
    """A value in a message, with the noise that it came with."""
    if noise.std is not None:
        return f"{shown_value(value)} (noise_std {noise.std:g})"
    return shown_value(value) + (f" (replicates {noise.replicates})" if noise.replicates else "")


def shown_value(value: float | None) -> str:
    """A value in a message."""
    return "failed" if value is None else f"{value:g}"
