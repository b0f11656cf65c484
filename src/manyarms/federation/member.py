"""One agent between machines: it checks packets of the hub, takes turns, and keeps its trials and messages.

A carrier calls `incoming` with a packet of the hub and sends what `outgoing` returns, as often and as late as
it likes. The results of `open_trials` are given to `tell`, one by one, at any time. Every change is one
transaction of the agent's file.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from manyarms.agents import Pulls
from manyarms.agents.active_set import ActivePool
from manyarms.agents.protocol.messages import Message
from manyarms.agents.protocol.wire import decode, encode
from manyarms.errors import (
    CorruptPacketError,
    InvalidRewardError,
    MessageError,
    RefusedPacketError,
    ReplayedPacketError,
)
from manyarms.federation.agent_file import AgentFile
from manyarms.federation.description import Domain
from manyarms.federation.invitation import Invitation
from manyarms.federation.packets import DOWN, UP, Packet, check_signature, claimed


class Member:
    """The owner of one agent's file. `clock` returns the time in seconds; tests inject their own."""

    def __init__(self, file: AgentFile, domain: Domain, clock: Callable[[], float] = time.time) -> None:
        self.file, self.invitation, self._clock = file, file.invitation, clock
        self.description = self.invitation.description
        self.description.check_domain(domain)
        self._algorithm, self._domain = self.description.built(), domain
        self._load()

    @classmethod
    def join(
        cls, path: Path, invitation: Invitation, domain: Domain, clock: Callable[[], float] = time.time
    ) -> Member:
        """Join with an invitation, or continue with the file of an agent that has joined."""
        invitation.description.check_domain(domain)
        return cls(AgentFile.join(path, invitation), domain, clock)

    @property
    def number(self) -> int:
        """The number of the agent."""
        return self.invitation.agent

    @property
    def done(self) -> bool:
        """Whether the agent has completed its steps."""
        return self.agent.done

    @property
    def over(self) -> bool:
        """Whether the hub has said that the run is over."""
        return bool(self.file.fact("over", False))

    @property
    def version(self) -> tuple[int, ...]:
        """Counters that change whenever something has happened: messages, results, rounds."""
        names = ("received", "acknowledged", "round", "round_done", "over")
        told = self.file.rows("SELECT COUNT(value) FROM trials")[0][0]
        return (*(int(self.file.fact(name, 0)) for name in names), told)

    @property
    def arms_left(self) -> list[int] | None:
        """The arms that DUETS has not removed; None with another algorithm, or in a box."""
        active = getattr(self.agent, "active", None)
        return active.arms.tolist() if isinstance(active, ActivePool) else None

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    # ------------------------------------------------------------------ packets

    def outgoing(self) -> bytes:
        """The next packet for the hub, with every message that it has not acknowledged."""
        with self._changing() as db:
            if not self.description.lockstep and self.file.fact("state") is None:
                self._take_turn(db)  # the first turn has messages to send before any packet has arrived
            first, messages = self.file.unacknowledged()
            serial = max(int(self.file.fact("serial_out", 0)) + 1, int(self._clock() * 1e6))
            self.file.set(db, "serial_out", serial)
            received, completed = int(self.file.fact("received", 0)), int(self.file.fact("round_done", 0))
            packet = Packet(
                UP, self.description.run_bytes, self.number, serial, received, first, tuple(messages),
                completed, self.agent.done,
            )  # fmt: skip
        return packet.sealed(self.invitation.key)

    def incoming(self, data: bytes) -> None:
        """Take a packet of the hub; a packet that is refused changes nothing and leaves a line in the log."""
        try:
            packet = self._authentic(data)
        except RefusedPacketError as refusal:
            with self.file.transaction() as db:
                self._log(db, "refused", f"{type(refusal).__name__}: {refusal}")
            raise
        received = int(self.file.fact("received", 0))
        new = packet.messages[received + 1 - packet.first :]
        with self._changing() as db:
            for number, message in enumerate(new, start=received + 1):
                db.execute("INSERT INTO inbox VALUES (?, ?)", (number, message))
            self.file.set(db, "received", received + len(new))
            self.file.set(db, "serial_in", packet.serial)
            self.file.set(db, "acknowledged", packet.acknowledged)
            self.file.set(db, "over", packet.over)
            self.file.set(db, "round", packet.round)
            self._take_turn(db)

    def _authentic(self, data: bytes) -> Packet:
        packet = claimed(data)
        ours = packet.run == self.description.run_bytes and packet.agent == self.number
        if packet.direction != DOWN or not ours:
            raise CorruptPacketError("a packet of another run or for another agent")
        check_signature(data, self.invitation.key, f"agent {self.number}")
        if packet.serial <= int(self.file.fact("serial_in", 0)):
            raise ReplayedPacketError("a packet of the hub has arrived before")
        first, messages = self.file.unacknowledged()
        sent = first - 1 + len(messages)
        if not 1 <= packet.first <= int(self.file.fact("received", 0)) + 1 or packet.acknowledged > sent:
            raise CorruptPacketError(
                f"the hub starts at message {packet.first} and acknowledges {packet.acknowledged} of {sent}"
            )
        return packet

    # ------------------------------------------------------------------ turns and trials

    def open_trials(self) -> Pulls | None:
        """The trials to measure now; None if there are none."""
        open_now = {row.step for row in self.file.trials() if row.value is None and row.used}
        asked = self.agent.asked
        if asked is None or not open_now:
            return None
        answered = {step: 0.0 for step in asked.steps.tolist() if step not in open_now}
        left = asked.without(answered)
        return left if len(left) else None

    def tell(self, values: Mapping[int, float]) -> None:
        """Record measured values by step. A value that has already been told may be told again."""
        known = {row.step: row for row in self.file.trials()}
        for step, value in values.items():
            if step not in known:
                raise InvalidRewardError(f"agent {self.number} has no trial at step {step}")
            if known[step].value not in (None, value):
                raise InvalidRewardError(
                    f"step {step} of agent {self.number} already has the value {known[step].value!r}, "
                    f"not {value!r}"
                )
        new = {step: value for step, value in values.items() if known[step].value is None}
        now, units = self._clock(), self.description.units
        with self._changing() as db:
            messages = self.agent.tell({step: units.reward(value) for step, value in new.items()})
            for step, value in new.items():
                db.execute("UPDATE trials SET value = ?, told_at = ? WHERE step = ?", (value, now, step))
            self.file.queue(db, [encode(message) for message in messages])
            self._complete_round(db)
            if not self.description.lockstep:
                self._take_turn(db)
            self.file.set(db, "state", self.agent.save())

    def _take_turn(self, db: sqlite3.Connection) -> None:
        """Give the agent its messages, unless the round is not open; keep what it sends and asks for."""
        opened, taken = int(self.file.fact("round", 0)), int(self.file.fact("round_taken", 0))
        if self.description.lockstep and taken >= opened:
            return
        messages: list[Message] = []
        for (data,) in self.file.rows("SELECT data FROM inbox ORDER BY number"):
            try:
                messages.append(decode(data))
            except MessageError as refusal:
                self._log(db, "refused", f"message of the hub: {type(refusal).__name__}: {refusal}")
        db.execute("DELETE FROM inbox")
        answers, pulls = self.agent.turn(messages)
        for refused in self.agent.refusals:
            self._log(db, "refused", f"message of the hub: {type(refused).__name__}: {refused}")
        self.file.queue(db, [encode(message) for message in answers])
        self._note_trials(db, pulls)
        if self.description.lockstep:
            self.file.set(db, "round_taken", opened)
            self._complete_round(db)
        self.file.set(db, "state", self.agent.save())

    def _note_trials(self, db: sqlite3.Connection, pulls: Pulls | None) -> None:
        """Add new trials, and mark those that the run no longer waits for."""
        db.execute("UPDATE trials SET used = 0 WHERE value IS NULL")
        if pulls is None:
            return
        arms = [None] * len(pulls) if pulls.arms is None else pulls.arms.tolist()
        for step, arm in zip(pulls.steps.tolist(), arms, strict=True):
            db.execute(
                "INSERT INTO trials (step, arm, asked_at) VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET used = 1",
                (step, arm, self._clock()),
            )

    def _complete_round(self, db: sqlite3.Connection) -> None:
        """In lockstep, a round is complete when every trial of its turn is answered."""
        if not self.file.rows("SELECT 1 FROM trials WHERE value IS NULL AND used = 1 LIMIT 1"):
            self.file.set(db, "round_done", int(self.file.fact("round_taken", 0)))

    # ------------------------------------------------------------------ state

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction of the file; if it fails, the agent in memory is read from the file again."""
        try:
            with self.file.transaction() as db:
                if self.file.fact("changes", 0) != self._changes:  # by another process, or by hand
                    self._load()
                yield db
                self._changes += 1
                self.file.set(db, "changes", self._changes)
        except BaseException:
            self._load()
            raise

    def _load(self) -> None:
        self.agent = self._algorithm.agent(self.number, self._domain, self.invitation.coin)
        self._changes = int(self.file.fact("changes", 0))
        state = self.file.fact("state")
        if state is not None:
            self.agent.load(state)

    def _log(self, db: sqlite3.Connection, kind: str, text: str) -> None:
        self.file.write_log(db, self._clock(), self.number, kind, text)
