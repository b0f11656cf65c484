"""The mailbox of `manyarms serve`: real processes on this machine, each agent with a key of its own."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manyarms import errors
from manyarms.federation.agent_file import AgentFile
from manyarms.federation.description import DAY
from manyarms.federation.http_carrier import HttpCarrier
from manyarms.federation.packets import UP, Packet, claimed
from manyarms.federation.run_file import RunFile
from tests.campaigns.support import cli
from tests.federation.clocked_server import OFFSET
from tests.federation.contract import CarrierContract
from tests.federation.processes import PYTHON, Processes, Wiretap, free_port, http_bodies, processes
from tests.federation.support import N, Problem, make_problem


@pytest.mark.slow
class TestMailbox(CarrierContract):
    """Each agent is a process of its own."""

    @pytest.fixture(autouse=True)
    def _served(self, tmp_path: Path) -> Iterator[None]:
        self.port = free_port()
        with processes(tmp_path) as started:
            self.started = started
            yield

    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def carry(self, problem: Problem) -> None:
        self.started.serve(self.port)
        self.started.finished([self.started.join(problem, n) for n in range(N)])


@pytest.mark.slow
def test_the_counted_bytes_are_those_on_the_wire_without_the_headers_of_the_carrier(tmp_path: Path) -> None:
    """The wire is read by a proxy between the agents and the service."""
    port = free_port()
    with processes(tmp_path) as started:
        started.serve(port)
        tap = Wiretap(port)
        problem = make_problem(tmp_path, "duets", url=f"http://127.0.0.1:{tap.port}")
        started.finished([started.join(problem, n) for n in range(N)])
        time.sleep(0.2)
        tap.close()
    counted = {"up": 0, "down": 0}
    for up, down in tap.connections:
        for way, stream in (("up", up), ("down", down)):
            for body in http_bodies(bytes(stream)):
                packet = claimed(body)
                lengths = sum(4 + len(data) for data in packet.messages)
                assert len(body) == 64 + lengths + 32, "header, messages, signature, and nothing else"
                counted[way] += packet.payload_bytes
    hub = problem.hub()
    status = hub.status()
    for way in ("up", "down"):
        assert counted[way] == sum(each[f"bytes_{way}"] for each in status["agents"])
    assert sum(counted.values()) == problem.result.cost.n_bytes
    problem.check()


@pytest.mark.slow
def test_killed_and_restarted_late_replayed_altered_unknown_revoked_and_impersonated(tmp_path: Path) -> None:
    """One run in which everything goes wrong ends with the posterior of the run in which nothing did.

    The run waits a week for an agent. Agent 2 comes a day late by the clock of the hub, which a file moves.
    """
    port = free_port()
    problem = make_problem(tmp_path, "duets", url=f"http://127.0.0.1:{port}")
    with processes(tmp_path) as started:
        server = started.serve_with_a_clock(port)
        first, second = started.join(problem, 0), started.join(problem, 1)
        wait_for(lambda: told(problem, 0) > 0 or joined(problem) == 2, started)
        started.kill(second)
        forge(problem)
        started.kill(server)
        (tmp_path / OFFSET).write_text(str(DAY))
        server = started.serve_with_a_clock(port)
        again = [started.join(problem, 1), started.join(problem, 2)]
        wait_for(lambda: epoch(problem) >= 3, started)
        started.kill(again[1])
        started.kill(server)
        started.serve_with_a_clock(port)
        started.finished([first, again[0], started.join(problem, 2)])
    problem.check()
    log = RunFile(problem.run_file).log()
    (late,) = [line["time"] for line in log if line["text"] == "agent 2 has joined"]
    last_seen = RunFile(problem.run_file).agents()[2].last_seen
    assert last_seen is not None
    assert last_seen - late > 0.9 * DAY
    lines = [line["text"] for line in log if line["kind"] == "refused"]
    kinds = [line.partition(":")[0] for line in lines]
    assert kinds == [
        "ReplayedPacketError", "UnknownKeyError", "UnknownKeyError", "UnknownKeyError", "RevokedKeyError",
    ]  # fmt: skip


def forge(problem: Problem) -> None:
    """Five acts that must each be refused: replayed, altered, unknown key, another's name, revoked key."""
    run, invitation = problem.description.run_bytes, problem.invitations[2]
    carrier = HttpCarrier(invitation)
    replayed = Packet(UP, run, 2, 5, 0, 1).sealed(invitation.key)
    carrier.exchange(replayed)
    acts = [
        (replayed, errors.ReplayedPacketError),
        (bytes([*replayed[:30], replayed[30] ^ 1, *replayed[31:]]), errors.UnknownKeyError),
        (Packet(UP, run, 2, 2**62, 0, 1).sealed(b"?" * 32), errors.UnknownKeyError),
        (Packet(UP, run, 0, 2**62, 0, 1).sealed(invitation.key), errors.UnknownKeyError),
    ]
    for packet, error in acts:
        with pytest.raises(error):
            carrier.exchange(packet)
    file = RunFile(problem.run_file)
    file.revoke(2, time.time())
    with pytest.raises(errors.RevokedKeyError):
        carrier.exchange(Packet(UP, run, 2, 6, 0, 1).sealed(invitation.key))
    fresh = file.invite(2, time.time(), "lab 2", invitation.url)
    file.close()
    problem.invitation_file(2).unlink()
    fresh.write(problem.invitation_file(2))
    carrier.close()


def wait_for(condition: object, started: Processes, seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():  # type: ignore[operator]
            return
        time.sleep(0.1)
    raise AssertionError(started.logs())


def told(problem: Problem, number: int) -> int:
    if not problem.agent_file(number).exists():
        return 0
    try:
        file = AgentFile(problem.agent_file(number))
    except errors.RunFileError:
        return 0
    try:
        return sum(row.value is not None for row in file.trials())
    finally:
        file.close()


def joined(problem: Problem) -> int:
    file = RunFile(problem.run_file)
    try:
        return sum(row.last_seen is not None for row in file.agents())
    finally:
        file.close()


def epoch(problem: Problem) -> int:
    hub = problem.hub()
    try:
        return int(hub.status()["epoch"])
    finally:
        hub.close()


@pytest.mark.slow
def test_the_routes_refuse_what_they_must(tmp_path: Path) -> None:
    port = free_port()
    problem = make_problem(tmp_path, "duets", url=f"http://127.0.0.1:{port}")
    with processes(tmp_path) as started:
        started.serve(port)
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for path, body, status in (
            (f"/agents/{problem.description.run}/packets", b"nonsense", 403),
            (f"/agents/{'0' * 32}/packets", b"nonsense", 404),
            ("/agents/..%2F..%2Fetc/packets", b"", 404),
        ):
            connection.request("POST", path, body)
            response = connection.getresponse()
            response.read()
            assert response.status == status, path
        connection.request("GET", f"/agents/{problem.description.run}")
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        assert response.status == 200
        for invitation in problem.invitations:
            assert invitation.key.hex() not in text
            assert invitation.coin.key.hex() not in text


@pytest.mark.slow
def test_a_run_by_the_command_by_hand_and_by_function(tmp_path: Path) -> None:
    """new, invite, join, tell, status: agent 0 fills in a batch file, the others call a function."""
    port = free_port()
    problem = make_problem(tmp_path, "duets")  # for its table
    run = tmp_path / "search.agents"
    new = ("agents", "new", str(run), "--pool", str(problem.table_file), "--id", "name", "--agents", "2")
    said(*new, "--horizon", "8", "--noise", "0.2", "--lengthscale", "0.2")
    invitations = [tmp_path / f"lab{n}.invitation" for n in range(2)]
    for invitation in invitations:
        said("agents", "invite", str(run), str(invitation), "--url", f"http://127.0.0.1:{port}")
    table = ("--pool", str(problem.table_file))
    with processes(tmp_path) as started:
        started.serve(port)
        other = started.start(
            "lab1", "agents", "join", str(invitations[1]), *table, "--python", PYTHON, "--poll", "0.3"
        )
        batch = tmp_path / "batch.csv"
        for _ in range(60):
            state = said("agents", "join", str(invitations[0]), *table, "--output", str(batch))
            if state["over"]:
                break
            if state["open"]:
                fill(batch)
                said("agents", "tell", str(tmp_path / "lab0.agent"), str(batch), *table)
            time.sleep(0.3)
        assert state["over"], started.logs()
        started.finished([other])
    shown = said("agents", "status", str(run))
    assert shown["over"]
    assert [each["state"] for each in shown["agents"]] == ["done", "done"]
    own = said("agents", "status", str(tmp_path / "lab0.agent"))
    assert own["told"] == 8


def said(*arguments: str) -> dict[str, Any]:
    """The JSON that a command prints."""
    done = cli(*arguments, "--json")
    assert done.code == 0, done.err
    answer: dict[str, Any] = done.json
    return answer


def fill(batch: Path) -> None:
    lines = batch.read_text().splitlines()
    assert lines[0].startswith("ticket,name,x1,x2,value")
    rows = [f"{line.rstrip(',')},{0.1 * number}" for number, line in enumerate(lines[1:])]
    batch.write_text("\n".join([lines[0], *rows]) + "\n")
