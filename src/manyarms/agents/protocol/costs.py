"""The communication cost of a run, counted where messages are sent (DUETS §2, theory §9.5).

The uplink is the number of reals sent by an agent, averaged over the agents. The downlink is the number of
reals received by an agent, averaged over the agents: a broadcast to all agents counts its size once, and a
message to one agent counts its size divided by N. Messages that are sent again because of silence, loss or
disagreement are included; their part of the downlink is also reported separately as `resent`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from manyarms.agents.protocol.messages import Message


@dataclass(frozen=True)
class Cost:
    """The cost in real numbers as DUETS §2 counts them, and the total messages and bytes."""

    uplink: float
    downlink: float
    resent: float  # the part of the downlink sent again after silence, loss or disagreement
    messages: int
    n_bytes: int

    @property
    def total(self) -> float:
        """The sum of uplink and downlink, C(T) of DUETS §2."""
        return self.uplink + self.downlink


@dataclass
class Ledger:
    """Counts messages when they are sent; it belongs to the code that transmits them."""

    n_agents: int
    reals_up: Counter[str] = field(default_factory=Counter)
    reals_down: Counter[str] = field(default_factory=Counter)
    bytes_by_kind: Counter[str] = field(default_factory=Counter)
    messages_by_kind: Counter[str] = field(default_factory=Counter)
    reals_again: int = 0

    def sent_up(self, message: Message, n_bytes: int) -> None:
        """Count one message from an agent to the server."""
        self.reals_up[message.name] += message.real_numbers
        self._count(message, n_bytes)

    def sent_down(self, message: Message, n_bytes: int, again: bool = False) -> None:
        """Count one message from the server to one agent; call it once per receiver of a broadcast."""
        self.reals_down[message.name] += message.real_numbers
        self.reals_again += message.real_numbers if again else 0
        self._count(message, n_bytes)

    def _count(self, message: Message, n_bytes: int) -> None:
        self.bytes_by_kind[message.name] += n_bytes
        self.messages_by_kind[message.name] += 1

    @property
    def cost(self) -> Cost:
        """The cost so far."""
        return Cost(
            uplink=self.reals_up.total() / self.n_agents,
            downlink=self.reals_down.total() / self.n_agents,
            resent=self.reals_again / self.n_agents,
            messages=self.messages_by_kind.total(),
            n_bytes=self.bytes_by_kind.total(),
        )
