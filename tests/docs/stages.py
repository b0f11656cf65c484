"""What the pages take for granted when their commands run: tables, programs, services, a person who measures.

A `Stage` belongs to one page. It prepares files, puts real addresses and tickets in the place of the page's
examples, keeps services running until the page ends, fills in batch files as a person would, and says which
commands are not run here and which other tests run them.
"""

from __future__ import annotations

import csv
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

Row = dict[str, str]

# Commands that no page runs, by how they begin, and why.
LEFT_OUT = {
    "make ": "the demo has its own test (tests/campaigns/test_demo.py), and `make test` runs these tests",
    "pip install": "test_commands.py compares the extras with pyproject.toml",
    "manyarms reproduce": "takes minutes; tests/reproduce runs every experiment in smoke mode",
}


def nothing() -> None:
    """Prepare nothing."""


@dataclass
class Stage:
    """The surroundings of one page, in the current folder; a context manager that ends its services."""

    prepare: Callable[[], Any] = nothing
    names: dict[str, Any] = field(default_factory=dict)  # what Python blocks take for granted
    examples: dict[str, str | Callable[[], str]] = field(default_factory=dict)  # what stands for what is real
    left_out: dict[str, str] = field(default_factory=dict)  # beginnings of commands, and the reason
    measure: Callable[[Row], object] | None = None  # what a person writes into the column `value`
    first: dict[str, Callable[[], Any]] = field(default_factory=dict)  # what happens before a command
    finish: Callable[[], Any] = nothing  # after the last example
    saved: dict[str, str] = field(default_factory=dict)  # the environment before the page
    ports: list[int] = field(default_factory=list)  # of the services, in the order in which they started
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Stage:
        self.saved = dict(os.environ)
        self.prepare()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.running:
            process.send_signal(signal.SIGINT)
        for process in self.running:
            process.communicate(timeout=60)
        os.environ.clear()
        os.environ.update(self.saved)
        self.finish()

    def leaves_out(self, command: str) -> str | None:
        """Why a command is not run; None if it is."""
        left_out = {**LEFT_OUT, **self.left_out}
        return next((why for start, why in left_out.items() if command.startswith(start)), None)

    def replaced(self, code: str) -> str:
        """Code with real addresses and tickets where the page has examples."""
        for example, real in self.examples.items():
            if example in code:
                code = code.replace(example, real if isinstance(real, str) else real())
        return code

    def before(self, words: list[str]) -> None:
        """What somebody else has done before this command."""
        for start, act in self.first.items():
            if " ".join(words).startswith(start):
                act()

    def after(self, words: list[str]) -> None:
        """A person measures what a command has written to a file, and fills in the values."""
        if self.measure is None or "--out" not in words:
            return
        path = Path(words[words.index("--out") + 1])
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows({**row, "value": str(self.measure(row))} for row in rows)

    def serve(self, words: list[str]) -> None:
        """Start a service on a free port; it runs until the page ends."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        command = [sys.executable, "-m", *words, "--port", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.running.append(process)
        self.ports.append(port)
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        raise AssertionError(f"{words} does not answer")


# ------------------------------------------------------------------ what the stages are made of


def table(path: str, rows: list[dict[str, object]]) -> None:
    """A CSV file."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def program(path: str, text: str) -> None:
    """A program that measures a candidate."""
    Path(path).write_text(f"#!/bin/sh\n{text}\n")
    Path(path).chmod(0o755)


def manyarms(*words: str) -> str:
    """What the command prints."""
    return subprocess.run(
        [sys.executable, "-m", "manyarms", *words], capture_output=True, text=True, check=True
    ).stdout


def points(n: int, name: str = "name") -> list[dict[str, object]]:
    """Candidates with two numbers each."""
    return [{name: f"c{i}", "x1": i % 12, "x2": (7 * i) % 11} for i in range(n)]


# ------------------------------------------------------------------ the stages


def readme() -> Stage:
    """A table of 110 candidates, and a program that measures one by its name."""

    def prepare() -> None:
        table("candidates.csv", points(110))
        program("measure", 'echo "${#1}"')

    return Stage(prepare, measure=lambda row: len(row["name"]))


def campaigns() -> Stage:
    """Molecules whose measured value is the length of their SMILES, so that M-17 has 35."""

    def prepare() -> None:
        smiles = ["C" * n for n in range(1, 60)] + [f"O{'C' * n}O" for n in range(1, 60)]
        smiles[17], smiles[34] = smiles[34], smiles[17]
        rows = [{"code": f"M-{i}", "smiles": text} for i, text in enumerate(smiles)]
        table("molecules.csv", rows)
        more = {"temperature": (20, 40), "supplier": "abcdefghijkl", "instrument": "wxyz"}
        places = [{name: kinds[i % len(kinds)] for name, kinds in more.items()} for i in range(len(rows))]
        table("plates.csv", [row | place for row, place in zip(rows, places, strict=True)])
        program("dock", 'echo "${#1}"')

    def ticket() -> str:
        history = manyarms("history", "screen.db", "--json")
        return re.findall(r'"ticket": "(\d+-\w+)"', history)[-1]

    def plates() -> None:
        manyarms("new", "plates.db", "--pool", "plates.csv", "--id", "code", "--smiles", "smiles")

    def fixes() -> None:
        table("fixes.csv", [{"code": "M-3", "value": 5}])

    def wrong() -> None:
        table("wrong.csv", [{"code": "M-4", "value": 1000}])
        manyarms("tell", "screen.db", "wrong.csv")

    return Stage(
        prepare,
        examples={
            "7-k3f5m": ticket,
            "screen.db -n 96 --same": "plates.db -n 24 --same",
            "screen.db -n 96 --at-most": "plates.db -n 24 --at-most",
        },
        measure=lambda row: len(row["smiles"]),
        first={
            "manyarms ask plates.db -n 24 --same": plates,
            "manyarms correct screen.db fixes.csv": fixes,
            "manyarms untell screen.db wrong.csv": wrong,
        },
    )


def recipes() -> Stage:
    """A table of 600 recipes, and a person who measures them, with noise."""

    def prepare() -> None:
        rows: list[dict[str, object]] = [
            {"name": f"c{i}", "x1": i % 25, "x2": 7 * i % 24, "x3": 11 * i % 31} for i in range(600)
        ]
        table("recipes.csv", rows)

    def value(row: Row) -> float:
        x1, x2, x3 = (float(row[name]) for name in ("x1", "x2", "x3"))
        noise = 37 * int(row["name"][1:]) % 11 / 10
        return 5 * math.sin(x1 / 4) + 3 * math.cos(x2 / 5 + x3 / 9) + noise

    return Stage(prepare, measure=value)


def priced_recipes() -> Stage:
    """The same recipes with a price."""
    stage = recipes()
    prepare = stage.prepare

    def priced() -> None:
        prepare()
        with open("recipes.csv", newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        table("recipes.csv", [{**row, "price": 1 + 13 * i % 17 / 2} for i, row in enumerate(rows)])

    stage.prepare = priced
    return stage


def measured() -> Stage:
    """The recipes, and results that came with their noise."""
    stage = recipes()
    tables, value = stage.prepare, stage.measure
    assert value is not None

    def prepare() -> None:
        tables()
        rows = list(csv.DictReader(Path("recipes.csv").read_text().splitlines()))[:40]
        own: list[dict[str, str]] = [{"noise_std": "0.8"}, {"replicates": "5"}, {}]
        noise = {"noise_std": "", "replicates": ""}
        told = [
            {"name": row["name"], "value": str(value(row)), **noise, **own[i % 3]}
            for i, row in enumerate(rows)
        ]
        table("measured.csv", [dict(row) for row in told])

    stage.prepare = prepare
    return stage


def earlier() -> Stage:
    """The recipes, and a file of old results in other units."""
    stage = recipes()
    tables, value = stage.prepare, stage.measure
    assert value is not None

    def prepare() -> None:
        tables()
        rows = list(csv.DictReader(Path("recipes.csv").read_text().splitlines()))[::12]
        old = [
            {"value": 100 - 2 * value(row), "x3": row["x3"], "x1": row["x1"], "x2": row["x2"], "batch": 7}
            for row in rows
        ]
        table("old.csv", [dict(row) for row in old])

    stage.prepare = prepare
    return stage


def service() -> Stage:
    """A folder with a campaign, certificates of this machine, and the tokens that the page makes."""

    def prepare() -> None:
        from tests.federation.certificates import write_certificates

        table("points.csv", points(150, "id"))
        Path("campaigns").mkdir()
        manyarms("new", "campaigns/screen.db", "--pool", "points.csv", "--id", "id", "--maximize")
        program("measure", 'echo "${#1}"')
        write_certificates(Path())
        shutil.copy("server.pem", "cert.pem")
        shutil.copy("server.key", "key.pem")

    def token() -> str:
        listed = manyarms("token", "list", "campaigns/", "--json")
        return re.findall(r'"id": "(\w+)"', listed)[-1]

    def authorise() -> None:
        made = manyarms("token", "new", "campaigns/", "--name", "everything", "--scope", "admin", "--json")
        os.environ["MANYARMS_TOKEN"] = re.findall(r'"token": "([^"]+)"', made)[0]

    stage = Stage(
        prepare,
        names={"measure": lambda row: len(row.id)},
        measure=lambda row: len(row["id"]),
        left_out={"manyarms demo": LEFT_OUT["make "]},
    )
    stage.examples = {
        " ID": lambda: f" {token()}",
        "https://lab.example.org/screen": lambda: f"http://127.0.0.1:{stage.ports[0]}/screen",
        "--workers 4": "--workers 4 --trials 20",  # a worker would go on until every candidate is measured
    }
    stage.first = {"manyarms serve campaigns/ --host": authorise}
    return stage


def agents() -> Stage:
    """A table that all organisations have; the commands of members have their own tests."""

    def prepare() -> None:
        table("table.csv", points(60))
        Path("runs").mkdir()
        from tests.federation.certificates import write_certificates

        write_certificates(Path())

    def invite() -> None:
        manyarms("agents", "invite", "runs/search.agents", "lab2.invitation", "--agent", "2")

    return Stage(
        prepare,
        first={"manyarms agents revoke": invite},
        left_out={
            "manyarms agents join": "needs all organisations at once: tests/federation/processes.py",
            "manyarms agents tell": "needs all organisations at once: tests/federation",
        },
    )


def flower() -> Stage:
    """The hub's commands; those of Flower run in `make test-flower`, which has Flower."""
    why = "needs Flower: tests/flower/deployment.py"
    programs = ("python3", ".venv-flower/", "ssh-keygen", "flower-superlink", "flower-supernode", "flwr")
    return Stage(lambda: table("table.csv", points(60)), left_out=dict.fromkeys(programs, why))


def scale() -> Stage:
    """A Dask cluster of this machine behind TLS, a folder of Parquet files, and a pool."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from distributed import Client, LocalCluster
    from distributed.security import Security

    import manyarms as ma

    rng = np.random.default_rng(0)
    open_clusters: list[Any] = []
    stage = Stage(names={"pool": ma.Pool(rng.random((2000, 3)))})

    def prepare() -> None:
        from tests.federation.certificates import write_certificates

        write_certificates(Path())
        shutil.copy("client.pem", "me.pem")
        shutil.copy("client.key", "me-key.pem")
        pair = {"cert": "server.pem", "key": "server.key"}
        keys = {
            f"tls_{role}_{part}": pair[part] for role in ("scheduler", "worker", "client") for part in pair
        }
        security = Security(tls_ca_file="ca.pem", require_encryption=True, **keys)
        settings: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
        cluster = LocalCluster(security=security, protocol="tls://", processes=False, **settings)
        open_clusters.append(cluster)
        stage.examples["tls://scheduler.example.org:8786"] = cluster.scheduler_address
        Path("candidates").mkdir()
        for part in range(2):
            columns = {
                "name": [f"c{part}-{i}" for i in range(500)],
                "x": rng.random(500),
                "y": rng.random(500),
            }
            pq.write_table(pa.table(columns), f"candidates/{part}.parquet")

    def finish() -> None:
        for client in list(Client._instances):
            cluster = client.cluster
            client.close()
            if cluster is not None and cluster not in open_clusters:
                cluster.close()
        for cluster in open_clusters:
            cluster.close()

    stage.prepare, stage.finish = prepare, finish
    stage.examples["LocalCluster(n_workers=4,"] = "LocalCluster(n_workers=1, dashboard_address=':0',"
    return stage


STAGES: dict[str, Callable[[], Stage]] = {
    "README.md": readme,
    "docs/agents.md": agents,
    "docs/campaigns.md": campaigns,
    "docs/costs.md": priced_recipes,
    "docs/failures.md": recipes,
    "docs/flower.md": flower,
    "docs/noise.md": measured,
    "docs/old-results.md": earlier,
    "docs/scale.md": scale,
    "docs/service.md": service,
    "docs/when-to-stop.md": recipes,
    "docs/why-this-candidate.md": recipes,
}


def stage_of(page: str) -> Stage:
    """The stage of a page; an empty one if the page prepares everything itself."""
    return STAGES.get(page, Stage)()
