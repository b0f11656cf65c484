"""Altered messages that are signed with the right key: a broken or lying partner, not somebody on the way.

Their checksums fit, too. Each is ignored or refused in one line of the log, or it is plausible and used; no
other exception leaves the hub or the member, and both still work afterwards.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manyarms.federation.hub import Hub
from manyarms.federation.member import Member
from manyarms.federation.packets import DOWN, UP, Packet
from tests.agents.test_turns import altered
from tests.federation.direct import measure, members
from tests.federation.support import Problem, make_problem

COUNTS = [40, pytest.param(1_000, marks=pytest.mark.slow)]


def under_way(folder: Path, name: str) -> tuple[Problem, Hub, list[Member]]:
    problem = make_problem(folder, name, lockstep=False)  # so that every message is used at once
    hub, agents = problem.hub(), members(problem)
    for _ in range(4):
        for member in agents:
            member.incoming(hub.exchange(member.outgoing()))
            measure(member)
    return problem, hub, agents


def refusals(file: object) -> int:
    return sum(line["kind"] == "refused" for line in file.log())  # type: ignore[attr-defined]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["duets", "approx"])
def test_altered_messages_of_an_agent(name: str, count: int, tmp_path: Path) -> None:
    problem, hub, _ = under_way(tmp_path, name)
    rng, key, run = np.random.default_rng(2), problem.invitations[1].key, problem.description.run_bytes
    real = problem.of("up", 1)
    serial = 2**62
    for number in range(count):
        row = hub.file.agent(1)
        assert row is not None
        message = altered(real[number % len(real)], rng)
        before = refusals(hub.file)
        packet = Packet(UP, run, 1, serial + number, row.acknowledged, row.received + 1, (message,))
        hub.exchange(packet.sealed(key))
        assert refusals(hub.file) - before <= 1
    assert refusals(hub.file) > count // 4
    texts = [line["text"] for line in hub.log() if line["kind"] == "refused"]
    assert all(text.startswith("message of agent 1: ") and "Error: " in text for text in texts)
    assert hub.status()["agents"][1]["state"] in ("present", "done")


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["duets", "approx"])
def test_altered_messages_of_the_hub(name: str, count: int, tmp_path: Path) -> None:
    problem, _, agents = under_way(tmp_path, name)
    rng, key, run = np.random.default_rng(3), problem.invitations[1].key, problem.description.run_bytes
    member, real, serial = agents[1], problem.of("down", 1), 2**62
    for number in range(count):
        received = int(member.file.fact("received", 0))
        message = altered(real[number % len(real)], rng)
        before = refusals(member.file)
        acknowledged = int(member.file.fact("acknowledged", 0))
        packet = Packet(DOWN, run, 1, serial + number, acknowledged, received + 1, (message,))
        member.incoming(packet.sealed(key))
        assert refusals(member.file) - before <= 1
        member.outgoing()
        measure(member, most=1)
    assert refusals(member.file) > count // 4
    again = Member(member.file, problem.table.pool)  # what was kept can be read
    assert again.agent.save() == member.agent.save()
