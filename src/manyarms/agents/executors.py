"""Where the agents live during a run: in this thread, in threads, or each in a process of its own.

A host does the same thing to every agent (`start`, `deliver`, `pull`, `timeout`) and returns what they said
in order of their numbers, so the run is the same wherever they live.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from numpy.typing import ArrayLike

from manyarms.agents.protocol.agent import Agent, Pulls
from manyarms.agents.protocol.messages import Message
from manyarms.agents.protocol.wire import decode, encode
from manyarms.errors import InvalidParameterError, MessageError
from manyarms.support.validation import Floats, finite_rewards

Evaluate = Callable[[Pulls], ArrayLike]

_GONE = (EOFError, BrokenPipeError, ConnectionResetError)  # what a pipe to a dead process raises
_NOTHING: dict[str, Any] = {
    "start": [],
    "timeout": [],
    "deliver": ([], 0),
    "pull": (None, None, []),
    "done": True,
}  # what a dead process says


class AgentSeat:
    """One agent with its evaluator: the work of one place, whatever that place is."""

    def __init__(self, agent: Agent, evaluate: Evaluate) -> None:
        self.agent, self.evaluate = agent, evaluate

    def start(self) -> list[Message]:
        """First messages."""
        return self.agent.start()

    def deliver(self, packets: list[bytes]) -> tuple[list[Message], int]:
        """Take messages in; answers, and how many had to be refused."""
        answers: list[Message] = []
        refused = 0
        for data in packets:
            try:
                answers += self.agent.receive(decode(data))
            except MessageError:
                refused += 1
        return answers, refused

    def pull(self) -> tuple[Pulls | None, Floats | None, list[Message]]:
        """Make the pending pulls, if any."""
        pulls = self.agent.pending
        if pulls is None:
            return None, None, []
        rewards = finite_rewards(self.evaluate(pulls), len(pulls))
        return pulls, rewards, self.agent.observe(rewards)

    def timeout(self) -> list[Message]:
        """Say it again."""
        return [] if self.agent.done else self.agent.timeout()

    def done(self) -> bool:
        """Whether the agent is."""
        return self.agent.done


class AgentHost:
    """All agents, one after the other in this thread; subclasses change only `_map`."""

    def __init__(self, agents: list[Agent], evaluate: Evaluate) -> None:
        self.agents = agents
        self.pulls: list[list[Pulls]] = [[] for _ in agents]
        self.rewards: list[list[Floats]] = [[] for _ in agents]
        self._seats: list[Any] = self._seated(agents, evaluate)
        self.down: set[int] = set()  # agents that neither hear, pull nor speak; change it to kill and revive

    def _seated(self, agents: list[Agent], evaluate: Evaluate) -> list[Any]:
        return [AgentSeat(agent, evaluate) for agent in agents]

    def _map(self, method: str, which: list[int], arguments: list[tuple[Any, ...]]) -> list[Any]:
        return [getattr(self._seats[n], method)(*args) for n, args in zip(which, arguments, strict=True)]

    @property
    def up(self) -> list[int]:
        """Agents that are not down."""
        return [n for n in range(len(self._seats)) if n not in self.down]

    def _everyone(self, method: str) -> list[Any]:
        return self._map(method, self.up, [()] * len(self.up))

    def start(self) -> list[Message]:
        """First messages of all agents."""
        return [message for said in self._everyone("start") for message in said]

    def deliver(self, packets: list[tuple[int, bytes]]) -> tuple[list[Message], int]:
        """Hand over messages; all answers, and how many were refused."""
        inbox: dict[int, list[bytes]] = {}
        for agent, data in packets:
            inbox.setdefault(agent, []).append(data)
        which = [n for n in sorted(inbox) if n not in self.down]
        results = self._map("deliver", which, [(inbox[n],) for n in which])
        return [message for said, _ in results for message in said], sum(refused for _, refused in results)

    def pull(self) -> tuple[int, list[Message]]:
        """Let everybody make its pending pulls: how many agents did, and what they said."""
        messages: list[Message] = []
        n_pulled = 0
        for n, (pulls, rewards, said) in self._pulled():
            if pulls is not None:
                n_pulled += 1
                self.pulls[n].append(pulls)
                self.rewards[n].append(rewards)
            messages += said
        return n_pulled, messages

    def _pulled(self) -> list[tuple[int, tuple[Pulls | None, Any, list[Message]]]]:
        asked = self.up  # before anybody is found dead
        return list(zip(asked, self._map("pull", asked, [()] * len(asked)), strict=True))

    def timeout(self) -> list[Message]:
        """Everybody who waits says its last thing again."""
        return [message for said in self._everyone("timeout") for message in said]

    @property
    def unfinished(self) -> tuple[int, ...]:
        """Agents that are down, or still have something to do."""
        states = dict(zip(self.up, self._everyone("done"), strict=True))
        return tuple(n for n in range(len(self._seats)) if not states.get(n, False) or n in self.down)

    @property
    def done(self) -> bool:
        """Whether all agents are that are not down."""
        return all(self._everyone("done"))

    def close(self) -> None:
        """Free what the host holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ThreadHost(AgentHost):
    """Agents side by side in threads; NumPy and the evaluator's waiting run in parallel."""

    def __init__(self, agents: list[Agent], evaluate: Evaluate) -> None:
        super().__init__(agents, evaluate)
        self._threads = ThreadPoolExecutor(max_workers=len(agents))

    def _map(self, method: str, which: list[int], arguments: list[tuple[Any, ...]]) -> list[Any]:
        jobs = [
            self._threads.submit(getattr(self._seats[n], method), *args)
            for n, args in zip(which, arguments, strict=True)
        ]
        return [job.result() for job in jobs]

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()


class ProcessHost(AgentHost):
    """Every agent in a process of its own; messages cross as their wire bytes.

    Agents and evaluator are handed to the new processes once, so both must be picklable, and the calling
    script needs the usual `if __name__ == "__main__":` guard.
    """

    def _seated(self, agents: list[Agent], evaluate: Evaluate) -> list[Any]:
        context = multiprocessing.get_context("spawn")
        self._processes, pipes = [], []
        for agent in agents:
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, agent, evaluate), daemon=True)
            process.start()
            there.close()
            self._processes.append(process)
            pipes.append(here)
        return pipes

    def _map(self, method: str, which: list[int], arguments: list[tuple[Any, ...]]) -> list[Any]:
        for n, args in zip(which, arguments, strict=True):
            with suppress(*_GONE):  # noticed when its answer is missing
                self._seats[n].send((method, args))
        return [self._answer(method, n) for n in which]

    def _answer(self, method: str, n: int) -> Any:
        """What the agent's process says; one that has died is down from now on."""
        try:
            return _opened(method, self._seats[n].recv())
        except _GONE:
            self.down.add(n)
            return _NOTHING[method]

    def close(self) -> None:
        """Tell the processes to end, and wait for them."""
        for pipe in self._seats:
            with suppress(*_GONE):
                pipe.send(None)
            pipe.close()
        for process in self._processes:
            process.join()


def _serve(pipe: Any, agent: Agent, evaluate: Evaluate) -> None:
    """The loop of an agent's process."""
    seat = AgentSeat(agent, evaluate)
    while (order := pipe.recv()) is not None:
        method, args = order
        try:
            pipe.send(_sealed(method, getattr(seat, method)(*args)))
        except Exception as error:  # handed to the caller, who raises it
            pipe.send(error)


def _sealed(method: str, result: Any) -> Any:
    """Messages as bytes."""
    if method in ("start", "timeout"):
        return [encode(message) for message in result]
    if method == "deliver":
        return [encode(message) for message in result[0]], result[1]
    return (*result[:2], [encode(message) for message in result[2]]) if method == "pull" else result


def _opened(method: str, result: Any) -> Any:
    if isinstance(result, Exception):
        raise result
    if method in ("start", "timeout"):
        return [decode(data) for data in result]
    if method == "deliver":
        return [decode(data) for data in result[0]], result[1]
    return (*result[:2], [decode(data) for data in result[2]]) if method == "pull" else result


def make_host(executor: str, agents: list[Agent], evaluate: Evaluate) -> AgentHost:
    """The host by its name."""
    hosts = {"sequential": AgentHost, "threads": ThreadHost, "processes": ProcessHost}
    if executor not in hosts:
        raise InvalidParameterError("executor", executor, f"one of {sorted(hosts)}")
    return hosts[executor](agents, evaluate)
