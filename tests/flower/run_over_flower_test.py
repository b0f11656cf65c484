"""A run over a Flower federation with TLS and node authentication is the run in one program."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.federation.contract import CarrierContract
from tests.federation.support import N, Problem
from tests.flower.deployment import Deployment, deployed
from tests.flower.short_runs import SHORT_RUNS

PATIENCE = 900.0  # seconds for a run; every message starts a process with imports of several seconds


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A SuperLink and its SuperNodes, which find the files of the present run behind a link."""
    folder = tmp_path_factory.mktemp("federation")
    with deployed(folder) as deployment:
        deployment.superlink()
        for n in range(N):
            deployment.supernode(
                n,
                {
                    "invitation": str(folder / "run" / f"agent{n}.invitation"),
                    "pool": str(folder / "run" / "table.csv"),
                    "python": "tests.federation.trial_function:measure",
                },
            )
        yield deployment


class TestFlower(CarrierContract):
    """The horizons are short, because every turn of an agent is a process of its own."""

    algorithms = SHORT_RUNS

    @pytest.fixture(autouse=True)
    def _use(self, federation: Deployment) -> None:
        self.federation = federation

    def carry(self, problem: Problem) -> None:
        link = self.federation.folder / "run"
        link.unlink(missing_ok=True)
        link.symlink_to(problem.folder)
        config = f'run="{problem.run_file}" poll-seconds=60.0'
        self.federation.flwr("run", ".", "test", "--run-config", config)
        self.wait(problem)

    def wait(self, problem: Problem) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            time.sleep(2.0)
            hub = problem.hub()
            status = hub.status()
            hub.close()
            if status["over"]:
                return
        raise AssertionError(f"not over: {status}\n{self.federation.logs()}")


@pytest.mark.filterwarnings("ignore:.*Click 9.0:DeprecationWarning")  # in the imports of Flower itself
def test_the_template_names_the_apps_of_this_package() -> None:
    from manyarms.federation.flower import client_app, server_app

    app = Path(__file__).resolve().parents[2] / "examples" / "flower"
    for name, module in (("server", server_app), ("client", client_app)):
        text = (app / "manyarms_agents" / f"{name}.py").read_text()
        assert module.__name__ in text
