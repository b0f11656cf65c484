"""A SQLite file with values by name and a log: what the files of a hub and of a member have in common.

Every change is one transaction, written to the disk before it ends, so a process can be killed at any moment.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from manyarms.errors import RunFileError

_BUSY_SECONDS = 60.0
MOST_LOG_LINES = 10_000  # older lines are dropped, so that a flood of bad packets cannot fill the disk
_COMMON = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE log (id INTEGER PRIMARY KEY, time REAL NOT NULL, agent INTEGER, kind TEXT NOT NULL, "
    "text TEXT NOT NULL)",
)


SERVER_FORM, AGENT_FORM = "a run of agents (server)", "a run of agents (one agent)"
INVITATION = "manyarms invitation"  # the format of an invitation, which is a text and not a database
_KINDS = {SERVER_FORM: "the file of a run", AGENT_FORM: "the file of an agent", INVITATION: "an invitation"}
_WAYS = {
    SERVER_FORM: "`manyarms agents new` makes one",
    AGENT_FORM: "`manyarms agents join` makes one from an invitation",
    INVITATION: "the organiser of the run makes one with `manyarms agents invite`",
}


def other_kind(path: Path, wanted: str) -> RunFileError:
    """The error for a file of another kind than the wanted one; it says what the file is, if known."""
    found = form_of(path)
    if not found:
        with open(path, "rb") as stream:
            found = INVITATION if INVITATION.encode() in stream.read(1_000) else ""
    told = f"this is {_KINDS[found]}, not" if found in _KINDS else "not"
    return RunFileError(f"{path}: {told} {_KINDS[wanted]}; {_WAYS[wanted]}")


def form_of(path: Path) -> str:
    """What kind of database this is; an empty text if it is none of these."""
    if not path.is_file():
        raise RunFileError(f"{path}: there is no such file")
    try:
        db = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
        try:
            found = db.execute("SELECT value FROM facts WHERE name = 'form'").fetchone()
        finally:
            db.close()
        return "" if found is None else str(json.loads(found[0]))
    except (sqlite3.Error, ValueError):
        return ""


class SqliteFile:
    """One file. `form` says what kind of file it is and is checked when it is opened."""

    form = ""
    tables: tuple[str, ...] = ()

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise RunFileError(f"{path}: there is no such file")
        if form_of(path) != self.form:
            raise other_kind(path, self.form)
        self._connect()

    @classmethod
    def create(cls, path: Path, facts: dict[str, Any]) -> Self:
        """A new file that only its owner can read, because it holds keys."""
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as problem:
            raise RunFileError(f"{path}: cannot be created: {problem.strerror}") from None
        file = cls.__new__(cls)
        file.path = path
        file._connect()
        with file.transaction() as db:
            for statement in (*_COMMON, *cls.tables):
                db.execute(statement)
            for name, value in {"form": cls.form, **facts}.items():
                file.set(db, name, value)
        return file

    def _connect(self) -> None:
        self._db = sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as problem:
            self._db.close()
            raise RunFileError(f"{self.path}: {problem}") from None

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that waits for other writers; an exception rolls it back."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as problem:
            raise RunFileError(f"{self.path}: {problem}") from problem

    def rows(self, query: str, *values: Any) -> list[Any]:
        """The rows of a query."""
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as problem:
            raise RunFileError(f"{self.path}: {problem}") from problem

    def fact(self, name: str, default: Any = None) -> Any:
        """A value by its name: bytes, or plain data."""
        found = self.rows("SELECT value FROM facts WHERE name = ?", name)
        if not found:
            return default
        value = found[0][0]
        return value if isinstance(value, bytes) else json.loads(value)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Hold the file for one process, so that no trial is measured by two of them."""
        import fcntl

        with open(self.path, "rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RunFileError(f"{self.path}: another process is using this agent") from None
            yield

    @staticmethod
    def set(db: sqlite3.Connection, name: str, value: Any) -> None:
        """Store bytes or plain data under a name."""
        stored = value if isinstance(value, bytes) else json.dumps(value)
        db.execute(
            "INSERT INTO facts VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", (name, stored)
        )

    @staticmethod
    def write_log(db: sqlite3.Connection, time: float, agent: int | None, kind: str, text: str) -> None:
        """Add one line to the log."""
        line = db.execute(
            "INSERT INTO log (time, agent, kind, text) VALUES (?, ?, ?, ?)", (time, agent, kind, text)
        )
        db.execute("DELETE FROM log WHERE id <= ?", ((line.lastrowid or 0) - MOST_LOG_LINES,))

    def log(self) -> list[dict[str, Any]]:
        """The lines of the log, the oldest first."""
        found = self.rows("SELECT time, agent, kind, text FROM log ORDER BY id")
        return [dict(zip(("time", "agent", "kind", "text"), row, strict=True)) for row in found]
