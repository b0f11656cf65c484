"""`manyarms work`: it asks, measures, tells, renews its lease, and survives a restart of the service."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import history, ticket_counts
from tests.campaigns.support import cli, wait_until
from tests.service.support import COMMAND, Service, campaign_in, in_process, running

ECHO = f'"{sys.executable}" -c "print(float({{x1}}) - float({{x2}}))"'


def test_a_worker_measures_until_the_budget_is_spent(tmp_path: Path) -> None:
    campaign_in(tmp_path, budget=7)
    with in_process(tmp_path) as client:
        url = str(client.base_url.join("/screen"))
        done = cli("work", url, "--command", ECHO, "--workers", 3, "--json").json
        assert (done["measured"], done["stopped_because"]) == (7, "budget spent")
        assert cli("work", tmp_path / "screen.db", "--command", ECHO).code == 2
        assert cli("work", url).code == 2
    with Campaign(tmp_path / "screen.db") as campaign:
        rows = history(campaign)
        assert sorted(row.ticket for row in rows) == list(range(7))
        arms = campaign._arms_by_id([row.id for row in rows])
        for row, own in zip(rows, campaign.source.cells_of([arms[row.id] for row in rows]), strict=True):
            assert row.value == pytest.approx(float(own["x1"]) - float(own["x2"]))


def test_failed_trials_and_targets(tmp_path: Path) -> None:
    campaign_in(tmp_path)
    with in_process(tmp_path) as client:
        url = str(client.base_url.join("/screen"))
        failing = cli("work", url, "--command", "false", "--retries", 0, "--trials", 2, "--json").json
        assert (failing["measured"], failing["failed"]) == (0, 2)
        found = cli("work", url, "--command", "echo 7", "--until", 5, "--workers", 2, "--json").json
        assert found["stopped_because"] == "target reached"
        assert client.get("/campaigns/screen/tickets").json()["tickets"] == []  # given back


@pytest.mark.slow
def test_a_living_worker_keeps_its_lease(tmp_path: Path) -> None:
    """A trial of 15 seconds with a lease of 6, which leaves a busy machine 4 seconds to renew it."""
    campaign_in(tmp_path)
    slow = f'"{sys.executable}" -c "import time; time.sleep(15); print(1)"'
    with in_process(tmp_path) as client:
        url = str(client.base_url.join("/screen"))
        worker = subprocess.Popen([*COMMAND, "work", url, "--command", slow, "--lease", "6", "--trials", "1"])
        wait_until(lambda: client.get("/campaigns/screen/tickets").json()["tickets"] != [])
        while worker.poll() is None:
            client.post("/campaigns/screen/asks", json={"n": 1})  # an ask forgets expired tickets
            time.sleep(0.3)
        past = client.get("/campaigns/screen/history").json()["results"]
        with Campaign(tmp_path / "screen.db") as campaign:
            assert ticket_counts(campaign)["forgotten"] == 0
        assert [row["value"] for row in past] == [1.0]


def test_a_killed_worker_s_candidates_are_given_to_others(tmp_path: Path) -> None:
    campaign_in(tmp_path)
    with in_process(tmp_path) as client:
        url = str(client.base_url.join("/screen"))
        command = [*COMMAND, "work", url, "--command", "sleep 60", "--lease", "1"]
        worker = subprocess.Popen(command, start_new_session=True)
        wait_until(lambda: client.get("/campaigns/screen/tickets").json()["tickets"] != [])
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        (held,) = client.get("/campaigns/screen/tickets").json()["tickets"]
        time.sleep(1.1)
        client.post("/campaigns/screen/asks", json={"n": 1})
        left = client.get("/campaigns/screen/tickets").json()["tickets"]
        assert held["ticket"] not in [each["ticket"] for each in left]


def test_an_interrupted_worker_gives_its_tickets_back(tmp_path: Path) -> None:
    campaign_in(tmp_path)
    with in_process(tmp_path) as client:
        url = str(client.base_url.join("/screen"))
        begun = tmp_path / "begun"
        waits = f'"{sys.executable}" -c "import time; open({str(begun)!r}, {"x"!r}); time.sleep(60)"'
        worker = subprocess.Popen([*COMMAND, "work", url, "--command", waits], stderr=subprocess.DEVNULL)
        wait_until(begun.exists)
        worker.send_signal(signal.SIGINT)
        assert worker.wait(120) == 130
        assert client.get("/campaigns/screen/tickets").json()["tickets"] == []


@pytest.mark.slow
def test_a_worker_survives_a_restart_of_the_service(tmp_path: Path) -> None:
    campaign_in(tmp_path, budget=12)
    slow = f'"{sys.executable}" -c "import time; time.sleep(0.2); print({{x1}})"'
    with running(tmp_path) as service:
        command = [*COMMAND, "work", f"{service.address}/screen", "--command", slow, "--workers", "2"]
        worker = subprocess.Popen(command)
        for _ in range(3):
            time.sleep(1.0)
            service.kill()
            time.sleep(1.0)
            service.start()
        assert worker.wait(120) == 0
    with Campaign(tmp_path / "screen.db") as campaign:
        assert sorted(row.ticket for row in history(campaign)) == list(range(12))


def test_results_are_saved_if_the_service_stays_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign_in(tmp_path)
    monkeypatch.chdir(tmp_path)
    service = Service(tmp_path)
    stop, started = tmp_path / "stop", tmp_path / "started"
    waits = (
        f'"{sys.executable}" -c "import pathlib, time; p = pathlib.Path({str(stop)!r})\n'
        f"pathlib.Path({str(started)!r}).touch()\n"
        'while not p.exists(): time.sleep(0.05)\nprint(4)"'
    )
    command = [*COMMAND, "work", f"{service.address}/screen", "--command", waits, "--patience", "0"]
    worker = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    with Campaign(tmp_path / "screen.db") as campaign:
        wait_until(started.exists)  # the ticket was handed out before, but its worker may not know it yet
        service.kill()
        stop.touch()
        _, said = worker.communicate(timeout=60)
        (saved,) = tmp_path.glob("unrecorded-*.csv")
        assert saved.name in said
        assert campaign.tell_file(saved).new == 1
        assert [row.value for row in history(campaign)] == [4.0]
