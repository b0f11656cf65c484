"""Run an algorithm in one program: transmit the messages as bytes, evaluate the pulls, count the cost.

A run proceeds in rounds. In a round every agent has one turn: it receives its messages, evaluates the pulls
it asks for, and sends messages; then the server receives these, in the order of the agents, and its answers
arrive in the next round. A round without pulls or messages is a timeout. The agents are independent of each
other within a round, so they may run in threads or processes, with the same results (`executors`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.executors import AgentHost, Evaluate, Round, make_host
from manyarms.agents.protocol.agent import Agent, Pulls
from manyarms.agents.protocol.coins import Coin, Coins
from manyarms.agents.protocol.costs import Cost, Ledger
from manyarms.agents.protocol.server import Outgoing, Server
from manyarms.agents.protocol.wire import decode, encode
from manyarms.errors import MessageError, StalledRunError
from manyarms.support.validation import Floats

Executor = Literal["sequential", "threads", "processes"]
Link = Callable[[str, int, bytes], list[bytes]]
BeforeSending = Callable[["Run", list[Outgoing]], list[Outgoing]]


class Algorithm(Protocol):
    """Settings from which a server and agents are built."""

    @property
    def n_agents(self) -> int:
        """The number of agents N."""

    def server(self, domain: Any, coins: Coins) -> Server:
        """The server's side, with the coins of all parties."""

    def agent(self, number: int, domain: Any, coin: Coin) -> Agent:
        """One agent's side, with its own coin."""


@dataclass(frozen=True)
class RunResult:
    """The pulls, rewards and communication cost of a run. Lists have one entry per agent."""

    arms: list[NDArray[np.int64]]  # pool indices; empty without a pool
    features: list[NDArray[Any]]
    rewards: list[Floats]
    cost: Cost
    ledger: Ledger
    server: Server
    refused: int  # corrupt or invalid messages
    unfinished: tuple[int, ...]  # agents that could no longer be reached


@dataclass
class Run:
    """A run in progress.

    `link(direction, agent, data)` returns the list of byte strings that arrive; tests use it to simulate
    faults. `before_sending(run, outgoing)` is called whenever the state of the server has changed and nothing
    has been sent yet, so that it can save or replace `run.server`; the messages it returns are sent.
    """

    server: Server
    host: AgentHost
    ledger: Ledger
    link: Link | None = None
    before_sending: BeforeSending | None = None
    refused: int = 0
    _inbox: dict[int, list[bytes]] = field(default_factory=dict)  # messages for the agents' next turns

    def finish(self, patience: int = 100) -> None:
        """Run until all parties are done, or until the server is done and some agents cannot be reached.

        `patience` is the number of consecutive rounds without a pull that are tolerated; without faults there
        is always a pull within a few rounds.
        """
        idle = 0
        while not (self.server.done and self.host.done):
            waiting, self._inbox = self._inbox, {}
            done = self.host.turn(waiting)
            moved = self._receive(done)
            idle = 0 if done.n_pulled else idle + 1
            if idle > patience and self.server.done:
                break
            if idle > patience:
                raise StalledRunError(f"no agent pulled in {patience} rounds and the server is not done")
            if not moved and not done.n_pulled and not self._inbox:
                self._handle_timeout()

    def _handle_timeout(self) -> None:
        """Let the server time out; if it sends nothing, let the agents time out."""
        outgoing = self._after_hook(self.server.timeout())
        self._send_down(outgoing)
        if not outgoing:
            self._receive(self.host.timeout())

    def _receive(self, done: Round) -> bool:
        """Transmit the agents' messages of a round to the server; whether any has arrived."""
        self.refused += done.refused
        arrived = []
        for agent, data in done.messages:
            self.ledger.sent_up(decode(data), len(data))
            arrived += [(agent, piece) for piece in self._transmitted("up", agent, data)]
        for agent, data in arrived:
            self._send_down(self._answer_of_server(agent, data))
        return bool(arrived)

    def _answer_of_server(self, agent: int, data: bytes) -> list[Outgoing]:
        try:
            answer = self.server.receive(agent, decode(data))
        except MessageError:
            self.refused += 1
            return []
        return self._after_hook(answer)

    def _after_hook(self, outgoing: list[Outgoing]) -> list[Outgoing]:
        """The messages after `before_sending` has seen them."""
        return outgoing if self.before_sending is None else self.before_sending(self, outgoing)

    def _send_down(self, outgoing: list[Outgoing]) -> None:
        for item in outgoing:
            data = encode(item.message)
            for agent in item.to:
                self.ledger.sent_down(item.message, len(data), item.again)
                self._inbox.setdefault(agent, []).extend(self._transmitted("down", agent, data))

    def _transmitted(self, direction: str, agent: int, data: bytes) -> list[bytes]:
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
    coins = Coins.from_seed(seed, algorithm.n_agents)
    agents = [algorithm.agent(n, domain, coin) for n, coin in enumerate(coins.agents)]
    with make_host(executor, agents, evaluate) as host:
        in_progress = Run(
            algorithm.server(domain, coins), host, Ledger(algorithm.n_agents), link, before_sending
        )
        in_progress.finish()
        pulls, rewards, unfinished = host.pulls, host.rewards, host.unfinished
    return RunResult(
        arms=[_concatenated([p.arms for p in own if p.arms is not None], np.int64) for own in pulls],
        features=[_concatenated([p.features for p in own], np.float64) for own in pulls],
        rewards=[_concatenated(own, np.float64) for own in rewards],
        cost=in_progress.ledger.cost,
        ledger=in_progress.ledger,
        server=in_progress.server,
        refused=in_progress.refused,
        unfinished=unfinished,
    )


def _concatenated(pieces: list[Any], dtype: Any) -> NDArray[Any]:
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=dtype)


__all__ = ["Algorithm", "Executor", "Link", "Pulls", "Run", "RunResult", "run"]
