"""N-KernelUCB: N separate GP-UCB agents that never talk. The floor of communication (spec §5)."""

from __future__ import annotations

from dataclasses import dataclass

from manyarms.agents.baselines.ucb import Contexts, UcbAgent, UcbSettings
from manyarms.agents.protocol.coins import Coin
from manyarms.agents.protocol.messages import Message
from manyarms.agents.protocol.saved import pack
from manyarms.agents.protocol.server import Outgoing, Server, unexpected
from manyarms.pool.pool import Pool


@dataclass(frozen=True)
class NKernelUCB(UcbSettings):
    """Every agent for itself."""

    def server(self, domain: Pool | Contexts, seed: int) -> SilentServer:
        """A server with nothing to do."""
        return SilentServer(self.n_agents)

    def agent(self, number: int, domain: Pool | Contexts, coin: Coin) -> LonelyAgent:
        """One GP-UCB."""
        return LonelyAgent(self, number, domain, coin, self.exact_model(domain))


class LonelyAgent(UcbAgent):
    """GP-UCB on what it has pulled itself."""

    def _after_step(self) -> list[Message]:
        return []

    def receive(self, message: Message) -> list[Message]:
        """Nobody writes to it."""
        raise unexpected(message)

    def timeout(self) -> list[Message]:
        """It waits for nothing."""
        return []


class SilentServer(Server):
    """Refuses whatever comes."""

    def _react(self, message: Message) -> list[Outgoing] | None:
        raise unexpected(message)

    def timeout(self) -> list[Outgoing]:
        """Nothing is outstanding."""
        return []

    def resume(self) -> list[Outgoing]:
        """Nothing is outstanding."""
        return []

    def save(self) -> bytes:
        """An empty state."""
        return pack("NKernelUCB", {}, {}, {})

    @property
    def done(self) -> bool:
        """Always."""
        return True
