"""Runs on a small table, and what they must give: the run in one program with the same coins."""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manyarms import agents
from manyarms.agents.protocol.wire import encode
from manyarms.federation.agent_file import AgentFile
from manyarms.federation.description import RunDescription
from manyarms.federation.hub import Hub
from manyarms.federation.invitation import Invitation
from manyarms.federation.mailbox import TABLE_PATH, open_hub
from manyarms.federation.run_file import RunFile
from manyarms.federation.table import CandidateTable
from tests.agents.support import KERNEL, Witness, small_pool
from tests.federation.trial_function import value

N, SEED = 3, 4
ALGORITHMS: dict[str, Any] = {
    "duets": agents.DUETS(KERNEL, 0.2, N, 30, width=0.5, noise_std=0.2),
    "dis": agents.DisKernelUCB(KERNEL, 0.2, N, 6, sync_threshold=4.0),
    "approx": agents.ApproxDisKernelUCB(KERNEL, 0.2, N, 6, sync_threshold=8.0),
    "separate": agents.NKernelUCB(KERNEL, 0.2, N, 4),
}


def write_table(path: Path, n_arms: int = 120) -> None:
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", "x1", "x2"])
        for number, row in enumerate(small_pool(n_arms).features.tolist()):
            writer.writerow([f"c{number}", *(repr(cell) for cell in row)])


def evaluate(pulls: agents.Pulls) -> list[float]:
    steps, arms = pulls.steps.tolist(), pulls.arms.tolist()
    return [value(tuple(row), arm, step) for row, arm, step in zip(pulls.features, arms, steps, strict=True)]


@dataclass
class Problem:
    """A run with its invitations, and the messages that it must send."""

    folder: Path
    description: RunDescription
    table: CandidateTable
    invitations: list[Invitation]
    expected: list[tuple[str, int, bytes]]  # direction, agent, message
    result: agents.RunResult

    @property
    def run_file(self) -> Path:
        return self.folder / "run.agents"

    @property
    def table_file(self) -> Path:
        return self.folder / "table.csv"

    def agent_file(self, number: int) -> Path:
        return self.folder / f"agent{number}.agent"

    def invitation_file(self, number: int) -> Path:
        return self.folder / f"agent{number}.invitation"

    def hub(self, **more: Any) -> Hub:
        return open_hub(self.run_file, **more)

    def of(self, direction: str, agent: int) -> list[bytes]:
        return [data for way, n, data in self.expected if (way, n) == (direction, agent)]

    def check(self) -> None:
        """Every message of every agent in both directions, every trial, and the counted cost are the same."""
        hub = self.hub()
        status = hub.status()
        assert status["over"], status
        for n in range(N):
            assert hub.file.waiting(n, 0, 10**6) == self.of("down", n), f"messages to agent {n}"
            file = AgentFile(self.agent_file(n))
            sent = [data for (data,) in file.rows("SELECT data FROM outbox ORDER BY number")]
            assert sent == self.of("up", n), f"messages of agent {n}"
            trials = file.trials()
            assert [row.arm for row in trials] == self.result.arms[n].tolist()
            assert [row.value for row in trials] == self.result.rewards[n].tolist()
            file.close()
        cost = self.result.cost
        assert status["cost"]["n_bytes"] == cost.n_bytes
        assert (status["cost"]["uplink"], status["cost"]["downlink"]) == (cost.uplink, cost.downlink)
        assert status["cost"]["messages"] == cost.messages
        hub.close()


def make_problem(folder: Path, name: str, *, url: str = "", algorithm: Any = None, **more: Any) -> Problem:
    """The files of a run, with the coins of a seed, so that `agents.run` says what must come out."""
    algorithm = algorithm or ALGORITHMS[name]
    write_table(folder / "table.csv")
    table = CandidateTable.new(folder / "table.csv", "name", None)
    more = {"lockstep": name != "duets", **more}
    description = RunDescription.of(algorithm, table.pool, table=table.plain(), **more)
    file = RunFile.new(folder / "run.agents", description, agents.Coins.from_seed(SEED, N), time.time())
    with file.transaction() as db:
        file.set(db, TABLE_PATH, str(folder / "table.csv"))
    witness = Witness()
    result = agents.run(algorithm, table.pool, evaluate, seed=SEED, link=witness)
    expected = [(way, n, encode(message)) for way, n, message, _ in witness.seen]
    problem = Problem(folder, description, table, [], expected, result)
    for n in range(N):
        invitation = file.invite(None, time.time(), f"lab {n}", url)
        invitation.write(problem.invitation_file(n))
        problem.invitations.append(invitation)
    file.close()
    assert np.isfinite(result.rewards[0]).all()
    return problem
