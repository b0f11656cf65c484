"""Run an algorithm in one program: carry the messages as bytes, evaluate the pulls, keep the accounts.

Rounds: every agent with pending pulls makes them; then messages go back and forth until none is left. If
nothing moves, the time for answers is over (`timeout`). Agents are independent of each other within a
round, so they may run in threads or processes; results do not depend on which (`executors`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.executors import AgentHost, Evaluate, make_host
from manyarms.agents.protocol.agent import Agent, Pulls
from manyarms.agents.protocol.coins import Coin
from manyarms.agents.protocol.costs import Cost, Ledger
from manyarms.agents.protocol.messages import Message
from manyarms.agents.protocol.server import Outgoing, Server
from manyarms.agents.protocol.wire import decode, encode
from manyarms.errors import MessageError, StalledRunError
from manyarms.support.validation import Floats, count

Executor = Literal["sequential", "threads", "processes"]
Link = Callable[[str, int, bytes], list[bytes]]
BeforeSending = Callable[["Run", list[Outgoing]], list[Outgoing]]


class Algorithm(Protocol):
    """Settings that make a server and agents."""

    @property
    def n_agents(self) -> int:
        """N."""

    def server(self, domain: Any, seed: int) -> Server:
        """The server's side."""

    def agent(self, number: int, domain: Any, coin: Coin) -> Agent:
        """One agent's side."""


@dataclass(frozen=True)
class RunResult:
    """What was pulled, what came back, and what it cost. Lists are by agent."""

    arms: list[NDArray[np.int64]]  # pool indices; empty where there is no pool
    features: list[NDArray[Any]]
    rewards: list[Floats]
    cost: Cost
    ledger: Ledger
    server: Server
    refused: int  # messages that were corrupt or impossible
    unfinished: tuple[int, ...]  # agents that could not be reached any more


@dataclass
class Run:
    """A run under way.

    `link(direction, agent, bytes)` returns what arrives; it is how faults are tested. `before_sending(run,
    outgoing)` is called whenever the server's state has changed: the moment to save `run.server`, or to
    replace it; what it returns is sent.
    """

    server: Server
    host: AgentHost
    ledger: Ledger
    link: Link | None = None
    before_sending: BeforeSending | None = None
    refused: int = 0
    _up: list[bytes] = field(default_factory=list)

    def finish(self, patience: int = 100) -> None:
        """Go on until everybody is done, or until the server is and the rest can no longer be reached.

        `patience` is how many rounds may pass without a single pull, which only faults make happen.
        """
        self._send_up(self.host.start())
        idle = 0
        while not (self.server.done and self.host.done):
            moved = self._exchange()
            pulled, messages = self.host.pull()
            self._send_up(messages)
            idle = 0 if pulled else idle + 1
            if idle > patience and self.server.done:
                break
            if idle > patience:
                raise StalledRunError(f"no pull in {patience} rounds, yet the server is not done")
            if not moved and not pulled:
                self._after_silence()
        self._exchange()

    def _after_silence(self) -> None:
        """Nothing moves: the server's patience ends; when it has nothing to say, the agents'."""
        down = self._noted(self.server.timeout())
        self._send_down(down)
        if not down:
            self._send_up(self.host.timeout())

    def _exchange(self) -> bool:
        moved = False
        while self._up:
            waiting, self._up = self._up, []
            for data in waiting:
                moved = True
                self._send_down(self._at_server(data))
        return moved

    def _at_server(self, data: bytes) -> list[Outgoing]:
        try:
            answer = self.server.receive(decode(data))
        except MessageError:
            self.refused += 1
            return []
        return self._noted(answer)

    def _noted(self, outgoing: list[Outgoing]) -> list[Outgoing]:
        """The server's state has changed and nothing has been sent yet: the moment to save it."""
        return outgoing if self.before_sending is None else self.before_sending(self, outgoing)

    def _send_up(self, messages: list[Message]) -> None:
        for message in messages:
            data = encode(message)
            self.ledger.sent_up(message, len(data))
            self._up += self._carried("up", message.sender, data)

    def _send_down(self, outgoing: list[Outgoing]) -> None:
        deliveries: list[tuple[int, bytes]] = []
        for item in outgoing:
            data = encode(item.message)
            for agent in item.to:
                self.ledger.sent_down(item.message, len(data), item.again)
                deliveries += [(agent, piece) for piece in self._carried("down", agent, data)]
        if deliveries:
            messages, refused = self.host.deliver(deliveries)
            self.refused += refused
            self._send_up(messages)

    def _carried(self, direction: str, agent: int, data: bytes) -> list[bytes]:
        return [data] if self.link is None else self.link(direction, agent, data)


def run(
    algorithm: Algorithm,
    domain: Any,
    evaluate: Evaluate,
    *,
    seed: int = 0,
    executor: Executor = "sequential",
    link: Link | None = None,
    before_sending: BeforeSending | None = None,
) -> RunResult:
    """Run `algorithm` to its horizon; `evaluate(pulls)` returns one reward per pull of one agent."""
    seed = count("seed", seed, minimum=0)
    agents = [algorithm.agent(n, domain, Coin.of_agent(seed, n)) for n in range(algorithm.n_agents)]
    with make_host(executor, agents, evaluate) as host:
        under_way = Run(
            algorithm.server(domain, seed), host, Ledger(algorithm.n_agents), link, before_sending
        )
        under_way.finish()
        pulls, rewards, unfinished = host.pulls, host.rewards, host.unfinished
    return RunResult(
        arms=[_joined([p.arms for p in own if p.arms is not None], np.int64) for own in pulls],
        features=[_joined([p.features for p in own], np.float64) for own in pulls],
        rewards=[_joined(own, np.float64) for own in rewards],
        cost=under_way.ledger.cost,
        ledger=under_way.ledger,
        server=under_way.server,
        refused=under_way.refused,
        unfinished=unfinished,
    )


def _joined(pieces: list[Any], dtype: Any) -> NDArray[Any]:
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=dtype)


__all__ = ["Algorithm", "Executor", "Link", "Pulls", "Run", "RunResult", "run"]
