"""Where the agents of a run execute: in the calling thread, in threads, or each in its own process.

A host calls the same method (`start`, `deliver`, `pull`, `timeout`) on every agent and returns their messages
in the order of the agents' numbers, so the result does not depend on where the agents execute.
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

_BROKEN_PIPE = (EOFError, BrokenPipeError, ConnectionResetError)  # raised by a pipe to a dead process
_DEAD_ANSWER: dict[str, Any] = {
    "start": [],
    "timeout": [],
    "deliver": ([], 0),
    "pull": (None, None, []),
    "done": True,
}  # the result of each method for an agent whose process has died


class AgentWorker:
    """One agent with the function that evaluates its pulls."""

    def __init__(self, agent: Agent, evaluate: Evaluate) -> None:
        self.agent, self.evaluate = agent, evaluate

    def start(self) -> list[Message]:
        """The agent's first messages."""
        return self.agent.start()

    def deliver(self, packets: list[bytes]) -> tuple[list[Message], int]:
        """Deliver messages; return the answers and how many messages were refused."""
        answers: list[Message] = []
        refused = 0
        for data in packets:
            try:
                answers += self.agent.receive(decode(data))
            except MessageError:
                refused += 1
        return answers, refused

    def pull(self) -> tuple[Pulls | None, Floats | None, list[Message]]:
        """Evaluate the pending pulls, if any."""
        pulls = self.agent.pending
        if pulls is None:
            return None, None, []
        rewards = finite_rewards(self.evaluate(pulls), len(pulls))
        return pulls, rewards, self.agent.observe(rewards)

    def timeout(self) -> list[Message]:
        """The messages the agent repeats after a timeout."""
        return [] if self.agent.done else self.agent.timeout()

    def done(self) -> bool:
        """Whether the agent is done."""
        return self.agent.done


class AgentHost:
    """Runs all agents one after the other in the calling thread; subclasses run them elsewhere."""

    def __init__(self, agents: list[Agent], evaluate: Evaluate) -> None:
        self.agents = agents
        self.pulls: list[list[Pulls]] = [[] for _ in agents]
        self.rewards: list[list[Floats]] = [[] for _ in agents]
        self._workers: list[Any] = self._start_workers(agents, evaluate)
        self.down: set[int] = set()  # agents that do not respond; edit this set to stop and revive agents

    def _start_workers(self, agents: list[Agent], evaluate: Evaluate) -> list[Any]:
        return [AgentWorker(agent, evaluate) for agent in agents]

    def _map(self, method: str, which: list[int], arguments: list[tuple[Any, ...]]) -> list[Any]:
        return [getattr(self._workers[n], method)(*args) for n, args in zip(which, arguments, strict=True)]

    @property
    def up(self) -> list[int]:
        """The agents that are not down."""
        return [n for n in range(len(self._workers)) if n not in self.down]

    def _map_all(self, method: str) -> list[Any]:
        return self._map(method, self.up, [()] * len(self.up))

    def start(self) -> list[Message]:
        """The first messages of all agents."""
        return [message for messages in self._map_all("start") for message in messages]

    def deliver(self, packets: list[tuple[int, bytes]]) -> tuple[list[Message], int]:
        """Deliver messages; return all answers and how many messages were refused."""
        inbox: dict[int, list[bytes]] = {}
        for agent, data in packets:
            inbox.setdefault(agent, []).append(data)
        which = [n for n in sorted(inbox) if n not in self.down]
        results = self._map("deliver", which, [(inbox[n],) for n in which])
        answers = [message for messages, _ in results for message in messages]
        return answers, sum(refused for _, refused in results)

    def pull(self) -> tuple[int, list[Message]]:
        """Evaluate all pending pulls; return how many agents pulled, and their messages."""
        messages: list[Message] = []
        n_pulled = 0
        for n, (pulls, rewards, answers) in self._pulled():
            if pulls is not None:
                n_pulled += 1
                self.pulls[n].append(pulls)
                self.rewards[n].append(rewards)
            messages += answers
        return n_pulled, messages

    def _pulled(self) -> list[tuple[int, tuple[Pulls | None, Any, list[Message]]]]:
        agents = self.up  # `up` may shrink during the call
        return list(zip(agents, self._map("pull", agents, [()] * len(agents)), strict=True))

    def timeout(self) -> list[Message]:
        """The messages that waiting agents repeat."""
        return [message for messages in self._map_all("timeout") for message in messages]

    @property
    def unfinished(self) -> tuple[int, ...]:
        """The agents that are down or not done."""
        states = dict(zip(self.up, self._map_all("done"), strict=True))
        return tuple(n for n in range(len(self._workers)) if not states.get(n, False) or n in self.down)

    @property
    def done(self) -> bool:
        """Whether all agents that are not down are done."""
        return all(self._map_all("done"))

    def close(self) -> None:
        """Release threads or processes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ThreadHost(AgentHost):
    """Runs every agent in a thread; NumPy operations and blocking evaluations run in parallel."""

    def __init__(self, agents: list[Agent], evaluate: Evaluate) -> None:
        super().__init__(agents, evaluate)
        self._threads = ThreadPoolExecutor(max_workers=len(agents))

    def _map(self, method: str, which: list[int], arguments: list[tuple[Any, ...]]) -> list[Any]:
        jobs = [
            self._threads.submit(getattr(self._workers[n], method), *args)
            for n, args in zip(which, arguments, strict=True)
        ]
        return [job.result() for job in jobs]

    def close(self) -> None:
        """Shut down the threads."""
        self._threads.shutdown()


class ProcessHost(AgentHost):
    """Runs every agent in its own process; messages are passed in their wire encoding.

    Agents and the evaluation function are pickled once to start the processes, so both must be picklable, and
    the calling script needs the usual `if __name__ == "__main__":` guard.
    """

    def _start_workers(self, agents: list[Agent], evaluate: Evaluate) -> list[Any]:
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
            with suppress(*_BROKEN_PIPE):  # `_answer` notices that the process is dead
                self._workers[n].send((method, args))
        return [self._answer(method, n) for n in which]

    def _answer(self, method: str, n: int) -> Any:
        """The answer of an agent's process; an agent whose process has died is marked as down."""
        try:
            return _decoded(method, self._workers[n].recv())
        except _BROKEN_PIPE:
            self.down.add(n)
            return _DEAD_ANSWER[method]

    def close(self) -> None:
        """Stop the processes and wait for them."""
        for pipe in self._workers:
            with suppress(*_BROKEN_PIPE):
                pipe.send(None)
            pipe.close()
        for process in self._processes:
            process.join()


def _serve(pipe: Any, agent: Agent, evaluate: Evaluate) -> None:
    """The main loop of an agent's process."""
    worker = AgentWorker(agent, evaluate)
    while (call := pipe.recv()) is not None:
        method, args = call
        try:
            pipe.send(_encoded(method, getattr(worker, method)(*args)))
        except Exception as error:  # raised again in the calling process
            pipe.send(error)


def _encoded(method: str, result: Any) -> Any:
    """The result with its messages encoded as bytes."""
    if method in ("start", "timeout"):
        return [encode(message) for message in result]
    if method == "deliver":
        return [encode(message) for message in result[0]], result[1]
    return (*result[:2], [encode(message) for message in result[2]]) if method == "pull" else result


def _decoded(method: str, result: Any) -> Any:
    """The inverse of `_encoded`; raises an error that the process has sent."""
    if isinstance(result, Exception):
        raise result
    if method in ("start", "timeout"):
        return [decode(data) for data in result]
    if method == "deliver":
        return [decode(data) for data in result[0]], result[1]
    return (*result[:2], [decode(data) for data in result[2]]) if method == "pull" else result


def make_host(executor: str, agents: list[Agent], evaluate: Evaluate) -> AgentHost:
    """The host for an executor's name."""
    hosts = {"sequential": AgentHost, "threads": ThreadHost, "processes": ProcessHost}
    if executor not in hosts:
        raise InvalidParameterError("executor", executor, f"one of {sorted(hosts)}")
    return hosts[executor](agents, evaluate)
