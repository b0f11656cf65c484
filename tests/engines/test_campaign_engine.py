"""Campaigns on a cluster: the address is kept, can be replaced, and the batches do not depend on it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from distributed import LocalCluster
from distributed.security import Security
from typer.testing import CliRunner

import manyarms as ma
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.engine_settings import EngineSettings
from manyarms.campaigns.settings import read_request
from manyarms.cli.main import app
from manyarms.errors import EngineError, SchedulerLostError, SettingsError
from tests.federation.certificates import write_certificates

NOWHERE = "tcp://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyarms.campaigns.engine_settings._PATIENCE", "5s")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "pool.csv"
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", "a", "b"])
        writer.writerows((f"c{i}", *row) for i, row in enumerate(rng.random((300, 2)).round(6).tolist()))
    return path


def batches(campaign: Path, engine: str | None, rounds: int = 3) -> list[list[str]]:
    """The ids of some batches, each asked for by a new process's worth of state."""
    found = []
    for _ in range(rounds):
        with ma.Campaign(campaign, frames=None, engine=engine) as opened:
            batch = opened.ask(24)
            found.append(list(batch["name"]))
            values = [np.sin(5 * a) + b for a, b in zip(batch["a"], batch["b"], strict=True)]
            opened.tell({"ticket": list(batch["ticket"]), "value": values})
    return found


def new(table: Path, name: str, *options: str) -> tuple[Path, object]:
    where = table.with_name(name)
    arguments = ["new", str(where), "--pool", str(table), "--id", "name", *options]
    return where, CliRunner().invoke(app, arguments)


@pytest.mark.parametrize(
    "where", ["", "cluster", "tcp://host", "host:8786", "http://host:8786", "tcp://:1", "tls://host:x"]
)
def test_something_else_than_an_engine_is_refused(where: str) -> None:
    with pytest.raises(SettingsError, match="engine must be 'local'"):
        EngineSettings(where)


def test_an_address_without_encryption_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(EngineError, match="not encrypted"):
        EngineSettings("tcp://192.0.2.1:8786").connect()


def test_no_campaign_is_made_if_its_scheduler_cannot_be_reached(table: Path, monkeypatch) -> None:
    monkeypatch.setattr("manyarms.campaigns.engine_settings._PATIENCE", "0.2s")
    where, result = new(table, "c.db", "--engine", NOWHERE)
    assert result.exit_code == 3
    assert f"the Dask scheduler at {NOWHERE} cannot be reached" in result.output
    assert not where.exists()


@pytest.mark.parametrize("engine", ["memory", "disk", "recompute"])
def test_storage_is_a_setting_of_a_campaign_too(table: Path, engine: str) -> None:
    plain, _ = new(table, "plain.db")
    kept, result = new(table, "kept.db", "--engine", engine)
    assert result.exit_code == 0, result.output
    with Campaign(kept) as campaign:
        assert campaign.settings.on_engine == EngineSettings(engine)
    assert batches(kept, None, 2) == batches(plain, None, 2)
    status = json.loads(CliRunner().invoke(app, ["status", str(kept), "--json"]).output)
    assert status["engine"] == engine


def test_the_engine_of_one_call_is_checked_and_not_kept(table: Path) -> None:
    where, _ = new(table, "c.db")
    with pytest.raises(SettingsError, match="engine must be"):
        Campaign(where, engine="elsewhere")
    with Campaign(where, engine="disk") as campaign:
        assert campaign.ask(3)
    with Campaign(where) as campaign:
        assert campaign.settings.on_engine == EngineSettings()


def test_certificates_are_found_from_any_folder(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(table.parent)
    request = read_request(None, {"pool": str(table), "engine": "tls://host:1", "engine_ca": "ca.pem"})
    assert request.on_engine().ca == str(table.parent / "ca.pem")
    assert EngineSettings.from_plain(request.on_engine().to_plain()) == request.on_engine()


def test_an_ask_without_its_scheduler_fails_clearly_and_hands_out_nothing(table: Path, monkeypatch) -> None:
    monkeypatch.setattr("manyarms.campaigns.engine_settings._PATIENCE", "0.2s")
    where, _ = new(table, "c.db")
    with Campaign(where, engine=NOWHERE) as campaign, pytest.raises(SchedulerLostError):
        campaign.ask(3)
    result = CliRunner().invoke(app, ["ask", str(where), "-n", "3", "--engine", NOWHERE])
    assert result.exit_code == 3
    assert "cannot be reached" in result.output
    with Campaign(where) as campaign:
        assert not campaign.open_tickets()


@pytest.mark.slow
def test_a_campaign_on_a_cluster_asks_for_the_same_candidates(table: Path) -> None:
    plain, _ = new(table, "plain.db")
    expected = batches(plain, None)
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": 50,
    }
    with LocalCluster(**options) as cluster:
        where, result = new(table, "c.db", "--engine", cluster.scheduler_address)
        assert result.exit_code == 0, result.output
        assert batches(where, None, 2) == expected[:2]
        status = CliRunner().invoke(app, ["status", str(where)])
        assert cluster.scheduler_address in status.output
    result = CliRunner().invoke(app, ["ask", str(where), "-n", "24"])
    assert result.exit_code == 3
    assert "cannot be reached" in result.output
    assert batches(where, "local", 1) == expected[2:]


@pytest.mark.slow
def test_the_scheduler_dies_between_two_asks_of_one_process(table: Path) -> None:
    plain, _ = new(table, "plain.db")
    expected = batches(plain, None, 1)
    options = {
        "n_workers": 1,
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": 50,
    }
    with LocalCluster(**options) as cluster:
        where, _ = new(table, "c.db", "--engine", cluster.scheduler_address)
        with Campaign(where) as campaign:
            first = campaign.ask(24)
            assert [each.id for each in first] == expected[0]
            cluster.close()
            with pytest.raises(SchedulerLostError, match="no result is lost"):
                campaign.ask(2)
            assert len(campaign.open_tickets()) == 24


@pytest.mark.slow
def test_a_campaign_on_a_cluster_with_tls(table: Path) -> None:
    folder = table.parent
    write_certificates(folder)
    files = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
    roles = {
        f"tls_{role}_{kind}": str(folder / f"server.{ending}")
        for role in ("scheduler", "worker", "client")
        for kind, ending in (("cert", "pem"), ("key", "key"))
    }
    security = Security(tls_ca_file=str(folder / "ca.pem"), require_encryption=True, **roles)
    plain, _ = new(table, "plain.db")
    with LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50, protocol="tls",
        security=security, host="127.0.0.1",
    ) as cluster:  # fmt: skip
        assert cluster.scheduler_address.startswith("tls://")
        given = [text for name, file in files.items() for text in (f"--engine-{name}", str(folder / file))]
        where, result = new(table, "c.db", "--engine", cluster.scheduler_address, *given)
        assert result.exit_code == 0, result.output
        assert batches(where, None, 1) == batches(plain, None, 1)
        _, refused = new(table, "without.db", "--engine", cluster.scheduler_address)
        assert refused.exit_code == 3
        assert "cannot be reached" in refused.output


_EVALUATED_THERE = """
import numpy as np, os
import manyarms as ma
from distributed import Client, LocalCluster

def measure(arm):
    return float(-((arm.features - 0.3) ** 2).sum())

if __name__ == "__main__":
    pool = ma.Pool(np.random.default_rng(0).random((2000, 2)))
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**options, silence_logs=50) as cluster:
        with Client(cluster) as client:
            settings = {"budget": 60, "seed": 1}
            here = ma.maximize(measure, pool, **settings)
            executor, engine = client.get_executor(pure=False), ma.engines.Dask(client)
            there = ma.maximize(measure, pool, **settings, executor=executor, engine=engine)
            assert there.arms.tolist() == here.arms.tolist()
            assert np.array_equal(there.rewards, here.rewards)
            print("same")
"""


@pytest.mark.slow
def test_functions_are_evaluated_on_the_cluster_that_holds_the_pool(tmp_path: Path) -> None:
    script = tmp_path / "there.py"
    script.write_text(_EVALUATED_THERE)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "same", done.stderr
