"""Record, correct and remove results, each inside a writing transaction of the caller."""

from __future__ import annotations

import getpass
import hashlib
import socket
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from sqlalchemy import Connection

from manyarms.campaigns.file_versions import Mode
from manyarms.campaigns.import_plan import (
    ImportSummary,
    Recorded,
    ResultsPlan,
    check_tickets,
    plan_file,
    plan_workers,
    shown_said,
)
from manyarms.campaigns.results_file import ReportedResult
from manyarms.campaigns.store.corrections import Change, RecordedResult, apply_changes, recorded_results
from manyarms.campaigns.store.result_noise import USUAL
from manyarms.campaigns.store.schema import OPEN, TICKETS
from manyarms.campaigns.store.store import Store
from manyarms.errors import AlreadyToldError, CorrectionError, shown


def who_is_this() -> str:
    """The user and the machine, for the record of corrections."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def import_rows(
    store: Store,
    connection: Connection,
    rows: Sequence[ReportedResult],
    arms: Mapping[str, int],
    file: Mapping[str, Any],
    mode: Mode,
    who: str,
) -> ImportSummary:
    """Import the measured rows of a results file; `file` has its name and its length in bytes."""
    name = PurePath(str(file["name"])).name
    files = store.files(connection)
    recorded = Recorded(
        tickets=_named_tickets(store, connection, rows),
        open_tickets=store.tickets(connection, TICKETS.c.state == OPEN) if arms else [],
        results=recorded_results(store, connection),
        files=files,
    )
    plan = plan_file(rows, arms, recorded, name, mode)
    number = None
    if plan.results or plan.changes:
        now = {"name": name, "length": file["length"], "rows": len(rows)}
        number = plan.file or 1 + len(files)
        now["digest"] = hashlib.sha256(repr((number, name, rows)).encode(errors="replace")).hexdigest()
        earlier = next((each for each in files if each["number"] == number), None)
        if earlier is None:
            store.add_file(connection, now)
        else:
            store.change_file(connection, earlier, now)
    apply_changes(store, connection, plan.changes, who, f"a newer version of {name} was imported")
    _write(store, connection, plan, arms, number)
    return plan.summary


def record_rows(
    store: Store, connection: Connection, rows: Sequence[ReportedResult], arms: Mapping[str, int]
) -> ImportSummary:
    """Record the measured rows of a table that is not a file: a row that gives an id alone is always new."""
    recorded = Recorded(
        tickets=_named_tickets(store, connection, rows),
        open_tickets=store.tickets(connection, TICKETS.c.state == OPEN) if arms else [],
        results=recorded_results(store, connection),
        files=(),
    )
    plan = plan_file(rows, arms, recorded, "", Mode.AS_NEW)
    plan.results = [{**result, "row": None} for result in plan.results]
    _write(store, connection, plan, arms, None)
    return plan.summary


def record_outcomes(
    store: Store, connection: Connection, outcomes: Sequence[ReportedResult], *, replicates: bool = True
) -> ImportSummary:
    """Record results of tickets that workers have measured.

    Without `replicates`, for workers elsewhere, the check of a ticket must be right, and a second and
    different result of a ticket is an error.
    """
    tickets = _named_tickets(store, connection, outcomes)
    known = store.said_of(connection, tickets)
    if not replicates:
        check_tickets(outcomes, tickets)
        for each in outcomes:
            if each.ticket in known and known[each.ticket] != each.said:
                there = shown_said(*known[each.ticket])
                raise AlreadyToldError(f"ticket {tickets[each.ticket].code} already has a result, {there}")
    plan = plan_workers(outcomes, tickets, known)
    _write(store, connection, plan, {}, None)
    return plan.summary


def _named_tickets(store: Store, connection: Connection, rows: Sequence[ReportedResult]) -> dict[int, Any]:
    named = {each.ticket: each.where and f"{each.where}: " for each in rows if each.ticket is not None}
    return store.named_tickets(connection, named)


def _write(
    store: Store, connection: Connection, plan: ResultsPlan, arms: Mapping[str, int], file: int | None
) -> None:
    by_arm = {arm: name for name, arm in arms.items()}
    named = {row["arm"]: by_arm[row["arm"]] for row in plan.results if row["arm"] in by_arm}
    store.name_arms(connection, named)
    store.add_results(connection, [{**row, "file": file} for row in plan.results])
    for state, closed in plan.closed.items():
        store.set_ticket_state(connection, closed, state)


# ------------------------------------------------------------------ corrections


def correct_results(
    store: Store,
    connection: Connection,
    rows: Sequence[ReportedResult],
    was: Sequence[float | str | None],
    who: str,
    why: str | None,
    *,
    remove: bool = False,
) -> list[Change]:
    """Correct the result that each row names by its ticket or id, or with `remove`, remove it.

    `was` are the present values, "failed" for a failed trial, or None to leave them open; they are needed if
    a candidate has several results. A value without a stated noise or replicates keeps those of the result.
    Returns the changes that were made: an equal value is none.
    """
    tickets = _named_tickets(store, connection, rows)
    check_tickets(rows, tickets)
    left = [each for each in recorded_results(store, connection) if not each.removed]
    changes = []
    for row, before in zip(rows, was, strict=True):
        result = _the_result(row, before, left)
        left.remove(result)
        noise = result.noise if row.noise == USUAL and row.value is not None else row.noise
        if remove or result.said != (row.value, noise):
            changed = Change(result, removed=True) if remove else Change(result, row.value, noise=noise)
            changes.append(changed)
    apply_changes(store, connection, changes, who, why)
    return changes


def _the_result(
    row: ReportedResult, was: float | str | None, results: Sequence[RecordedResult]
) -> RecordedResult:
    place = f"{row.where}: " if row.where else ""
    subject = f"ticket {row.ticket}" if row.ticket is not None else shown(row.name)
    mine = [r for r in results if (r.ticket == row.ticket if row.ticket is not None else r.name == row.name)]
    wanted = mine if was is None else _with_value(mine, None if was == "failed" else float(was))
    if not mine:
        raise CorrectionError(f"{place}{subject} has no result")
    values = ", ".join("failed" if r.value is None else repr(r.value) for r in mine)
    if not wanted:
        raise CorrectionError(f"{place}{subject} has no result {was}; its results are {values}")
    if len({r.value for r in wanted}) > 1:
        raise CorrectionError(
            f"{place}{subject} has {len(mine)} results: {values}; "
            f"name one by its ticket or by its present value (--was, or a column 'was')"
        )
    return max(wanted, key=lambda r: (r.ticket is None, r.sequence))  # the latest without a ticket


def _with_value(results: Sequence[RecordedResult], value: float | None) -> list[RecordedResult]:
    """The results with this value or, if there is none, with the six digits that tables show of it."""
    exact = [r for r in results if r.value == value]
    if exact or value is None:
        return exact
    return [r for r in results if r.value is not None and f"{r.value:.6g}" == f"{value:.6g}"]
