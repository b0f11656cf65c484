"""The file of a hub: description and keys of a run, the state of its server, and the messages."""

from __future__ import annotations

import secrets
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyarms.agents import Coin, Coins
from manyarms.errors import RunFileError
from manyarms.federation.description import RunDescription
from manyarms.federation.invitation import KEY_BYTES, Invitation
from manyarms.federation.sqlite_file import SERVER_FORM, SqliteFile

ENDING = ".agents"
_MESSAGE = "agent INTEGER, number INTEGER, data BLOB NOT NULL, PRIMARY KEY (agent, number)"


@dataclass(frozen=True)
class AgentRow:
    """What the hub knows about one agent."""

    number: int
    name: str
    key: bytes | None  # None: not invited yet
    revoked: bool
    last_seen: float | None
    serial_in: int  # of the last packet from the agent
    serial_out: int  # of the last packet to the agent
    received: int  # the last message from the agent
    acknowledged: int  # the last message that the agent has acknowledged
    round: int  # the last round that the agent has completed
    done: bool


class RunFile(SqliteFile):
    """Tables: `agents`, messages to them (`outbox`), messages held back for a round (`held`), `traffic`."""

    form = SERVER_FORM
    tables = (
        "CREATE TABLE agents (number INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT '', key BLOB, "
        "revoked INTEGER NOT NULL DEFAULT 0, last_seen REAL, serial_in INTEGER NOT NULL DEFAULT 0, "
        "serial_out INTEGER NOT NULL DEFAULT 0, received INTEGER NOT NULL DEFAULT 0, "
        "acknowledged INTEGER NOT NULL DEFAULT 0, round INTEGER NOT NULL DEFAULT 0, "
        "done INTEGER NOT NULL DEFAULT 0)",
        f"CREATE TABLE outbox ({_MESSAGE})",
        f"CREATE TABLE held ({_MESSAGE})",
        "CREATE TABLE traffic (direction TEXT, agent INTEGER, kind TEXT, messages INTEGER NOT NULL, "
        "reals INTEGER NOT NULL, bytes INTEGER NOT NULL, again INTEGER NOT NULL, "
        "PRIMARY KEY (direction, agent, kind))",
    )

    @classmethod
    def new(cls, path: Path, description: RunDescription, coins: Coins, now: float) -> RunFile:
        """A new run. Nobody is invited yet."""
        facts = {
            "description": description.to_plain(),
            "coins": [coin.key.hex() for coin in (coins.server, *coins.agents)],
            "created": now,
        }
        file = cls.create(path, facts)
        with file.transaction() as db:
            for number in range(description.n_agents):
                db.execute("INSERT INTO agents (number) VALUES (?)", (number,))
        return file

    @property
    def description(self) -> RunDescription:
        """The description of the run."""
        return RunDescription.from_plain(self.fact("description"))

    @property
    def coins(self) -> Coins:
        """The coins of all parties."""
        server, *agents = (Coin(bytes.fromhex(text)) for text in self.fact("coins"))
        return Coins(server, tuple(agents))

    def agents(self) -> list[AgentRow]:
        """All agents, in order."""
        names = ", ".join(AgentRow.__dataclass_fields__)
        rows = self.rows(f"SELECT {names} FROM agents ORDER BY number")
        found = (AgentRow(*row) for row in rows)
        return [replace(row, revoked=bool(row.revoked), done=bool(row.done)) for row in found]

    def agent(self, number: int) -> AgentRow | None:
        """One agent, or None if the number is not in the run."""
        found = self.agents()
        return found[number] if 0 <= number < len(found) else None

    def invite(
        self, number: int | None, now: float, name: str = "", url: str = "", certificate: str = ""
    ) -> Invitation:
        """Invite the next agent, or agent `number`, whose earlier key is then no longer valid."""
        description, coins = self.description, self.coins
        with self.transaction() as db:
            rows = self.agents()
            if number is None:
                number = next((row.number for row in rows if row.key is None), None)
            if number is None:
                raise RunFileError(
                    f"{self.path}: all {len(rows)} agents are invited already; --agent N replaces the "
                    "invitation of agent N, whose earlier key is then refused"
                )
            if not 0 <= number < len(rows):
                raise RunFileError(
                    f"{self.path}: there is no agent {number}; the agents are 0 to {len(rows) - 1}"
                )
            key = secrets.token_bytes(KEY_BYTES)
            db.execute(
                "UPDATE agents SET key = ?, name = ?, revoked = 0 WHERE number = ?", (key, name, number)
            )
            self.write_log(
                db, now, number, "invited", f"agent {number} {name} was invited".replace("  ", " ")
            )
        return Invitation(description, number, key, coins.agents[number], name, url, certificate)

    def revoke(self, number: int, now: float) -> None:
        """Refuse everything from an agent from now on."""
        row = self.agent(number)
        if row is None or row.key is None:
            raise RunFileError(f"{self.path}: agent {number} has no key to revoke")
        with self.transaction() as db:
            db.execute("UPDATE agents SET revoked = 1 WHERE number = ?", (number,))
            self.write_log(db, now, number, "revoked", f"the key of agent {number} was revoked")

    # ------------------------------------------------------------------ messages

    @staticmethod
    def queue(db: sqlite3.Connection, agent: int, data: bytes) -> None:
        """Put a message into the outbox of an agent."""
        db.execute(
            "INSERT INTO outbox SELECT ?, COALESCE(MAX(number), 0) + 1, ? FROM outbox WHERE agent = ?",
            (agent, data, agent),
        )

    def last_queued(self, agent: int) -> int:
        """The number of the last message in the outbox of an agent."""
        query = "SELECT COALESCE(MAX(number), 0) FROM outbox WHERE agent = ?"
        return int(self.rows(query, agent)[0][0])

    def waiting(self, agent: int, after: int, most: int) -> list[bytes]:
        """The messages to an agent after this number."""
        query = "SELECT data FROM outbox WHERE agent = ? AND number > ? ORDER BY number LIMIT ?"
        return [data for (data,) in self.rows(query, agent, after, most)]

    @staticmethod
    def count(
        db: sqlite3.Connection, direction: str, agent: int, kind: str, reals: int, n_bytes: int, again: bool
    ) -> None:
        """Count one message in the traffic."""
        db.execute(
            "INSERT INTO traffic VALUES (?, ?, ?, 1, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "messages = messages + 1, reals = reals + excluded.reals, bytes = bytes + excluded.bytes, "
            "again = again + excluded.again",
            (direction, agent, kind, reals, n_bytes, reals if again else 0),
        )

    def traffic(self) -> list[dict[str, Any]]:
        """What was sent, by direction, agent and kind of message."""
        names = ("direction", "agent", "kind", "messages", "reals", "bytes", "again")
        rows = self.rows(f"SELECT {', '.join(names)} FROM traffic ORDER BY direction, agent, kind")
        return [dict(zip(names, row, strict=True)) for row in rows]
