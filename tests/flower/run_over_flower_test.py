"""A run over a Flower federation with TLS and node authentication is the run in one program."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.federation.contract import CarrierContract
from tests.federation.support import N, Problem
from tests.flower.deployment import Deployment, deployed
from tests.flower.short_runs import SHORT_RUNS

PATIENCE = 900.0  # seconds for a run; every message starts a process with imports of several seconds
AGAIN = 60.0  # seconds after which a node that has not answered is asked again


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A SuperLink and its SuperNodes, which find the files of the present run behind a link."""
    folder = tmp_path_factory.mktemp("federation")
    with deployed(folder) as deployment:
        deployment.superlink()
        deployment.nodes = [supernode(deployment, n) for n in range(N)]
        yield deployment


def supernode(federation: Deployment, number: int) -> subprocess.Popen[bytes]:
    """Start the SuperNode of an agent, which finds the files of the present run behind a link."""
    run = federation.folder / "run"
    return federation.supernode(
        number,
        {
            "invitation": str(run / f"agent{number}.invitation"),
            "pool": str(run / "table.csv"),
            "python": "tests.federation.trial_function:measure",
        },
    )


def start(federation: Deployment, problem: Problem) -> None:
    """`flwr run`, on the files of this run."""
    link = federation.folder / "run"
    link.unlink(missing_ok=True)
    link.symlink_to(problem.folder)
    config = f'run="{problem.run_file}" poll-seconds=60.0 patience-seconds={AGAIN}'
    federation.flwr("run", ".", "test", "--run-config", config)


def wait(federation: Deployment, problem: Problem) -> None:
    """Wait until the run is over; a SuperNode that has ended is started again."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        time.sleep(1.0)
        for number, node in enumerate(federation.nodes):
            if node.poll() is not None:  # as a service manager would; a locked database of Flower ends a node
                federation.nodes[number] = supernode(federation, number)
        hub = problem.hub()
        status = hub.status()
        hub.close()
        if status["over"]:
            return
    raise AssertionError(f"not over: {status}\n{federation.logs()}")


class TestFlower(CarrierContract):
    """The horizons are short, because every turn of an agent is a process of its own."""

    algorithms = SHORT_RUNS

    @pytest.fixture(autouse=True)
    def _use(self, federation: Deployment) -> None:
        self.federation = federation

    def carry(self, problem: Problem) -> None:
        start(self.federation, problem)
        wait(self.federation, problem)


@pytest.mark.filterwarnings("ignore:.*Click 9.0:DeprecationWarning")  # in the imports of Flower itself
def test_the_template_names_the_apps_of_this_package() -> None:
    from manyarms.federation.flower import client_app, server_app

    app = Path(__file__).resolve().parents[2] / "examples" / "flower"
    for name, module in (("server", server_app), ("client", client_app)):
        text = (app / "manyarms_agents" / f"{name}.py").read_text()
        assert module.__name__ in text
