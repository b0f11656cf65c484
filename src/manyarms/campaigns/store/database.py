"""The address of a campaign and its transactions: one SQLite file, or a name in a PostgreSQL database.

A reader sees the database at one moment (the WAL snapshot of SQLite, REPEATABLE READ on PostgreSQL). Writers
wait for each other (BEGIN IMMEDIATE on SQLite; on PostgreSQL the caller locks the row of the campaign), so
whatever a writer reads inside its transaction is still true when it commits.
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

BUSY_SECONDS = 120  # how long a writer waits for other writers
_WRITER = "manyarms_writer"
_SCHEMA_LOCK = 0x6D616E79  # key of PostgreSQL's advisory lock during the creation of tables: "many"


@dataclass(frozen=True)
class Address:
    """The address of a campaign: its file, or the URL of the server and the name of the campaign."""

    url: URL
    name: str
    file: Path | None

    def __str__(self) -> str:
        if self.file is not None:
            return str(self.file)
        return f"{self.url.set(drivername='postgresql').render_as_string(hide_password=True)}#{self.name}"


def address(campaign: str | Path) -> Address:
    """Parse `FILE` or `postgresql://user@host/database#name`; the name defaults to "default"."""
    given = str(campaign)
    if not re.match(r"postgres(ql)?(\+\w+)?://", given):
        path = Path(given)
        return Address(URL.create("sqlite", database=str(path.absolute())), path.stem, path)
    server, _, name = given.partition("#")
    try:
        url = make_url(server).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError) as problem:
        raise DatabaseError(f"invalid database address: {message_line(problem)}") from None
    return Address(url, name or "default", None)


class Database:
    """Transactions at one address. Every error of the driver becomes a `DatabaseError` with one line."""

    def __init__(self, where: Address) -> None:
        self.where = where
        self._engine = _engine(where)
        self._ready = False

    def close(self) -> None:
        """Close the connection."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees the database at one moment and writes nothing."""
        self._prepare()
        with self._transaction(writer=False) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that waits for other writers; an exception rolls it back."""
        self._prepare()
        with self._transaction(writer=True) as connection:
            yield connection

    @contextmanager
    def creating(self) -> Iterator[Connection]:
        """A writing transaction that first creates the tables if the database has none."""
        with self._transaction(writer=True) as connection:
            self._upgrade(connection)
            yield connection

    def _prepare(self) -> None:
        """Check the schema version once, and upgrade an older schema."""
        if self._ready:
            return
        if self.where.file is not None and not self.where.file.is_file():
            raise NoCampaignError(f"{self.where}: no such campaign; create one with `manyarms new`")
        with self._transaction(writer=False) as connection:
            found = version(connection)
        if not found:
            raise NoCampaignError(
                f"{self.where}: the database holds no campaign; create one with `manyarms new`"
            )
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
            raise DatabaseError(f"{self.where}: {message_line(problem.orig or problem)}") from problem
        except SQLAlchemyError as problem:
            raise DatabaseError(f"{self.where}: {message_line(problem)}") from problem


def message_line(problem: BaseException) -> str:
    """The message of an error of the driver on one line."""
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
    connection.isolation_level = None  # `_begin_sqlite` starts transactions, not the driver
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writer = connection.get_execution_options().get(_WRITER)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")
