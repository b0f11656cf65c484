"""The server of a run between machines: it checks packets, gives their messages to the state machine, and
keeps the answers until the agents fetch them.

One packet is one transaction: the new state of the server, the messages that it sends, and the counters are
written together, so a hub that is killed at any moment continues where it was. What is refused changes
nothing and leaves one line in the log.

**Rounds.** Without `lockstep` a message is used as soon as it arrives. With it, the hub waits in every round
until each agent has had one turn, and then uses their messages in the order of the agents, as `agents.run`
does; the run is then the same to the last message. DUETS does not need it, because its server waits for
everybody in every epoch anyway; the results of the UCB algorithms depend on the order.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manyarms.agents import Outgoing, Server
from manyarms.agents.protocol.wire import decode, encode
from manyarms.errors import (
    CorruptPacketError,
    MessageError,
    RefusedPacketError,
    ReplayedPacketError,
    RevokedKeyError,
    UnknownKeyError,
)
from manyarms.federation.description import Domain
from manyarms.federation.packets import DOWN, UP, Packet, check_signature, claimed
from manyarms.federation.presence import Presence
from manyarms.federation.run_file import AgentRow, RunFile
from manyarms.federation.status import run_status

_log = logging.getLogger("manyarms.federation")
MOST_MESSAGES = 1_000  # in one packet


class Hub:
    """The owner of one run file. `clock` returns the time in seconds; tests inject their own."""

    def __init__(self, path: Path, domain: Domain, clock: Callable[[], float] = time.time) -> None:
        self.file = RunFile(path)
        self.description = self.file.description
        self.description.check_domain(domain)
        self._domain, self._clock = domain, clock
        self._algorithm, self._coins = self.description.built(), self.file.coins
        self._lock = threading.Lock()
        self._server, self._version = self._algorithm.server(domain, self._coins), -1

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    @property
    def server(self) -> Server:
        """The state machine, as of the last transaction of any process."""
        version = self.file.fact("version", 0)
        if version != self._version:
            server = self._algorithm.server(self._domain, self._coins)
            state = self.file.fact("state")
            if state is not None:
                server.restore(state)
            self._server, self._version = server, version
        return self._server

    def exchange(self, data: bytes) -> bytes:
        """Take a packet of an agent and return the packet for it; raises a `RefusedPacketError`."""
        with self._lock:
            try:
                packet, row = self._authentic(data)
                return self._answer(packet, row)
            except RefusedPacketError as refusal:
                self._note_refusal(refusal)
                raise
            except BaseException:
                self._version = -1  # the state in memory may be ahead of the file
                raise

    def news_for(self, agent: int) -> bytes | None:
        """A packet for an agent if something is new for it, for a carrier that speaks first; or None."""
        with self._lock, self.file.transaction() as db:
            row = self.file.agent(agent)
            if row is None or row.key is None or row.revoked:
                return None
            behind = self.file.last_queued(agent) > row.acknowledged
            opened = self.description.lockstep and self.file.fact("round", 1) > row.round
            now = self._clock()
            if not behind and not opened and not self._presence().is_over(self.server):
                return None
            return self._packet_for(db, agent, row.acknowledged, now)

    def tick(self) -> None:
        """Let time pass: agents that have been silent for too long are asked again, then left out."""
        with self._lock, self.file.transaction() as db:
            self._handle_silence(db, self._clock())

    # ------------------------------------------------------------------ who is it

    def _authentic(self, data: bytes) -> tuple[Packet, AgentRow]:
        """The packet, if it is from who it claims to be, and is new."""
        packet = claimed(data)
        if packet.direction != UP or packet.run != self.description.run_bytes:
            raise CorruptPacketError("a packet of another run, or one that was sent by the hub itself")
        row = self.file.agent(packet.agent)
        if row is None or row.key is None:
            raise UnknownKeyError(f"the run has no agent {packet.agent} with a key")
        check_signature(data, row.key, f"agent {packet.agent}")
        if row.revoked:
            raise RevokedKeyError(f"the key of agent {packet.agent} was revoked")
        if packet.serial <= row.serial_in:
            raise ReplayedPacketError(f"a packet of agent {packet.agent} has arrived before")
        sent = self.file.rows("SELECT COALESCE(MAX(number), 0) FROM outbox WHERE agent = ?", packet.agent)[0][
            0
        ]
        if not 1 <= packet.first <= row.received + 1 or packet.acknowledged > sent:
            raise CorruptPacketError(
                f"agent {packet.agent} starts at message {packet.first} and acknowledges "
                f"{packet.acknowledged}; {row.received} have arrived from it and {sent} were sent to it"
            )
        return packet, row

    def _note_refusal(self, refusal: RefusedPacketError) -> None:
        text = f"{type(refusal).__name__}: {refusal}"
        _log.warning("refused: %s", text)
        with self.file.transaction() as db:
            self.file.write_log(db, self._clock(), None, "refused", text)

    # ------------------------------------------------------------------ messages

    def _answer(self, packet: Packet, row: AgentRow) -> bytes:
        now, agent = self._clock(), packet.agent
        with self.file.transaction() as db:
            new = packet.messages[row.received + 1 - packet.first :]
            if row.last_seen is None:
                self.file.write_log(db, now, agent, "joined", f"agent {agent} has joined")
            db.execute(
                "UPDATE agents SET last_seen = ?, serial_in = ?, received = ?, acknowledged = ?, round = ?, "
                "done = ? WHERE number = ?",
                (
                    now, packet.serial, row.received + len(new), packet.acknowledged, packet.round,
                    packet.done, agent,
                ),
            )  # fmt: skip
            self._take(db, agent, row.received, new, now)
            self._handle_silence(db, now)
            return self._packet_for(db, agent, packet.acknowledged, now)

    def _take(
        self, db: sqlite3.Connection, agent: int, received: int, messages: tuple[bytes, ...], now: float
    ) -> None:
        """Use the messages now, or at the end of the round."""
        if not self.description.lockstep:
            self._use(db, [(agent, data) for data in messages], now)
            return
        for number, data in enumerate(messages, start=received + 1):
            db.execute("INSERT INTO held VALUES (?, ?, ?)", (agent, number, data))
        number = self.file.fact("round", 1)
        if all(row.round >= number for row in self._presence().here):
            held = self.file.rows("SELECT agent, data FROM held ORDER BY agent, number")
            db.execute("DELETE FROM held")
            self.file.set(db, "round", number + 1)
            self._use(db, held, now)

    def _use(self, db: sqlite3.Connection, messages: list[tuple[int, bytes]], now: float) -> None:
        """Give messages to the state machine, and queue its answers."""
        server = self.server
        for agent, data in messages:
            try:
                message = decode(data)
                self.file.count(db, "up", agent, message.name, message.real_numbers, len(data), False)
                outgoing = server.receive(agent, message)
            except MessageError as refusal:
                text = f"message of agent {agent}: {type(refusal).__name__}: {refusal}"
                _log.warning("refused: %s", text)
                self.file.write_log(db, now, agent, "refused", text)
                continue
            self._send(db, outgoing)
        if messages:
            self._keep(db, now)

    def _send(self, db: sqlite3.Connection, outgoing: list[Outgoing]) -> None:
        for item in outgoing:
            data = encode(item.message)
            for agent in item.to:
                self.file.queue(db, agent, data)
                self.file.count(
                    db, "down", agent, item.message.name, item.message.real_numbers, len(data), item.again
                )

    def _keep(self, db: sqlite3.Connection, now: float) -> None:
        """Write the state of the server; the time of the last change starts the wait for silent agents."""
        self._version += 1
        self.file.set(db, "state", self._server.save())
        self.file.set(db, "version", self._version)
        self.file.set(db, "changed", now)

    def _packet_for(self, db: sqlite3.Connection, agent: int, acknowledged: int, now: float) -> bytes:
        row = self.file.agent(agent)
        assert row is not None
        assert row.key is not None
        serial = max(row.serial_out + 1, int(self._clock() * 1e6))
        db.execute("UPDATE agents SET serial_out = ? WHERE number = ?", (serial, agent))
        packet = Packet(
            DOWN, self.description.run_bytes, agent, serial, row.received, acknowledged + 1,
            tuple(self.file.waiting(agent, acknowledged, MOST_MESSAGES)),
            self.file.fact("round", 1) if self.description.lockstep else 0,
            self.server.done, self._presence().is_over(self.server),
        )  # fmt: skip
        return packet.sealed(row.key)

    # ------------------------------------------------------------------ time

    def _handle_silence(self, db: sqlite3.Connection, now: float) -> None:
        server, since = self.server, self.file.fact("changed", self.file.fact("created"))
        if not server.waiting_for or now - since <= self.description.wait:
            return
        silent = server.waiting_for
        outgoing = server.timeout()
        names = ", ".join(str(number) for number in silent)
        left_out = not any(item.again for item in outgoing) or server.waiting_for != silent
        text = f"the run goes on without agents {names}" if left_out else f"agents {names} were asked again"
        self.file.write_log(db, now, None, "silence", text)
        self._send(db, outgoing)
        self._keep(db, now)

    # ------------------------------------------------------------------ for people

    def status(self) -> dict[str, Any]:
        """The progress of the run as plain data; no keys."""
        with self._lock:
            return run_status(self.file, self.server, self._domain, self._presence())

    def log(self) -> list[dict[str, Any]]:
        """The lines of the log: who was invited and joined, silence, and what was refused."""
        with self._lock:
            return self.file.log()

    def _presence(self) -> Presence:
        return Presence.of(self.file, self._clock())
