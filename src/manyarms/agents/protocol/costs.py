"""What the messages cost, counted where they are sent (DUETS §2).

Uplink: reals sent by an agent, averaged over the agents. Downlink: reals broadcast by the server, averaged
over the agents, so a broadcast to all counts its size once and a resend to one agent counts size/N.
Whatever is sent again because of silence, loss or disagreement is in these sums, and shown apart as `resent`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from manyarms.agents.protocol.messages import Message


@dataclass(frozen=True)
class Cost:
    """Real numbers as DUETS §2 counts them, and the raw totals behind them."""

    uplink: float
    downlink: float
    resent: float  # part of the downlink: sent again after silence, loss or disagreement
    messages: int
    n_bytes: int

    @property
    def total(self) -> float:
        """Uplink and downlink together: C(T) of DUETS §2."""
        return self.uplink + self.downlink


@dataclass
class Ledger:
    """Counts messages as they go out. Owned by whoever carries the messages."""

    n_agents: int
    reals_up: Counter[str] = field(default_factory=Counter)
    reals_down: Counter[str] = field(default_factory=Counter)
    bytes_by_kind: Counter[str] = field(default_factory=Counter)
    messages_by_kind: Counter[str] = field(default_factory=Counter)
    reals_again: int = 0

    def sent_up(self, message: Message, n_bytes: int) -> None:
        """One message from one agent to the server."""
        self.reals_up[message.name] += message.real_numbers
        self._count(message, n_bytes)

    def sent_down(self, message: Message, n_bytes: int, again: bool = False) -> None:
        """One message from the server to one agent; call once per receiver of a broadcast."""
        self.reals_down[message.name] += message.real_numbers
        self.reals_again += message.real_numbers if again else 0
        self._count(message, n_bytes)

    def _count(self, message: Message, n_bytes: int) -> None:
        self.bytes_by_kind[message.name] += n_bytes
        self.messages_by_kind[message.name] += 1

    @property
    def cost(self) -> Cost:
        """The totals so far."""
        return Cost(
            uplink=self.reals_up.total() / self.n_agents,
            downlink=self.reals_down.total() / self.n_agents,
            resent=self.reals_again / self.n_agents,
            messages=self.messages_by_kind.total(),
            n_bytes=self.bytes_by_kind.total(),
        )
