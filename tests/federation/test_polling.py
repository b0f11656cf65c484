"""The polling of a Flower federation, without Flower: nodes that fail, vanish or repeat themselves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from manyarms import errors
from manyarms.federation.description import DAY
from manyarms.federation.flower.node import answered
from manyarms.federation.flower.polling import Polling, Reply
from manyarms.federation.hub import Hub
from manyarms.federation.packets import UP, claimed
from tests.federation.contract import CarrierContract
from tests.federation.direct import Clock
from tests.federation.processes import PYTHON
from tests.federation.support import N, Problem, make_problem
from tests.flower.short_runs import SHORT_RUNS


class LocalNodes:
    """Nodes in this process: each question is answered by a new call, as Flower starts a new process."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.questions = problem, dict[str, tuple[int, bytes]]()
        self.gone: set[int] = set()
        self.payload = {"up": 0, "down": 0}

    def present(self) -> Iterable[int]:
        return [node for node in range(N) if node not in self.gone]

    def send(self, node: int, packet: bytes) -> str:
        id = f"question {len(self.questions)}"
        self.questions[id] = node, packet
        return id

    def replies(self, questions: list[str]) -> Iterable[Reply]:
        for id in questions:
            node, packet = self.questions[id]
            if node not in self.gone:
                yield self.answer(id, node, packet)

    def answer(self, id: str, node: int, packet: bytes) -> Reply:
        reply = answered(
            packet,
            {
                "invitation": str(self.problem.invitation_file(node)),
                "pool": str(self.problem.table_file),
                "python": PYTHON,
            },
        )
        if packet:
            self.payload["down"] += claimed(packet).payload_bytes
        self.payload["up"] += claimed(reply).payload_bytes
        return Reply(id, reply)


class Watch:
    """A clock and its pauses; a run that does not end is an error and not a test that hangs."""

    def __init__(self, looks: int = 400) -> None:
        self.now, self.left = 0.0, looks

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now, self.left = self.now + seconds, self.left - 1
        assert self.left, "the polling has not ended"


def poll(hub: Hub, nodes: LocalNodes, looks: int = 400) -> None:
    watch = Watch(looks)
    Polling(hub, nodes, poll=2.0, patience=20.0, look=0.5, sleep=watch.sleep, clock=watch.clock).run()


@pytest.mark.slow
class TestPolling(CarrierContract):
    """The counted bytes are the payload of what was carried, too."""

    algorithms = SHORT_RUNS

    def carry(self, problem: Problem) -> None:
        hub, nodes = problem.hub(), LocalNodes(problem)
        poll(hub, nodes)
        agents = hub.status()["agents"]
        for way in ("up", "down"):
            assert nodes.payload[way] == sum(each[f"bytes_{way}"] for each in agents)


class FaultyNodes(LocalNodes):
    """A quarter of the questions fails, a quarter of the replies is an old one, and a quarter is altered."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.rng, self.old = np.random.default_rng(1), list[bytes]()

    def answer(self, id: str, node: int, packet: bytes) -> Reply:
        fault = self.rng.integers(4)
        if fault == 0:
            return Reply(id, None, "the app was killed")
        reply = super().answer(id, node, packet).packet
        assert reply is not None
        self.old.append(reply)
        if fault == 1:
            return Reply(id, self.old[0])
        return Reply(id, reply[:-1] + bytes([reply[-1] ^ 1]) if fault == 2 else reply)


@pytest.mark.slow
def test_failed_repeated_and_altered_replies_change_nothing(tmp_path: Path) -> None:
    problem = make_problem(tmp_path, "duets", algorithm=SHORT_RUNS["duets"])
    hub, nodes = problem.hub(), FaultyNodes(problem)
    poll(hub, nodes)
    problem.check()
    kinds = {line["text"].partition(":")[0] for line in hub.log() if line["kind"] == "refused"}
    assert kinds == {"ReplayedPacketError", "UnknownKeyError"}


class ForgetfulNodes(LocalNodes):
    """Every node is killed with its second question, and started again without it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.asked, self.lost = [0] * N, set[str]()

    def send(self, node: int, packet: bytes) -> str:
        id = super().send(node, packet)
        self.asked[node] += 1
        if self.asked[node] == 2:
            self.lost.add(id)
        return id

    def replies(self, questions: list[str]) -> Iterable[Reply]:
        return super().replies([id for id in questions if id not in self.lost])


@pytest.mark.slow
def test_a_node_that_was_killed_with_a_question_is_asked_again(tmp_path: Path) -> None:
    problem = make_problem(tmp_path, "duets", algorithm=SHORT_RUNS["duets"])
    hub, nodes = problem.hub(), ForgetfulNodes(problem)
    poll(hub, nodes)
    assert len(nodes.lost) == N
    problem.check()
    assert hub.status()["refused"] == 0


@pytest.mark.slow
def test_the_server_app_is_killed_and_started_again(tmp_path: Path) -> None:
    """Each polling is stopped after a few looks; the next one knows nothing but the run file."""
    problem, finished = make_problem(tmp_path, "duets", algorithm=SHORT_RUNS["duets"]), False
    for _ in range(60):
        hub = problem.hub()
        try:
            poll(hub, LocalNodes(problem), looks=4)
            finished = True
        except AssertionError:
            continue
        finally:
            hub.close()
        break
    assert finished
    problem.check()


@pytest.mark.slow
def test_the_run_ends_without_a_node_that_never_comes_back(tmp_path: Path) -> None:
    problem = make_problem(tmp_path, "duets", algorithm=SHORT_RUNS["duets"])
    clock = Clock(1.8e9)
    hub, nodes = problem.hub(clock=clock), LocalNodes(problem)

    class Days(Watch):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            clock.now += DAY / 2
            if self.left == 398:  # in the first epoch
                nodes.gone.add(2)

    watch = Days()
    Polling(hub, nodes, poll=2.0, look=0.5, sleep=watch.sleep, clock=watch.clock).run()
    status = hub.status()
    assert status["over"]
    assert [each["state"] for each in status["agents"]] == ["done", "done", "silent"]
    assert any("goes on without agents 2" in line["text"] for line in hub.log())


def test_a_node_without_its_settings_says_which_one(tmp_path: Path) -> None:
    with pytest.raises(errors.RunFileError, match="no 'invitation'"):
        answered(b"", {"pool": str(tmp_path)})
    problem = make_problem(tmp_path, "duets")
    reply = answered(b"nonsense", {
        "invitation": str(problem.invitation_file(0)), "pool": str(problem.table_file),
        "file": str(tmp_path / "elsewhere.agent"),
    })  # fmt: skip
    assert (tmp_path / "elsewhere.agent").is_file()
    assert (claimed(reply).direction, claimed(reply).agent) == (UP, 0)
