"""A carrier without a network: the hub is called, and everything can be lost, repeated or replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from manyarms import errors
from manyarms.federation.hub import Hub
from manyarms.federation.member import Member
from tests.federation.support import N, Problem, evaluate


class Clock:
    """A clock that only moves when it is told to."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        self.now += 1e-3  # two moments are never the same
        return self.now


def members(problem: Problem, clock: Any = None) -> list[Member]:
    more = {} if clock is None else {"clock": clock}
    return [
        Member.join(problem.agent_file(n), problem.invitations[n], problem.table.pool, **more)
        for n in range(N)
    ]


def measure(member: Member, most: int | None = None) -> int:
    """Measure and tell the open trials, one by one; return how many."""
    pulls = member.open_trials()
    if pulls is None:
        return 0
    told = 0
    for step, value in zip(pulls.steps.tolist(), evaluate(pulls), strict=True):
        if most is not None and told >= most:
            break
        member.tell({step: value})
        told += 1
    return told


def finish(
    hub: Callable[[], Hub],
    agents: list[Callable[[], Member]],
    deliver: Callable[[Hub, bytes], bytes | None] = lambda hub, packet: hub.exchange(packet),
    most_turns: int = 2_000,
) -> None:
    """Exchange until every member knows that the run is over. `deliver` returns None for what is lost."""
    for _ in range(most_turns):
        for agent in agents:
            member = agent()
            answer = deliver(hub(), member.outgoing())
            if answer is not None:
                member.incoming(answer)
            measure(member)
        if all(agent().over for agent in agents):
            return
    raise AssertionError(f"not over after {most_turns} turns: {hub().status()}")


REFUSALS = errors.RefusedPacketError
