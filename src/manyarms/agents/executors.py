"""Where the agents of a run execute: in the calling thread, in threads, or each in its own process.

A host gives every agent one turn a round and returns their messages in the order of the agents' numbers, so
the result does not depend on where the agents execute.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from numpy.typing import ArrayLike

from manyarms.agents.protocol.agent import Agent, Pulls
from manyarms.agents.protocol.wire import decode, encode
from manyarms.errors import InvalidParameterError, MessageError
from manyarms.support.validation import Floats, finite_rewards

Evaluate = Callable[[Pulls], ArrayLike]

_BROKEN_PIPE = (EOFError, BrokenPipeError, ConnectionResetError)  # raised by a pipe to a dead process


@dataclass(frozen=True)
class MeasuredTurn:
    """What one agent did in a round: encoded messages, the pulls it made with their rewards, its state."""

    messages: list[bytes] = field(default_factory=list)
    pulls: Pulls | None = None
    rewards: Floats | None = None
    refused: int = 0  # messages that were corrupt or invalid
    done: bool = True


class AgentWorker:
    """One agent with the function that evaluates its pulls."""

    def __init__(self, agent: Agent, evaluate: Evaluate) -> None:
        self.agent, self.evaluate = agent, evaluate

    def turn(self, packets: list[bytes]) -> MeasuredTurn:
        """Deliver messages, evaluate the pulls the agent asks for, and tell it the rewards."""
        messages, refused = [], 0
        for data in packets:
            try:
                messages.append(decode(data))
            except MessageError:
                refused += 1
        answers, pulls = self.agent.turn(messages)
        refused += len(self.agent.refusals)
        rewards = None
        if pulls is not None:
            rewards = finite_rewards(self.evaluate(pulls), len(pulls))
            answers += self.agent.tell(dict(zip(pulls.steps.tolist(), rewards.tolist(), strict=True)))
        return MeasuredTurn([encode(m) for m in answers], pulls, rewards, refused, self.agent.done)

    def timeout(self) -> MeasuredTurn:
        """The messages the agent repeats after a timeout."""
        messages = [] if self.agent.done else self.agent.timeout()
        return MeasuredTurn([encode(message) for message in messages], done=self.agent.done)


@dataclass(frozen=True)
class Round:
    """What all agents did in a round: (agent, encoded message) pairs, and counts."""

    messages: list[tuple[int, bytes]]
    n_pulled: int
    refused: int


class AgentHost:
    """Runs all agents one after the other in the calling thread; subclasses run them elsewhere."""

    def __init__(self, agents: list[Agent], evaluate: Evaluate) -> None:
        self.agents = agents
        self.pulls: list[list[Pulls]] = [[] for _ in agents]
        self.rewards: list[list[Floats]] = [[] for _ in agents]
        self._finished = [False] * len(agents)
        self._workers: list[Any] = self._start_workers(agents, evaluate)
        self.down: set[int] = set()  # agents that do not respond; edit this set to stop and revive agents

    def _start_workers(self, agents: list[Agent], evaluate: Evaluate) -> list[Any]:
        return [AgentWorker(agent, evaluate) for agent in agents]

    def _map(self, method: str, which: list[int], arguments: list[tuple[Any, ...]]) -> list[MeasuredTurn]:
        return [getattr(self._workers[n], method)(*args) for n, args in zip(which, arguments, strict=True)]

    @property
    def up(self) -> list[int]:
        """The agents that are not down."""
        return [n for n in range(len(self._workers)) if n not in self.down]

    def turn(self, inbox: dict[int, list[bytes]]) -> Round:
        """One turn of every agent that is not down, with the messages that have arrived for it."""
        which = self.up  # `up` may shrink during the call
        return self._round(which, self._map("turn", which, [(inbox.get(n, []),) for n in which]))

    def timeout(self) -> Round:
        """The messages that waiting agents repeat."""
        which = self.up
        return self._round(which, self._map("timeout", which, [()] * len(which)))

    def _round(self, which: list[int], turns: list[MeasuredTurn]) -> Round:
        for n, turn in zip(which, turns, strict=True):
            self._finished[n] = turn.done
            if turn.pulls is not None and turn.rewards is not None:
                self.pulls[n].append(turn.pulls)
                self.rewards[n].append(turn.rewards)
        return Round(
            [(n, data) for n, turn in zip(which, turns, strict=True) for data in turn.messages],
            sum(turn.pulls is not None for turn in turns),
            sum(turn.refused for turn in turns),
        )

    @property
    def unfinished(self) -> tuple[int, ...]:
        """The agents that are down or not done."""
        return tuple(n for n, finished in enumerate(self._finished) if not finished or n in self.down)

    @property
    def done(self) -> bool:
        """Whether all agents that are not down are done."""
        return all(self._finished[n] for n in self.up)

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

    def _map(self, method: str, which: list[int], arguments: list[tuple[Any, ...]]) -> list[MeasuredTurn]:
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

    def _map(self, method: str, which: list[int], arguments: list[tuple[Any, ...]]) -> list[MeasuredTurn]:
        for n, args in zip(which, arguments, strict=True):
            with suppress(*_BROKEN_PIPE):  # `_answer` notices that the process is dead
                self._workers[n].send((method, args))
        return [self._answer(n) for n in which]

    def _answer(self, n: int) -> MeasuredTurn:
        """The answer of an agent's process; an agent whose process has died is marked as down."""
        try:
            answer = self._workers[n].recv()
        except _BROKEN_PIPE:
            self.down.add(n)
            return MeasuredTurn()
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, MeasuredTurn)
        return answer

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
            pipe.send(getattr(worker, method)(*args))
        except Exception as error:  # raised again in the calling process
            pipe.send(error)


def make_host(executor: str, agents: list[Agent], evaluate: Evaluate) -> AgentHost:
    """The host for an executor's name."""
    hosts = {"sequential": AgentHost, "threads": ThreadHost, "processes": ProcessHost}
    if executor not in hosts:
        raise InvalidParameterError("executor", executor, f"one of {sorted(hosts)}")
    return hosts[executor](agents, evaluate)
