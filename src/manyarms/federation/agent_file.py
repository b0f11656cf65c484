"""The file of a member: its invitation, the state of its agent, its trials and its messages."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path

from manyarms.errors import RunFileError
from manyarms.federation.invitation import Invitation
from manyarms.federation.sqlite_file import AGENT_FORM, SqliteFile


@dataclass(frozen=True)
class TrialRow:
    """One trial of the agent. `arm` is None in a box; `value` is None while the trial is open."""

    step: int
    arm: int | None
    asked_at: float
    value: float | None
    told_at: float | None
    used: bool  # False: the run went on without the trial


class AgentFile(SqliteFile):
    """Tables: `outbox` and `inbox` for messages, and `trials` with the open and the answered ones."""

    form = AGENT_FORM
    tables = (
        "CREATE TABLE outbox (number INTEGER PRIMARY KEY, data BLOB NOT NULL)",
        "CREATE TABLE inbox (number INTEGER PRIMARY KEY, data BLOB NOT NULL)",
        "CREATE TABLE trials (step INTEGER PRIMARY KEY, arm INTEGER, asked_at REAL NOT NULL, value REAL, "
        "told_at REAL, used INTEGER NOT NULL DEFAULT 1)",
    )

    @classmethod
    def join(cls, path: Path, invitation: Invitation) -> AgentFile:
        """A new agent, or the one in the file if it has the same place in the same run.

        A new invitation for the same place replaces the key, and the agent goes on where it was.
        """
        if not path.exists():
            return cls.create(path, {"invitation": invitation.to_plain()})
        file = cls(path)
        old = file.invitation
        same = (old.description, old.agent, old.coin) == (
            invitation.description, invitation.agent, invitation.coin
        )  # fmt: skip
        if not same:
            file.close()
            raise RunFileError(f"{path}: belongs to agent {old.agent} of run {old.description.run}")
        if old != invitation:
            with file.transaction() as db:
                file.set(db, "invitation", invitation.to_plain())
        return file

    @property
    def invitation(self) -> Invitation:
        """The invitation with which the agent has joined."""
        return Invitation.from_plain(self.fact("invitation"))

    def trials(self) -> list[TrialRow]:
        """All trials, in the order of their steps."""
        rows = self.rows("SELECT step, arm, asked_at, value, told_at, used FROM trials ORDER BY step")
        found = (TrialRow(*row) for row in rows)
        return [replace(row, used=bool(row.used)) for row in found]

    @staticmethod
    def queue(db: sqlite3.Connection, messages: list[bytes]) -> None:
        """Put messages into the outbox."""
        for data in messages:
            db.execute("INSERT INTO outbox (data) VALUES (?)", (data,))

    def unacknowledged(self) -> tuple[int, list[bytes]]:
        """The number of the first message that the hub has not acknowledged, and all from there on."""
        first = int(self.fact("acknowledged", 0)) + 1
        rows = self.rows("SELECT data FROM outbox WHERE number >= ? ORDER BY number", first)
        return first, [data for (data,) in rows]
