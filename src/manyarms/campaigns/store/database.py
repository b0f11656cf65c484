"""Where a campaign is kept, and how to talk to it: one SQLite file, or a name in a PostgreSQL database.

A reader sees one moment (SQLite's WAL snapshot, PostgreSQL's REPEATABLE READ). Writers queue up behind each
other (BEGIN IMMEDIATE; on PostgreSQL the caller locks the campaign's row), so what one reads inside its
transaction is still true when it commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from manyarms.campaigns.store.schema import STEPS, upgrade, version
from manyarms.errors import DatabaseError, MissingExtraError, NoCampaignError

BUSY_SECONDS = 120  # how long a writer waits for the others
_WRITER = "manyarms_writer"
_SCHEMA_LOCK = 0x6D616E79  # PostgreSQL's advisory lock while tables are made: "many"


@dataclass(frozen=True)
class Address:
    """A campaign's place: the file, or the server's URL, and its name there."""

    url: URL
    name: str
    file: Path | None

    def __str__(self) -> str:
        if self.file is not None:
            return str(self.file)
        return f"{self.url.set(drivername='postgresql').render_as_string(hide_password=True)}#{self.name}"


def address(campaign: str | Path) -> Address:
    """`FILE`, or `postgresql://user@host/database#name` (without `#name`: the campaign called "default")."""
    given = str(campaign)
    if not re.match(r"postgres(ql)?(\+\w+)?://", given):
        path = Path(given)
        return Address(URL.create("sqlite", database=str(path.absolute())), path.stem, path)
    server, _, name = given.partition("#")
    try:
        url = make_url(server).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError) as problem:
        raise DatabaseError(f"not an address of a database: {_one_line(problem)}") from None
    return Address(url, name or "default", None)


class Database:
    """Transactions on one address. Every error of the driver becomes a `DatabaseError` of one line."""

    def __init__(self, where: Address) -> None:
        self.where = where
        self._engine = _engine(where)
        self._ready = False

    def close(self) -> None:
        """Give the connection back."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one moment and writes nothing."""
        self._prepare()
        with self._transaction(writer=False) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that queues behind other writers; an exception undoes all of it."""
        self._prepare()
        with self._transaction(writer=True) as connection:
            yield connection

    @contextmanager
    def creating(self) -> Iterator[Connection]:
        """`writing` in a database that may not be there yet: its tables are made in the same transaction."""
        with self._transaction(writer=True) as connection:
            self._upgrade(connection)
            yield connection

    def _prepare(self) -> None:
        """Look at the version of the tables once, and bring them up to date."""
        if self._ready:
            return
        if self.where.file is not None and not self.where.file.is_file():
            raise NoCampaignError(f"{self.where}: no such campaign; `manyarms new` makes one")
        with self._transaction(writer=False) as connection:
            found = version(connection)
        if not found:
            raise NoCampaignError(f"{self.where}: no campaign is kept here; `manyarms new` makes one")
        if found != len(STEPS):
            with self._transaction(writer=True) as connection:
                self._upgrade(connection)
        self._ready = True

    def _upgrade(self, connection: Connection) -> None:
        if self.where.file is None:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})"))
        upgrade(connection)

    @contextmanager
    def _transaction(self, writer: bool) -> Iterator[Connection]:
        options: dict[str, Any] = {_WRITER: writer}
        if self.where.file is None:
            options["isolation_level"] = "READ COMMITTED" if writer else "REPEATABLE READ"
        try:
            with self._engine.connect() as connection, connection.execution_options(**options).begin():
                yield connection
        except DBAPIError as problem:
            raise DatabaseError(f"{self.where}: {_one_line(problem.orig or problem)}") from problem
        except SQLAlchemyError as problem:
            raise DatabaseError(f"{self.where}: {_one_line(problem)}") from problem


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__


def _engine(where: Address) -> Engine:
    if where.file is None:
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise MissingExtraError("psycopg", "postgres", "a campaign on PostgreSQL") from None
        return create_engine(where.url, pool_size=1, pool_pre_ping=True)
    waits = {"timeout": BUSY_SECONDS}
    engine = create_engine(where.url, poolclass=QueuePool, pool_size=1, connect_args=waits)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says, not at the first write
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writer = connection.get_execution_options().get(_WRITER)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")
