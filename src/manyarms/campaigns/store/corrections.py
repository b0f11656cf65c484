"""Recorded results with their past, and the transaction that corrects or removes some of them.

Nothing is lost by a correction: the table of corrections keeps the old value, who changed it, when and why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from manyarms.campaigns.store.result_noise import USUAL, ResultNoise, Said
from manyarms.campaigns.store.schema import (
    ARMS,
    CORRECTIONS,
    FAILED,
    FORGOTTEN,
    OPEN,
    RESULTS,
    STATES,
    TICKETS,
    TOLD,
)
from manyarms.campaigns.store.store import Store, now_text

CORRECTED, REMOVED = "corrected", "removed"


@dataclass(frozen=True)
class RecordedResult:
    """One result with the values that it had before; a removed one is known from its corrections only."""

    sequence: int
    ticket: int | None
    arm: int
    name: str
    value: float | None  # None: the trial failed
    file: int | None
    row: int | None
    earlier: tuple[Said, ...] = ()
    removed: bool = False
    noise: ResultNoise = USUAL

    @property
    def said(self) -> Said:
        """The value and its noise."""
        return self.value, self.noise


@dataclass(frozen=True)
class Change:
    """A result and its new value (None: the trial failed) with its noise, or its removal."""

    result: RecordedResult
    value: float | None = None
    removed: bool = False
    noise: ResultNoise = USUAL


def recorded_results(store: Store, connection: Connection) -> list[RecordedResult]:
    """Every result in the order of recording, followed by those that were removed."""
    same_arm = (ARMS.c.campaign == RESULTS.c.campaign) & (ARMS.c.arm == RESULTS.c.arm)
    names = ("sequence", "ticket", "arm", "value", "file", "row")
    wanted = (
        select(*(RESULTS.c[name] for name in (*names, *USUAL.columns())), ARMS.c.name)
        .join(ARMS, same_arm)
        .where(RESULTS.c.campaign == store.id)
        .order_by(RESULTS.c.sequence)
    )
    earlier: dict[int, list[Said]] = defaultdict(list)
    removed: list[RecordedResult] = []
    for row in corrections(store, connection):
        noise = ResultNoise(row["old_noise_std"], row["old_replicates"])
        earlier[row["sequence"]].append((row["old_value"], noise))
        if row["action"] == REMOVED:
            gone = {name: row[name] for name in names if name != "value"} | {"name": row["name"]}
            removed.append(RecordedResult(**gone, value=row["old_value"], removed=True, noise=noise))
    found = [
        RecordedResult(**{name: row[name] for name in (*names, "name")}, noise=ResultNoise.of(row))
        for row in connection.execute(wanted).mappings()
    ]
    return [replace(each, earlier=tuple(earlier[each.sequence])) for each in (*found, *removed)]


def corrections(store: Store, connection: Connection) -> list[dict[str, Any]]:
    """Every correction in the order in which they were made, with the id of the candidate."""
    same_arm = (ARMS.c.campaign == CORRECTIONS.c.campaign) & (ARMS.c.arm == CORRECTIONS.c.arm)
    wanted = (
        select(CORRECTIONS, ARMS.c.name)
        .join(ARMS, same_arm)
        .where(CORRECTIONS.c.campaign == store.id)
        .order_by(CORRECTIONS.c.number)
    )
    return [dict(row) for row in connection.execute(wanted).mappings()]


def apply_changes(
    store: Store, connection: Connection, changes: Sequence[Change], who: str, why: str | None
) -> None:
    """Correct and remove results. A state that includes one of them is marked as stale."""
    if not changes:
        return
    before, moment = store.revision(connection), now_text()
    for number, change in enumerate(changes, start=before + 1):
        row = {name: getattr(change.result, name) for name in ("sequence", "ticket", "arm", "file", "row")}
        row |= {"action": REMOVED if change.removed else CORRECTED, "who": who, "why": why, "at": moment}
        row |= {"old_value": change.result.value, "new_value": change.value}
        row |= change.result.noise.columns("old_") | change.noise.columns("new_")
        connection.execute(insert(CORRECTIONS).values(campaign=store.id, number=number, **row))
        _apply(store, connection, change)
    first = min(change.result.sequence for change in changes)
    included = (STATES.c.campaign == store.id) & (STATES.c.sequence >= first)
    connection.execute(update(STATES).where(included).values(stale=True))


def _apply(store: Store, connection: Connection, change: Change) -> None:
    mine = (RESULTS.c.campaign == store.id) & (RESULTS.c.sequence == change.result.sequence)
    failed = change.value is None
    if change.removed:
        connection.execute(delete(RESULTS).where(mine))
        state = OPEN
    else:
        now = {"value": change.value, "failed": failed, "note": None, **change.noise.columns()}
        connection.execute(update(RESULTS).where(mine).values(**now))
        state = FAILED if failed else TOLD
    if change.result.ticket is not None:  # a forgotten ticket stays forgotten
        ticket = (TICKETS.c.campaign == store.id) & (TICKETS.c.ticket == change.result.ticket)
        held = {"worker": None, "lease_until": None} if change.removed else {}
        settled = ticket & (TICKETS.c.state != FORGOTTEN)
        connection.execute(update(TICKETS).where(settled).values(state=state, **held))
