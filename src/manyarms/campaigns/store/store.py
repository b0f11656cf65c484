"""What is read from and written to the database, each a short statement inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from manyarms.campaigns.store.database import Address, Database, address
from manyarms.campaigns.store.schema import (
    ARMS,
    BATCHES,
    CAMPAIGNS,
    FILES,
    FORGOTTEN,
    OPEN,
    RESULTS,
    STATES,
    TICKETS,
    same_ticket,
)
from manyarms.errors import AlreadyToldError, CampaignExistsError, NoCampaignError, UnknownTicketError

_AT_ONCE = 500  # names or tickets in one statement
_LARGEST = 2**31 - 1  # of the numbers a database takes


def now_text() -> str:
    """The present moment as it is stored."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Result:
    """One result as the model takes it in. `ticket` is None where nobody asked, or nobody waits any more."""

    sequence: int
    ticket: int | None
    arm: int
    value: float | None  # None: the trial failed


@dataclass(frozen=True)
class Snapshot:
    """All that the next ask depends on, at one moment."""

    sequence: int  # the last event there is
    batches: int  # handed out so far
    state: bytes | None  # the model as the last ask left it
    folded: int  # the last event that `state` has taken in
    results: tuple[Result, ...]
    forgotten: tuple[int, ...]  # tickets given up since `folded`


@dataclass(frozen=True)
class Ticket:
    """One pull handed out."""

    ticket: int
    batch: int
    arm: int
    name: str
    predicted: float
    predicted_std: float
    predicted_lower: float | None
    predicted_upper: float | None
    state: str
    worker: str | None
    lease_until: float | None


class Store:
    """One campaign's rows. Readers and writers are transactions; see `manyarms.campaigns.store.database`."""

    def __init__(self, campaign: str | Path | Address) -> None:
        self.where = campaign if isinstance(campaign, Address) else address(campaign)
        self.database = Database(self.where)
        self._id: int | None = None

    def close(self) -> None:
        """Let the database go."""
        self.database.close()

    # ------------------------------------------------------------------ the campaign itself

    def create(self, settings: str, n_arms: int) -> None:
        """A new campaign; one that is there is never touched."""
        with self.database.creating() as connection:
            if connection.execute(self._named()).first() is not None:
                raise CampaignExistsError(f"{self.where}: there is a campaign here already")
            row = {"name": self.where.name, "settings": settings, "n_arms": n_arms, "created_at": now_text()}
            connection.execute(insert(CAMPAIGNS).values(row))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A look at one moment."""
        with self.database.reading() as connection:
            self._find(connection)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A change, all or nothing, queued behind other changes of this campaign."""
        with self.database.writing() as connection:
            self._find(connection)
            connection.execute(select(CAMPAIGNS.c.id).where(CAMPAIGNS.c.id == self.id).with_for_update())
            yield connection

    def _find(self, connection: Connection) -> None:
        if self._id is None:
            self._id = connection.execute(self._named()).scalar()
            if self._id is None:
                raise NoCampaignError(f"{self.where}: no campaign of this name; `manyarms new` makes one")

    def _named(self) -> Select[int]:
        """A file holds one campaign, whatever it is called now; a server holds many."""
        found = select(CAMPAIGNS.c.id)
        return found if self.where.file is not None else found.where(CAMPAIGNS.c.name == self.where.name)

    @property
    def id(self) -> int:
        """The campaign's number in the database."""
        assert self._id is not None
        return self._id

    def row(self, connection: Connection) -> dict[str, Any]:
        """The campaign's own row."""
        found = connection.execute(select(CAMPAIGNS).where(CAMPAIGNS.c.id == self.id))
        return dict(found.mappings().one())

    def next_sequence(self, connection: Connection, size: int) -> int:
        """The first of `size` new numbers in the campaign's order of events."""
        raised = update(CAMPAIGNS).where(CAMPAIGNS.c.id == self.id)
        connection.execute(raised.values(sequence=CAMPAIGNS.c.sequence + size))
        last = connection.execute(select(CAMPAIGNS.c.sequence).where(CAMPAIGNS.c.id == self.id))
        return int(last.scalar_one()) - size + 1

    # ------------------------------------------------------------------ asking

    def snapshot(self, connection: Connection) -> Snapshot:
        """What the next ask depends on."""
        state = connection.execute(select(STATES).where(STATES.c.campaign == self.id)).mappings().first()
        folded = state["sequence"] if state else 0
        late = TICKETS.c.state == FORGOTTEN
        told = (
            select(RESULTS.c.sequence, RESULTS.c.ticket, RESULTS.c.arm, RESULTS.c.value, late.label("late"))
            .outerjoin(TICKETS, same_ticket())
            .where(RESULTS.c.campaign == self.id)
            .order_by(RESULTS.c.sequence)
        )
        given_up = select(TICKETS.c.ticket).where(
            TICKETS.c.campaign == self.id, TICKETS.c.forgotten_sequence > folded
        )
        return Snapshot(
            sequence=self.row(connection)["sequence"],
            batches=self.batches(connection),
            state=state["data"] if state else None,
            folded=folded,
            results=tuple(
                Result(row.sequence, None if row.late else row.ticket, row.arm, row.value)
                for row in connection.execute(told)
            ),
            forgotten=tuple(sorted(connection.execute(given_up).scalars())),
        )

    def batches(self, connection: Connection) -> int:
        """How many batches were handed out."""
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
        """A batch, its tickets, and the model as this ask left it."""
        connection.execute(insert(BATCHES).values(campaign=self.id, **batch))
        owned = [{"campaign": self.id, "batch": batch["number"], **ticket} for ticket in tickets]
        connection.execute(insert(TICKETS), owned)
        connection.execute(delete(STATES).where(STATES.c.campaign == self.id))
        kept = {"batch": batch["number"], "sequence": folded, "data": state}
        connection.execute(insert(STATES).values(campaign=self.id, **kept))

    def name_arms(self, connection: Connection, names: Mapping[int, str]) -> None:
        """Write down the ids of arms that were not known to the database yet."""
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
        """Arms by their id, as far as the database has met them."""
        found: dict[str, int] = {}
        for part in _parts(sorted(set(names))):
            known = select(ARMS.c.name, ARMS.c.arm).where(ARMS.c.campaign == self.id, ARMS.c.name.in_(part))
            found.update({row.name: row.arm for row in connection.execute(known)})
        return found

    # ------------------------------------------------------------------ tickets

    def tickets(self, connection: Connection, *conditions: Any) -> list[Ticket]:
        """Tickets with their arm's id, in order."""
        wanted = (
            select(*(TICKETS.c[name] for name in _TICKET_COLUMNS), ARMS.c.name)
            .join(ARMS, (ARMS.c.campaign == TICKETS.c.campaign) & (ARMS.c.arm == TICKETS.c.arm))
            .where(TICKETS.c.campaign == self.id, *conditions)
            .order_by(TICKETS.c.ticket)
        )
        return [Ticket(**row) for row in connection.execute(wanted).mappings()]

    def named_tickets(self, connection: Connection, tickets: Mapping[int, str]) -> dict[int, Ticket]:
        """These tickets, each with words on where it was named, for the error if it was never handed out."""
        found: dict[int, Ticket] = {}
        for part in _parts(sorted(ticket for ticket in tickets if ticket <= _LARGEST)):
            found |= {each.ticket: each for each in self.tickets(connection, TICKETS.c.ticket.in_(part))}
        for ticket, where in tickets.items():
            if ticket not in found:
                raise UnknownTicketError(f"{where}ticket {ticket} was never handed out")
        return found

    def forget(self, connection: Connection, tickets: Sequence[int]) -> None:
        """Give up open tickets: their arms may be asked again, and a late result still counts."""
        for ticket in self.named_tickets(connection, dict.fromkeys(tickets, "")).values():
            if ticket.state != OPEN:
                raise AlreadyToldError(f"ticket {ticket.ticket} is not open: it is {ticket.state}")
        if tickets:
            sequence = self.next_sequence(connection, 1)
            gone = {"state": FORGOTTEN, "forgotten_sequence": sequence, "worker": None, "lease_until": None}
            for part in _parts(tickets):
                self._change(connection, TICKETS.c.ticket.in_(part), gone)

    def expire(self, connection: Connection, moment: float) -> None:
        """Give up open tickets whose lease has run out."""
        late = (TICKETS.c.state == OPEN, TICKETS.c.lease_until < moment)
        expired = [each.ticket for each in self.tickets(connection, *late)]
        self.forget(connection, expired)

    def lease(self, connection: Connection, tickets: Sequence[int], worker: str, until: float) -> None:
        """Say who measures these open tickets, and until when nobody else should."""
        for part in _parts(tickets):
            held = (TICKETS.c.ticket.in_(part)) & (TICKETS.c.state == OPEN)
            self._change(connection, held, {"worker": worker, "lease_until": until})

    def settle(self, connection: Connection, tickets: Sequence[int], state: str) -> None:
        """Mark open tickets as told or failed."""
        for part in _parts(tickets):
            self._change(connection, TICKETS.c.ticket.in_(part), {"state": state, "lease_until": None})

    def _change(self, connection: Connection, which: Any, values: Mapping[str, Any]) -> None:
        connection.execute(update(TICKETS).where(TICKETS.c.campaign == self.id, which).values(**values))

    # ------------------------------------------------------------------ results

    def add_results(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write results down, in this order."""
        if not rows:
            return
        first, moment = self.next_sequence(connection, len(rows)), now_text()
        numbered = [
            {"campaign": self.id, "sequence": first + i, "told_at": moment, **row}
            for i, row in enumerate(rows)
        ]
        try:
            connection.execute(insert(RESULTS), numbered)
        except IntegrityError as problem:  # what the checks above this layer should have caught
            raise AlreadyToldError(f"{self.where}: a result was refused: {problem.orig}") from None

    def values_of(self, connection: Connection, tickets: Iterable[int]) -> dict[int, float | None]:
        """What was told for these tickets; None for a failure."""
        told: dict[int, float | None] = {}
        for part in _parts(sorted(set(tickets))):
            found = select(RESULTS.c.ticket, RESULTS.c.value).where(
                RESULTS.c.campaign == self.id, RESULTS.c.ticket.in_(part)
            )
            told.update({row.ticket: row.value for row in connection.execute(found)})
        return told

    def files(self, connection: Connection) -> list[dict[str, Any]]:
        """Results files taken in so far."""
        found = connection.execute(select(FILES).where(FILES.c.campaign == self.id).order_by(FILES.c.number))
        return [dict(row) for row in found.mappings()]

    def told_in(self, connection: Connection, file: int) -> dict[int, float | None]:
        """What was taken from a results file, by row; None for a failure."""
        found = select(RESULTS.c.row, RESULTS.c.value).where(
            RESULTS.c.campaign == self.id, RESULTS.c.file == file
        )
        return {row.row: row.value for row in connection.execute(found)}

    def add_file(self, connection: Connection, file: Mapping[str, Any]) -> int:
        """Remember a results file; its number."""
        number = 1 + len(self.files(connection))
        row = {"campaign": self.id, "number": number, "told_at": now_text(), **file}
        connection.execute(insert(FILES).values(row))
        return number

    def change_file(self, connection: Connection, file: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """A results file told again with more in it; its earlier version is kept, to be known again too."""
        mine = (FILES.c.campaign == self.id) & (FILES.c.number == file["number"])
        connection.execute(update(FILES).where(mine).values(**now))
        self.add_file(connection, {name: file[name] for name in now})


_TICKET_COLUMNS = (
    "ticket", "batch", "arm", "predicted", "predicted_std", "predicted_lower", "predicted_upper", "state",
    "worker", "lease_until",
)  # fmt: skip


def _parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Few enough at a time for one statement."""
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]
