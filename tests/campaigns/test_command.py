"""The command from `new` to `report`, and what it does as a process of its own: pipes, signals, folders."""

from __future__ import annotations

import csv
import functools
import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import ticket_counts
from tests.campaigns.support import COMMAND, cli, command, value_of, wait_until, write_pool

MEASURE = """
import math, sys
x1, x2 = map(float, sys.argv[2:4])
print("measuring", sys.argv[1])
print("value:", math.exp(-8 * ((x1 - 0.3) ** 2 + (x2 - 0.6) ** 2)))
"""
OPTIONS = ["--features", "x1,x2", "--kernel", "rbf", "--lengthscale", "0.3", "--noise", "0.05"]


def fill_in(path: Path) -> None:
    """What a scientist does with the batch file."""
    with open(path, newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        row["value"] = repr(
            value_of(float(row["x1"]), float(row["x2"]), int(row["ticket"].partition("-")[0]))
        )
    with open(path, "w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(params=["in this process", pytest.param("as a process", marks=pytest.mark.slow)])
def started(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """How commands are started, in the folder of the test; as real processes among the slow tests."""
    if request.param == "as a process":
        return functools.partial(command, cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    return cli


def test_a_whole_campaign(tmp_path, place, started):
    write_pool(tmp_path)
    done = started("new", place, "--pool", "pool.csv", "--id", "name", *OPTIONS)
    assert done.code == 0, done.err
    assert "120 candidates" in done.out
    for batch in ("1.csv", "2.csv"):
        done = started("ask", place, "-n", 18, "--out", batch)
        assert done.code == 0, done.err
        fill_in(tmp_path / batch)
        assert started("tell", place, batch, "--json").json["new"] == 18
        assert started("tell", place, batch, "--json").json["known"] == 18
    (tmp_path / "measure.py").write_text(MEASURE)
    program = f"{sys.executable} measure.py {{name}} {{x1}} {{x2}}"
    done = started("run", place, "--command", program, "--workers", 2, "--trials", 4, "--json")
    assert done.code == 0, done.err
    assert (done.json["measured"], done.json["stopped_because"]) == (4, "trial limit reached")
    status = started("status", place, "--json").json
    assert status["tickets"] == {"open": 0, "told": 40, "failed": 0, "forgotten": 0, "leased": 0}
    top = started("best", place, "-k", 3, "--json").json["best"]
    assert top[0]["mean"] > 0.9
    assert set(top[0]["columns"]) == {"x1", "x2", "remark"}
    assert started("export", place, "all.parquet").code == 0
    assert pq.read_table(tmp_path / "all.parquet").num_rows == 40
    assert started("report", place, "--html", "page.html", "--optimum", "1.0").code == 0
    page = (tmp_path / "page.html").read_text()
    assert top[0]["id"] in page
    assert "<script src" not in page, "the page loads nothing"


def told(place: str) -> int:
    with Campaign(place) as campaign:
        return ticket_counts(campaign)["told"]


SLOW = """
import os, time
def slow(arm):
    with open("log", "a") as log:
        log.write("x")
    while arm.ticket > 2 and os.path.exists("pause"):
        time.sleep(0.02)
    return arm.row["x1"]
"""


def test_ctrl_c_keeps_what_was_measured_and_the_same_command_goes_on(tmp_path, place):
    write_pool(tmp_path)
    options = ["--pool", "pool.csv", "--id", "name", *OPTIONS, "--budget", "12"]
    assert cli("new", place, *options[:1], tmp_path / "pool.csv", *options[2:]).code == 0
    (tmp_path / "measure.py").write_text(SLOW)
    (tmp_path / "pause").touch()
    run = ["run", place, "--python", "measure:slow", "--workers", "2", "--batch", "6"]
    process = subprocess.Popen([*COMMAND, *run, "--json"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    log = tmp_path / "log"
    wait_until(lambda: log.exists() and log.stat().st_size >= 5)
    wait_until(lambda: told(place) == 3)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert (process.returncode, json.loads(out)["exit_code"]) == (130, 130)
    assert cli("status", place, "--json").json["tickets"]["leased"] == 3
    (tmp_path / "pause").unlink()
    done = command(*run, cwd=tmp_path)
    assert done.code == 0, done.err
    status = cli("status", place, "--json").json
    assert status["tickets"] == {"open": 0, "told": 12, "failed": 0, "forgotten": 0, "leased": 0}
    assert status["batches"] == 2


def test_a_toml_file_holds_the_same_settings_and_options_overrule_it(tmp_path):
    (tmp_path / "lab").mkdir()
    write_pool(tmp_path / "lab")
    (tmp_path / "lab" / "campaign.toml").write_text(
        'pool = "pool.csv"\nid = "name"\nfeatures = ["x1", "x2"]\ngoal = "minimise"\n'
        'kernel = "matern"\nlengthscale = [0.2, 0.4]\npolicy = "gp-ucb"\nseed = 5\n[options]\ndelta = 0.01\n'
    )
    done = command("new", "c.db", "--config", "lab/campaign.toml", "--seed", "6", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.json["policy"] == {"name": "GPUCB", "width": 1.5, "delta": 0.01}
    assert (done.json["goal"], done.json["seed"]) == ("minimise", 6)
    assert done.json["kernel"]["lengthscale"] == [0.2, 0.4]
    assert Path(done.json["pool"]["path"]) == tmp_path / "lab" / "pool.csv"


def test_results_come_in_by_a_pipe_and_batches_go_out_by_one(tmp_path, monkeypatch):
    write_pool(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert cli("new", "c.db", "--pool", "pool.csv", "--id", "name", *OPTIONS).code == 0
    out = command("ask", "c.db", "-n", 2, "--out", "-", cwd=tmp_path)
    rows = list(csv.DictReader(out.out.splitlines()))
    codes = [row["ticket"] for row in rows]
    assert [code.partition("-")[0] for code in codes] == ["0", "1"]
    again = cli("ask", "c.db", "--again", "--json").json["tickets"]
    assert [each["id"] for each in again] == [row["name"] for row in rows]
    assert [(each["ticket"], each["number"]) for each in again] == [(codes[0], 0), (codes[1], 1)]
    text = f"ticket,value\n{codes[0]},1\n{codes[1]},2\n"
    assert command("tell", "c.db", "-", text=text, cwd=tmp_path).code == 0
    assert len(cli("history", "c.db", "--json").json["results"]) == 2
