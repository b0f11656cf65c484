"""The reads and writes of one campaign, each inside a transaction of the caller."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from manyarms.campaigns.store.candidates import excluded
from manyarms.campaigns.store.database import Address, Database, address, message_line
from manyarms.campaigns.store.digests import settings_digest, state_digest
from manyarms.campaigns.store.result_noise import USUAL, ResultNoise, Said
from manyarms.campaigns.store.schema import (
    ARMS,
    BATCHES,
    CAMPAIGNS,
    CORRECTIONS,
    FILES,
    FORGOTTEN,
    OPEN,
    RESULTS,
    STATES,
    TICKETS,
    same_batch,
    same_ticket,
)
from manyarms.campaigns.store.ticket_codes import new_identity, ticket_code
from manyarms.errors import (
    AlreadyToldError,
    CampaignExistsError,
    DamagedCampaignError,
    NoCampaignError,
    UnknownTicketError,
)

_AT_ONCE = 500  # names or tickets per statement
_LARGEST = 2**31 - 1  # the largest integer in a column


def now_text() -> str:
    """The current time in the stored format."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class StoredResult:
    """One result as the model uses it. `ticket` is None if there was no ticket or it was forgotten."""

    sequence: int
    ticket: int | None
    arm: int
    value: float | None  # None: the trial failed
    noise: ResultNoise = USUAL


@dataclass(frozen=True)
class Snapshot:
    """Everything the next ask depends on, at one moment."""

    sequence: int  # the number of the last event
    batches: int  # the number of batches handed out
    state: bytes | None  # the state of the model after the last ask
    folded: int  # the last event that `state` includes
    results: tuple[StoredResult, ...]
    forgotten: tuple[int, ...]  # tickets forgotten after `folded`
    n_arms: int = 0  # the number of candidates, with those of added tables
    excluded: tuple[int, ...] = ()  # candidates that are never asked for
    revision: int = 0  # the number of corrections
    # If a result that `state` includes was corrected: every ticket with its arm, to begin again. Then
    # `folded` is 0, and only the tickets, the design and the counters of `state` are still valid.
    issued: tuple[tuple[int, int], ...] | None = None
    cost_spent: float = 0.0  # what the tickets cost that were not forgotten


@dataclass(frozen=True)
class Ticket:
    """One ticket, as stored."""

    ticket: int
    code: str  # the name of the ticket: its number and its check
    batch: int
    arm: int
    name: str
    predicted: float
    predicted_std: float
    predicted_lower: float | None
    predicted_upper: float | None
    reason: str | None  # why the arm was chosen; None: handed out before reasons were recorded
    cost: float | None  # None: the campaign has no costs
    gain: float | None  # by how much this arm alone was expected to improve the best one
    state: str
    worker: str | None
    lease_until: float | None


class Store:
    """The stored rows of one campaign. `manyarms.campaigns.store.database` describes the transactions."""

    def __init__(self, campaign: str | Path | Address) -> None:
        self.where = campaign if isinstance(campaign, Address) else address(campaign)
        self.database = Database(self.where)
        self._id: int | None = None
        self._identity: str | None = None

    def close(self) -> None:
        """Close the database connection."""
        self.database.close()

    # ------------------------------------------------------------------ the campaign itself

    def create(self, settings: str, n_arms: int) -> None:
        """Create the campaign; an existing one is an error and stays unchanged."""
        with self.database.creating() as connection:
            if connection.execute(self._named()).first() is not None:
                raise CampaignExistsError(f"{self.where}: the campaign already exists")
            identity = new_identity()
            row = {
                "name": self.where.name, "settings": settings, "n_arms": n_arms, "created_at": now_text(),
                "identity": identity, "settings_digest": settings_digest(identity, settings, n_arms),
            }  # fmt: skip
            connection.execute(insert(CAMPAIGNS).values(row))

    def check(self, connection: Connection) -> None:
        """Raise an error if the settings or the saved state do not match their digest."""
        row = self.row(connection)
        if row["settings_digest"] != settings_digest(row["identity"], row["settings"], row["n_arms"]):
            raise DamagedCampaignError(f"{self.where}: damaged: the settings do not match their digest")
        state = self._state(connection)
        if state and state["digest"] != state_digest(state["batch"], state["sequence"], state["data"]):
            raise DamagedCampaignError(f"{self.where}: damaged: the saved state does not match its digest")

    def identity(self, connection: Connection) -> str:
        """The random text that identifies the campaign, also in its exports."""
        if self._identity is None:
            self._identity = str(self.row(connection)["identity"])
        return self._identity

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees the campaign at one moment."""
        with self.database.reading() as connection:
            self._find(connection)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that waits for other writers of this campaign; an exception rolls it back."""
        with self.database.writing() as connection:
            self._find(connection)
            connection.execute(select(CAMPAIGNS.c.id).where(CAMPAIGNS.c.id == self.id).with_for_update())
            yield connection

    def _find(self, connection: Connection) -> None:
        if self._id is None:
            self._id = connection.execute(self._named()).scalar()
            if self._id is None:
                raise NoCampaignError(
                    f"{self.where}: no campaign of this name; create one with `manyarms new`"
                )

    def _named(self) -> Select[int]:
        """The campaign: the only one of a file, whatever the file is called, or by name on a server."""
        found = select(CAMPAIGNS.c.id)
        return found if self.where.file is not None else found.where(CAMPAIGNS.c.name == self.where.name)

    @property
    def id(self) -> int:
        """The number of the campaign in the database."""
        assert self._id is not None
        return self._id

    def row(self, connection: Connection) -> dict[str, Any]:
        """The row of the campaign."""
        found = connection.execute(select(CAMPAIGNS).where(CAMPAIGNS.c.id == self.id))
        return dict(found.mappings().one())

    def next_sequence(self, connection: Connection, size: int) -> int:
        """Reserve `size` consecutive event numbers and return the first."""
        raised = update(CAMPAIGNS).where(CAMPAIGNS.c.id == self.id)
        connection.execute(raised.values(sequence=CAMPAIGNS.c.sequence + size))
        last = connection.execute(select(CAMPAIGNS.c.sequence).where(CAMPAIGNS.c.id == self.id))
        return int(last.scalar_one()) - size + 1

    # ------------------------------------------------------------------ asking

    def snapshot(self, connection: Connection) -> Snapshot:
        """Everything the next ask depends on."""
        state = self._state(connection)
        stale = bool(state and state["stale"])
        folded = state["sequence"] if state and not stale else 0
        late = TICKETS.c.state == FORGOTTEN
        told = (
            select(
                RESULTS.c.sequence,
                RESULTS.c.ticket,
                RESULTS.c.arm,
                RESULTS.c.value,
                RESULTS.c.noise_std,
                RESULTS.c.replicates,
                late.label("late"),
            )
            .outerjoin(TICKETS, same_ticket())
            .where(RESULTS.c.campaign == self.id)
            .order_by(RESULTS.c.sequence)
        )
        given_up = select(TICKETS.c.ticket).where(
            TICKETS.c.campaign == self.id, TICKETS.c.forgotten_sequence > folded
        )
        row = self.row(connection)
        return Snapshot(
            sequence=row["sequence"],
            n_arms=row["n_arms"],
            excluded=tuple(sorted(excluded(connection, self.id))),
            batches=self.batches(connection),
            state=state["data"] if state else None,
            folded=folded,
            results=tuple(
                StoredResult(
                    row["sequence"],
                    None if row["late"] else row["ticket"],
                    row["arm"],
                    row["value"],
                    ResultNoise.of(row),
                )
                for row in connection.execute(told).mappings()
            ),
            forgotten=tuple(sorted(connection.execute(given_up).scalars())),
            revision=self.revision(connection),
            issued=tuple((each.ticket, each.arm) for each in self.tickets(connection)) if stale else None,
            cost_spent=math.fsum(
                cost or 0.0 for state, cost in self.ticket_costs(connection) if state != FORGOTTEN
            ),
        )

    def ticket_costs(self, connection: Connection) -> list[tuple[str, float | None]]:
        """The state and the cost of every ticket that has a cost."""
        wanted = select(TICKETS.c.state, TICKETS.c.cost).where(
            TICKETS.c.campaign == self.id, TICKETS.c.cost.is_not(None)
        )
        return [(row.state, row.cost) for row in connection.execute(wanted)]

    def _state(self, connection: Connection) -> Any:
        return connection.execute(select(STATES).where(STATES.c.campaign == self.id)).mappings().first()

    def revision(self, connection: Connection) -> int:
        """The number of corrections so far."""
        counted = select(func.count()).select_from(CORRECTIONS).where(CORRECTIONS.c.campaign == self.id)
        return int(connection.execute(counted).scalar_one())

    def batches(self, connection: Connection) -> int:
        """The number of batches handed out."""
        counted = select(func.count()).select_from(BATCHES).where(BATCHES.c.campaign == self.id)
        return int(connection.execute(counted).scalar_one())

    def hand_out(
        self,
        connection: Connection,
        batch: Mapping[str, Any],
        tickets: Sequence[Mapping[str, Any]],
        state: bytes,
        folded: int,
    ) -> None:
        """Store a batch, its tickets, and the state of the model after this ask."""
        connection.execute(insert(BATCHES).values(campaign=self.id, **batch))
        owned = [{"campaign": self.id, "batch": batch["number"], **ticket} for ticket in tickets]
        connection.execute(insert(TICKETS), owned)
        connection.execute(delete(STATES).where(STATES.c.campaign == self.id))
        digest = state_digest(batch["number"], folded, state)
        kept = {"batch": batch["number"], "sequence": folded, "data": state, "digest": digest}
        connection.execute(insert(STATES).values(campaign=self.id, **kept))

    def name_arms(self, connection: Connection, names: Mapping[int, str]) -> None:
        """Store the ids of arms that the database does not know yet."""
        known: set[int] = set()
        for part in _parts(sorted(names)):
            found = select(ARMS.c.arm).where(ARMS.c.campaign == self.id, ARMS.c.arm.in_(part))
            known.update(connection.execute(found).scalars())
        n_arms = self.row(connection)["n_arms"]
        fresh = [
            {"campaign": self.id, "arm": arm, "name": name, "n_arms": n_arms}
            for arm, name in names.items()
            if arm not in known
        ]
        if fresh:
            connection.execute(insert(ARMS), fresh)

    def known_arms(self, connection: Connection, names: Iterable[str]) -> dict[str, int]:
        """The arms of those ids that the database knows."""
        found: dict[str, int] = {}
        for part in _parts(sorted(set(names))):
            known = select(ARMS.c.name, ARMS.c.arm).where(ARMS.c.campaign == self.id, ARMS.c.name.in_(part))
            found.update({row.name: row.arm for row in connection.execute(known)})
        return found

    def arm_names(self, connection: Connection, arms: Sequence[int]) -> dict[int, str]:
        """The ids of arms that the database knows."""
        found: dict[int, str] = {}
        for part in _parts(sorted(arms)):
            known = select(ARMS.c.arm, ARMS.c.name).where(ARMS.c.campaign == self.id, ARMS.c.arm.in_(part))
            found.update({row.arm: row.name for row in connection.execute(known)})
        return found

    # ------------------------------------------------------------------ tickets

    def tickets(self, connection: Connection, *conditions: Any) -> list[Ticket]:
        """The tickets that satisfy the conditions, with the id of their arm, in order."""
        wanted = (
            select(*(TICKETS.c[name] for name in _TICKET_COLUMNS), ARMS.c.name, BATCHES.c.nonce)
            .join(ARMS, (ARMS.c.campaign == TICKETS.c.campaign) & (ARMS.c.arm == TICKETS.c.arm))
            .join(BATCHES, same_batch())
            .where(TICKETS.c.campaign == self.id, *conditions)
            .order_by(TICKETS.c.ticket)
        )
        identity = self.identity(connection)
        rows = [dict(row) for row in connection.execute(wanted).mappings()]
        return [Ticket(code=ticket_code(identity, row.pop("nonce"), row["ticket"]), **row) for row in rows]

    def named_tickets(self, connection: Connection, tickets: Mapping[int, str]) -> dict[int, Ticket]:
        """The tickets of these numbers. Each maps to the place that the error names if it does not exist."""
        found: dict[int, Ticket] = {}
        for part in _parts(sorted(ticket for ticket in tickets if ticket <= _LARGEST)):
            found |= {each.ticket: each for each in self.tickets(connection, TICKETS.c.ticket.in_(part))}
        for ticket, where in tickets.items():
            if ticket not in found:
                raise UnknownTicketError(f"{where}ticket {ticket} was never handed out")
        return found

    def forget(self, connection: Connection, tickets: Sequence[int]) -> None:
        """Cancel open tickets: their arms may be asked for again, and a late result is still recorded."""
        for ticket in self.named_tickets(connection, dict.fromkeys(tickets, "")).values():
            if ticket.state != OPEN:
                raise AlreadyToldError(f"ticket {ticket.ticket} is not open: it is {ticket.state}")
        if tickets:
            sequence = self.next_sequence(connection, 1)
            gone = {"state": FORGOTTEN, "forgotten_sequence": sequence, "worker": None, "lease_until": None}
            for part in _parts(tickets):
                self._change(connection, TICKETS.c.ticket.in_(part), gone)

    def expire(self, connection: Connection, moment: float) -> None:
        """Forget open tickets whose lease has expired."""
        late = (TICKETS.c.state == OPEN, TICKETS.c.lease_until < moment)
        expired = [each.ticket for each in self.tickets(connection, *late)]
        self.forget(connection, expired)

    def lease(self, connection: Connection, tickets: Sequence[int], worker: str, until: float) -> None:
        """Assign these open tickets to a worker until a given time."""
        for part in _parts(tickets):
            held = (TICKETS.c.ticket.in_(part)) & (TICKETS.c.state == OPEN)
            self._change(connection, held, {"worker": worker, "lease_until": until})

    def set_ticket_state(self, connection: Connection, tickets: Sequence[int], state: str) -> None:
        """Close tickets: set their state to answered (TOLD) or failed."""
        for part in _parts(tickets):
            self._change(connection, TICKETS.c.ticket.in_(part), {"state": state, "lease_until": None})

    def _change(self, connection: Connection, which: Any, values: Mapping[str, Any]) -> None:
        connection.execute(update(TICKETS).where(TICKETS.c.campaign == self.id, which).values(**values))

    # ------------------------------------------------------------------ results

    def add_results(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store results in this order."""
        if not rows:
            return
        first, moment = self.next_sequence(connection, len(rows)), now_text()
        numbered = [
            {"campaign": self.id, "sequence": first + i, "told_at": moment, **row}
            for i, row in enumerate(rows)
        ]
        try:
            connection.execute(insert(RESULTS), numbered)
        except IntegrityError as problem:  # a rule that the caller should have checked
            why = message_line(problem.orig or problem)
            raise AlreadyToldError(f"{self.where}: the database refused a result: {why}") from None

    def values_of(self, connection: Connection, tickets: Iterable[int]) -> dict[int, float | None]:
        """The recorded values of these tickets; None for a failed trial."""
        return {ticket: value for ticket, (value, _) in self.said_of(connection, tickets).items()}

    def said_of(self, connection: Connection, tickets: Iterable[int]) -> dict[int, Said]:
        """The recorded values of these tickets, each with its noise."""
        told: dict[int, Said] = {}
        columns = (RESULTS.c.ticket, RESULTS.c.value, RESULTS.c.noise_std, RESULTS.c.replicates)
        for part in _parts(sorted(set(tickets))):
            found = select(*columns).where(RESULTS.c.campaign == self.id, RESULTS.c.ticket.in_(part))
            for row in connection.execute(found).mappings():
                told[row["ticket"]] = row["value"], ResultNoise.of(row)
        return told

    def files(self, connection: Connection) -> list[dict[str, Any]]:
        """The imported results files."""
        found = connection.execute(select(FILES).where(FILES.c.campaign == self.id).order_by(FILES.c.number))
        return [dict(row) for row in found.mappings()]

    def add_file(self, connection: Connection, file: Mapping[str, Any]) -> int:
        """Store the identity of a results file and return its number."""
        number = 1 + len(self.files(connection))
        row = {"campaign": self.id, "number": number, "told_at": now_text(), **file}
        connection.execute(insert(FILES).values(row))
        return number

    def change_file(self, connection: Connection, file: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Store the present version of a results file in the place of an earlier one."""
        mine = (FILES.c.campaign == self.id) & (FILES.c.number == file["number"])
        connection.execute(update(FILES).where(mine).values(**now))


_TICKET_COLUMNS = (
    "ticket", "batch", "arm", "predicted", "predicted_std", "predicted_lower", "predicted_upper",
    "reason", "cost", "gain", "state", "worker", "lease_until",
)  # fmt: skip


def _parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Parts that are small enough for one statement."""
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]
