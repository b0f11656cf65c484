"""Hub and members: packets lost, repeated, altered, forged and late; processes killed at any moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyarms import errors
from manyarms.agents.protocol import messages as m
from manyarms.agents.protocol.wire import decode, encode
from manyarms.federation.agent_file import AgentFile
from manyarms.federation.description import DAY
from manyarms.federation.hub import Hub
from manyarms.federation.member import Member
from manyarms.federation.packets import DOWN, SIGNATURE_BYTES, UP, Packet, claimed
from manyarms.federation.run_file import RunFile
from tests.agents.oracle import sparse_posterior
from tests.agents.support import KERNEL
from tests.federation.contract import CarrierContract
from tests.federation.direct import Clock, finish, measure, members
from tests.federation.support import ALGORITHMS, N, Problem, evaluate, make_problem


class TestDirectCarrier(CarrierContract):
    """The counted bytes are those that were carried, without the headers of the packets."""

    def carry(self, problem: Problem) -> None:
        hub, agents, carried = problem.hub(), members(problem), {"up": 0, "down": 0}

        def deliver(at: Hub, packet: bytes) -> bytes:
            answer = at.exchange(packet)
            for way, data in (("up", packet), ("down", answer)):
                carried[way] += len(data) - 64 - 32 - 4 * len(claimed(data).messages)
            return answer

        finish(lambda: hub, [lambda a=a: a for a in agents], deliver)
        status = hub.status()
        assert status["refused"] == 0
        for way, sent in carried.items():
            assert sent == sum(each[f"bytes_{way}"] for each in status["agents"])
            assert sent == sum(row["bytes"] for row in status["traffic"] if row["direction"] == way)


@pytest.mark.parametrize("name", ["duets", "approx"])
def test_everything_is_reopened_from_its_file_at_every_step(name: str, tmp_path: Path) -> None:
    """As if every process were killed after each exchange and before each measurement."""
    problem = make_problem(tmp_path, name)

    def agent(n: int) -> Member:
        return Member(AgentFile(problem.agent_file(n)), problem.table.pool)

    for member in members(problem):
        member.close()
    finish(problem.hub, [lambda n=n: agent(n) for n in range(N)])
    problem.check()


@pytest.mark.parametrize("name", ["duets", "dis"])
def test_lost_packets_change_nothing(name: str, tmp_path: Path) -> None:
    """A third of the packets is lost on the way up, and a third of the answers on the way down."""
    problem, rng = make_problem(tmp_path, name), np.random.default_rng(3)
    hub, agents = problem.hub(), members(problem)

    def lossy(at: Hub, packet: bytes) -> bytes | None:
        if rng.random() < 0.33:
            return None
        answer = at.exchange(packet)
        return None if rng.random() < 0.33 else answer

    finish(lambda: hub, [lambda a=a: a for a in agents], lossy)
    problem.check()


def started(tmp_path: Path, clock: Any = None) -> tuple[Problem, Hub, list[Member]]:
    """A run of DUETS in the middle of its first epoch, with open trials."""
    problem = make_problem(tmp_path, "duets")
    more = {} if clock is None else {"clock": clock}
    hub, agents = problem.hub(**more), members(problem, clock)
    for _ in range(2):
        for member in agents:
            member.incoming(hub.exchange(member.outgoing()))
    assert agents[0].open_trials() is not None
    return problem, hub, agents


def contents(file: Any) -> list[Any]:
    """Everything in a file except the log and the serial numbers."""
    tables = [name for (name,) in file.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [
        [row for row in file.rows(f"SELECT * FROM {table} ORDER BY 1, 2") if row[0] != "serial_out"]
        for table in sorted(tables)
        if table != "log"
    ]


def refused_lines(file: Any) -> list[str]:
    return [line["text"] for line in file.log() if line["kind"] == "refused"]


def test_each_forged_act_is_refused_changes_nothing_and_is_one_line_in_the_log(tmp_path: Path) -> None:
    problem, hub, agents = started(tmp_path)
    run, key = problem.description.run_bytes, problem.invitations[1].key
    good = agents[1].outgoing()
    stranger = bytes(32)
    as_another = Packet(UP, run, 0, 2**62, 0, 1)
    acts: list[tuple[bytes, type[Exception], str]] = [
        (as_another.sealed(key), errors.UnknownKeyError, "not signed with the key of agent 0"),
        (Packet(UP, run, 1, 2**62, 0, 1).sealed(stranger), errors.UnknownKeyError, "key of agent 1"),
        (Packet(UP, run, 7, 2**62, 0, 1).sealed(key), errors.UnknownKeyError, "no agent 7"),
        (Packet(UP, bytes(16), 1, 2**62, 0, 1).sealed(key), errors.CorruptPacketError, "another run"),
        (Packet(DOWN, run, 1, 2**62, 0, 1).sealed(key), errors.CorruptPacketError, "sent by the hub"),
        (Packet(UP, run, 1, 1, 0, 1).sealed(key), errors.ReplayedPacketError, "arrived before"),
        (Packet(UP, run, 1, 2**62, 0, 99).sealed(key), errors.CorruptPacketError, "starts at message 99"),
        (Packet(UP, run, 1, 2**62, 99, 1).sealed(key), errors.CorruptPacketError, "acknowledges 99"),
        (good[:40], errors.CorruptPacketError, "too few"),
        (good[:-1] + bytes([good[-1] ^ 1]), errors.UnknownKeyError, "altered"),
    ]
    before = contents(hub.file)
    for number, (packet, error, text) in enumerate(acts, start=1):
        with pytest.raises(error, match=text):
            hub.exchange(packet)
        lines = refused_lines(hub.file)
        assert len(lines) == number
        assert text in lines[-1]
    assert contents(hub.file) == before
    assert hub.status()["refused"] == len(acts)
    for line in refused_lines(hub.file):
        assert key.hex() not in line


def test_a_packet_that_is_sent_again_is_refused(tmp_path: Path) -> None:
    _, hub, agents = started(tmp_path)
    packet = agents[0].outgoing()
    answer = hub.exchange(packet)
    agents[0].incoming(answer)
    before = contents(hub.file), contents(agents[0].file)
    with pytest.raises(errors.ReplayedPacketError):
        hub.exchange(packet)
    with pytest.raises(errors.ReplayedPacketError):
        agents[0].incoming(answer)
    assert (contents(hub.file), contents(agents[0].file)) == before
    assert len(refused_lines(hub.file)) == len(refused_lines(agents[0].file)) == 1


def test_a_message_that_names_another_sender_is_refused_and_logged(tmp_path: Path) -> None:
    """Agent 1 has a key of its own, and signs a message in the name of agent 0."""
    problem, hub, _ = started(tmp_path)
    state = hub.server.save()
    lie = encode(m.ProjectedRewards(0, 1, bytes(8), np.zeros(3)))
    row = hub.file.agent(1)
    packet = Packet(UP, problem.description.run_bytes, 1, 2**62, 0, row.received + 1, (lie,))
    hub.exchange(packet.sealed(problem.invitations[1].key))
    (line,) = refused_lines(hub.file)
    assert "ForgedSenderError" in line
    assert "agent 1 says it is from 0" in line
    assert hub.server.save() == state


def test_a_revoked_key_is_refused_until_a_new_invitation(tmp_path: Path) -> None:
    problem, hub, agents = started(tmp_path)
    other = RunFile(problem.run_file)  # as by the command, while the hub is running
    other.revoke(2, 0.0)
    with pytest.raises(errors.RevokedKeyError):
        hub.exchange(agents[2].outgoing())
    assert hub.status()["agents"][2]["state"] == "revoked"
    invitation = other.invite(2, 0.0, "lab 2")
    with pytest.raises(errors.UnknownKeyError):  # the old key stays invalid
        hub.exchange(agents[2].outgoing())
    again = Member.join(problem.agent_file(2), invitation, problem.table.pool)
    again.incoming(hub.exchange(again.outgoing()))
    agents[2] = again
    finish(lambda: hub, [lambda a=a: a for a in agents])
    problem.check()


def altered(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes changed, or the end cut off."""
    if rng.random() < 0.1:
        return data[: int(rng.integers(len(data)))]
    piece = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        piece[int(rng.integers(len(piece)))] ^= int(rng.integers(1, 256))
    return bytes(piece)


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_thousand_altered_packets_are_all_refused(direction: str, tmp_path: Path) -> None:
    """With keys an altered message is never used, whatever was altered; nothing else changes."""
    _, hub, agents = started(tmp_path)
    measure(agents[0])
    rng = np.random.default_rng(8)
    packet = agents[0].outgoing() if direction == "up" else hub.news_for(1) or b""
    if direction == "down":
        row = hub.file.agent(1)
        packet = Packet(
            DOWN, hub.description.run_bytes, 1, 2**61, row.received, 1, tuple(hub.file.waiting(1, 0, 9))
        ).sealed(row.key)
    assert claimed(packet).messages
    file: Any = hub.file if direction == "up" else agents[1].file
    before = contents(file)
    for _ in range(1_000):
        bad = altered(packet, rng)
        if bad == packet:
            continue
        with pytest.raises(errors.RefusedPacketError):
            hub.exchange(bad) if direction == "up" else agents[1].incoming(bad)
    assert contents(file) == before
    assert len(packet) > 64 + SIGNATURE_BYTES


def test_an_agent_a_day_late_is_waited_for(tmp_path: Path) -> None:
    """The run waits a week; agent 2 answers after a day, and the result is the one without the delay."""
    clock = Clock(1.8e9)
    problem, hub, agents = started(tmp_path, clock)
    for member in agents[:2]:
        measure(member)
        member.incoming(hub.exchange(member.outgoing()))
    for _ in range(24):
        clock.now += DAY / 24
        for member in agents[:2]:
            member.incoming(hub.exchange(member.outgoing()))
    assert hub.status()["waiting_for"] == [2]
    finish(lambda: hub, [lambda a=a: a for a in agents])
    problem.check()


def test_an_agent_later_than_the_wait_is_left_out_and_comes_back(tmp_path: Path) -> None:
    """The run goes on without agent 2 in epoch 1; every posterior is that of the agents that were present."""
    clock = Clock(1.8e9)
    problem, hub, agents = started(tmp_path, clock)
    pulls = agents[2].open_trials()
    for member in agents[:2]:
        measure(member)
        member.incoming(hub.exchange(member.outgoing()))
    for _ in range(20):  # two waits: asked again, then left out
        clock.now += DAY
        for member in agents[:2]:
            member.incoming(hub.exchange(member.outgoing()))
    silence = [line["text"] for line in hub.file.log() if line["kind"] == "silence"]
    assert silence[:2] == ["agents 2 were asked again", "the run goes on without agents 2"]
    assert hub.status()["agents"][2]["state"] == "silent"
    agents[2].tell(dict(zip(pulls.steps.tolist(), evaluate(pulls), strict=True)))  # too late
    finish(lambda: hub, [lambda a=a: a for a in agents])
    records = hub.status()["epochs"]
    assert records[0]["left_out"] == (2,) or list(records[0]["left_out"]) == [2]
    assert list(records[-1]["left_out"]) == []
    check_posteriors(problem, hub, agents)


def check_posteriors(problem: Problem, hub: Hub, agents: list[Member]) -> None:
    """Each Solution is the sparse posterior of the trials of the agents that took part in its epoch."""
    pool, lengths = problem.table.pool, ALGORITHMS["duets"].lengths
    sent = [decode(data) for n in range(N) for data in hub.file.waiting(n, 0, 10**6)]
    for record in hub.status()["epochs"][:-1]:
        solution = next(x for x in sent if isinstance(x, m.Solution) and x.epoch == record["epoch"])
        inducing = next(x for x in sent if isinstance(x, m.Inducing) and x.epoch == record["epoch"])
        first = sum(lengths[: record["epoch"] - 1])
        steps = range(first, first + record["length"])
        rows = [row for n in record["present"] for row in agents[n].file.trials() if row.step in steps]
        assert len(rows) == len(record["present"]) * record["length"]
        mean, _ = sparse_posterior(
            KERNEL, pool.take(inducing.points), pool.take([row.arm for row in rows]),
            [row.value for row in rows], 0.2, pool.features,
        )  # fmt: skip
        found = KERNEL.matrix(pool.features, pool.take(inducing.points)) @ solution.weights
        assert np.abs(found - mean).max() < 1e-9


def test_a_value_is_told_once(tmp_path: Path) -> None:
    _, _, agents = started(tmp_path)
    pulls = agents[0].open_trials()
    step = pulls.step
    agents[0].tell({step: 0.25})
    agents[0].tell({step: 0.25})
    with pytest.raises(errors.InvalidRewardError, match="already has the value"):
        agents[0].tell({step: 0.5})
    with pytest.raises(errors.InvalidRewardError, match="no trial at step 77"):
        agents[0].tell({77: 0.5})
    assert agents[0].file.trials()[0].value == 0.25


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    problem, hub, _ = started(tmp_path)
    with pytest.raises(errors.RunFileError, match="belongs to agent 0"):
        Member.join(problem.agent_file(0), problem.invitations[1], problem.table.pool)
    with pytest.raises(errors.RunFileError, match="the file of an agent, not the file of a run"):
        Hub(problem.agent_file(0), problem.table.pool)
    with pytest.raises(errors.RunFileError, match="not the candidates"):
        Hub(problem.run_file, problem.table.pool.first(100))
    with pytest.raises(errors.RunFileError, match="no such file"):
        RunFile(tmp_path / "absent.agents")
    with pytest.raises(errors.RunFileError, match="all 3 agents are invited already"):
        hub.file.invite(None, 0.0)
    assert problem.run_file.stat().st_mode & 0o077 == 0
    assert problem.agent_file(0).stat().st_mode & 0o077 == 0
    assert problem.invitation_file(0).stat().st_mode & 0o077 == 0


def test_the_status_counts_what_was_sent_and_holds_no_secret(tmp_path: Path) -> None:
    problem = make_problem(tmp_path, "duets")
    hub, agents = problem.hub(), members(problem)
    finish(lambda: hub, [lambda a=a: a for a in agents])
    status = hub.status()
    text = str(status)
    for invitation in problem.invitations:
        assert invitation.key.hex() not in text
        assert invitation.coin.key.hex() not in text
    assert [each["state"] for each in status["agents"]] == ["done"] * N
    assert (
        sum(each["bytes_up"] + each["bytes_down"] for each in status["agents"]) == status["cost"]["n_bytes"]
    )
    bound = 4 * status["width"] * status["epochs"][-2]["sigma_max"]
    assert status["bound"] == pytest.approx(bound)
    active = problem.result.server.active.arms
    assert status["active"] == len(active)
    solution = [decode(data) for data in hub.file.waiting(0, 0, 99) if isinstance(decode(data), m.Solution)][
        -1
    ]
    inducing = [decode(data) for data in hub.file.waiting(0, 0, 99) if isinstance(decode(data), m.Inducing)][
        -1
    ]
    pool = problem.table.pool
    mean = KERNEL.matrix(pool.take(active), pool.take(inducing.points)) @ solution.weights
    assert status["best"]["arm"] == active[np.argmax(mean)]
    assert status["best"]["value"] == pytest.approx(mean.max())
    assert status["best"]["id"] == f"c{status['best']['arm']}"
