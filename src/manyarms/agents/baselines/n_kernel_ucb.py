"""N-KernelUCB: agents that do not communicate; the baseline with no communication cost (theory §9.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manyarms.agents.baselines.ucb import Contexts, UcbSettings
from manyarms.agents.baselines.ucb_agent import UcbAgent
from manyarms.agents.protocol.coins import Coin, Coins
from manyarms.agents.protocol.messages import Message
from manyarms.agents.protocol.saved import pack, unpack
from manyarms.agents.protocol.server import Outgoing, Server, unexpected
from manyarms.pool.pool import Pool


@dataclass(frozen=True)
class NKernelUCB(UcbSettings):
    """Agents that run GP-UCB without communication."""

    def server(self, domain: Pool | Contexts, coins: Coins) -> IdleServer:
        """A server that does nothing."""
        return IdleServer(self.n_agents)

    def agent(self, number: int, domain: Pool | Contexts, coin: Coin) -> IndependentAgent:
        """One GP-UCB agent."""
        return IndependentAgent(self, number, domain, coin)


class IndependentAgent(UcbAgent):
    """GP-UCB on the agent's own pulls."""

    def _after_step(self) -> list[Message]:
        return []

    def _react(self, message: Message) -> list[Message]:
        """Refuse every message, since this algorithm sends none."""
        raise unexpected(message)

    def timeout(self) -> list[Message]:
        """Send nothing, since the agent never waits."""
        return []


class IdleServer(Server):
    """Refuses every message."""

    def _react(self, message: Message) -> list[Outgoing] | None:
        raise unexpected(message)

    def timeout(self) -> list[Outgoing]:
        """Send nothing, since no answer is outstanding."""
        return []

    def resume(self) -> list[Outgoing]:
        """Send nothing, since no answer is outstanding."""
        return []

    def save(self) -> bytes:
        """Save an empty state."""
        return pack("NKernelUCB", {}, {}, {})

    def restore(self, state: bytes) -> None:
        """Check that the state is one of this algorithm."""
        unpack(state, "NKernelUCB", {})

    @property
    def done(self) -> bool:
        """Always true."""
        return True

    @property
    def waiting_for(self) -> tuple[int, ...]:
        """Nobody."""
        return ()

    def summary(self) -> dict[str, Any]:
        """Nothing, since the server takes no part."""
        return {"phase": "idle"}
