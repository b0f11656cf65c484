"""The address of a campaign and its transactions: one SQLite file, or a name in a PostgreSQL database.

A reader sees the database at one moment (the WAL snapshot of SQLite, REPEATABLE READ on PostgreSQL). Writers
wait for each other (BEGIN IMMEDIATE on SQLite; on PostgreSQL the caller locks the row of the campaign), so
whatever a writer reads inside its transaction is still true when it commits. A file that cannot be written,
for example on a read-only mount, can still be read.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from manyarms.campaigns.store.schema import STEPS, VERSIONS, check_version, upgrade, version
from manyarms.campaigns.text import masked
from manyarms.errors import DamagedCampaignError, DatabaseError, MissingExtraError, NoCampaignError

BUSY_SECONDS = 120  # how long a writer waits for other writers
_WRITER = "manyarms_writer"
_FORMAT_VERSIONS = slice(18, 20)  # bytes of an SQLite file: the versions needed for writing and reading
_FORM = "an address has the form postgresql://user@host:port/database#name"
_SCHEMA_LOCK = 0x6D616E79  # key of PostgreSQL's advisory lock during the creation of tables: "many"


@dataclass(frozen=True)
class Address:
    """The address of a campaign: its file, or the URL of the server and the name of the campaign."""

    url: URL
    name: str
    file: Path | None
    given: str = ""  # as the user wrote it, which may contain a password

    def __str__(self) -> str:
        if self.file is not None:
            return str(self.file)
        return masked(self.given if "#" in self.given else f"{self.given}#{self.name}")


def address(campaign: str | Path) -> Address:
    """Parse `FILE` or `postgresql://user@host/database#name`; the name defaults to "default"."""
    given = str(campaign)
    if not re.match(r"postgres(ql)?(\+\w+)?://", given):
        if "://" in given or re.match(r"postgres\w*:", given):
            raise DatabaseError(f"{masked(given)}: not a file and not an address of PostgreSQL; {_FORM}")
        path = Path(given)
        return Address(URL.create("sqlite", database=str(path.absolute())), path.stem, path)
    server, _, name = given.partition("#")
    try:
        url = make_url(server).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):  # their messages may contain a part of the password
        raise DatabaseError(f"{masked(given)}: invalid database address; {_FORM}") from None
    return Address(url, name or "default", None, given)


class Database:
    """Transactions at one address. Every error of the driver becomes a `DatabaseError` with one line."""

    def __init__(self, where: Address) -> None:
        self.where = where
        self._engine = _engine(where)
        self._ready = False
        self._file: tuple[int, int] | None = None  # which file was opened: its device and its number there

    def close(self) -> None:
        """Close the connection."""
        self._engine.dispose()

    def contents(self) -> bytes:
        """The file that SQLite would write, of a database in memory."""
        connection = self._engine.raw_connection()
        try:
            driver: Any = connection.driver_connection
            data = bytearray(driver.serialize())
        finally:
            connection.close()
        data[_FORMAT_VERSIONS] = b"\2\2"  # as `journal_mode = WAL` leaves them
        return bytes(data)

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
        if self.where.url.database != ":memory:":
            self._engine.dispose()  # the next connection finds the tables and prepares the file for them

    def is_current(self) -> bool:
        """Whether the file at this address is the one that was opened, and not deleted or another one."""
        return self._file is None or self._file_now() == self._file

    def _file_now(self) -> tuple[int, int] | None:
        """The file at this address at this moment; None on a server, or if there is no file."""
        if self.where.file is None:
            return None
        try:
            found = self.where.file.stat()
        except OSError:
            return None
        return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None

    def _prepare(self) -> None:
        """Check that the file is there, and once, the schema version; an older schema is upgraded.

        What is written into a file after it was deleted or replaced would be lost without a word.
        """
        if self.where.file is not None:
            now = self._file_now()
            if now is None:
                raise NoCampaignError(f"{self.where}: no such campaign; create one with `manyarms new`")
            if now != (self._file or now):
                raise DatabaseError(
                    f"{self.where}: the file was replaced by another one while it was open: open it again"
                )
            self._file = now
        if self._ready:
            return
        with self._transaction(writer=False) as connection:
            found = version(connection)
        if not found:
            raise NoCampaignError(f"{self.where}: {_no_campaign(self.where.file)}")
        if found != len(STEPS):
            if is_read_only(self.where.file):
                check_version(found)
                raise DatabaseError(
                    f"{self.where}: the database has schema version {found} and must be upgraded to version "
                    f"{len(STEPS)}, but it cannot be written"
                )
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
        except UnicodeDecodeError as problem:
            raise DamagedCampaignError(f"{self.where}: damaged: a text is not valid UTF-8") from problem


def message_line(problem: BaseException) -> str:
    """The message of an error of the driver on one line, without passwords."""
    return masked(" ".join(str(problem).split())) or type(problem).__name__


def _no_campaign(file: Path | None) -> str:
    """Why there is no campaign here, and what to do about it."""
    if file is None:
        return "the database holds no campaign; create one with `manyarms new`"
    if not file.stat().st_size:
        return "the file is empty, not a campaign; delete it, then create one with `manyarms new`"
    return "the file is a database of another program, not a campaign; use another name"


def is_read_only(file: Path | None) -> bool:
    """Whether SQLite cannot write the file, or cannot create the files that it needs next to it."""
    if file is None or not file.exists():
        return False
    return not (os.access(file, os.W_OK) and os.access(file.absolute().parent, os.W_OK))


def _read_only(file: Path | None) -> sqlite3.Connection:
    """A connection that only reads.

    Without results that are still in the write-ahead log, SQLite is told that nobody changes the file.
    Otherwise it would have to create a file next to it.
    """
    assert file is not None
    log = file.with_name(f"{file.name}-wal")
    frozen = "&immutable=1" if not log.exists() or not log.stat().st_size else ""
    address = f"file:{quote(str(file.absolute()))}?mode=ro{frozen}"
    return sqlite3.connect(
        address, uri=True, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None
    )


def _engine(where: Address) -> Engine:
    if where.file is None:
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise MissingExtraError("psycopg", "postgres", "a campaign on PostgreSQL") from None
        return create_engine(where.url, pool_size=1, pool_pre_ping=True)
    one: dict[str, Any] = {"poolclass": QueuePool, "pool_size": 1}
    file = where.file
    if is_read_only(file):
        engine = create_engine(where.url, creator=lambda: _read_only(file), **one)
    else:
        engine = create_engine(where.url, connect_args={"timeout": BUSY_SECONDS}, **one)
        event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # `_begin_sqlite` starts transactions, not the driver
    for pragma in ("synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    campaign = "SELECT 1 FROM sqlite_master WHERE name = ?"
    if connection.execute(campaign, (VERSIONS.name,)).fetchone():  # a file of another program stays as it is
        connection.execute("PRAGMA journal_mode = WAL")


def _begin_sqlite(connection: Connection) -> None:
    writer = connection.get_execution_options().get(_WRITER)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")
