"""kill -9 at random moments: nothing told is lost or doubled, and the search goes on as if nothing was."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import batches, history, ticket_counts
from tests.campaigns.killed_crowd import fill_tickets, value_of_id
from tests.campaigns.server import fresh_database
from tests.campaigns.support import LEARNED, ROOT, made, results, step, write_pool

pytestmark = pytest.mark.slow
TELL_KILLS, BUDGET = 80, 60

PATHS = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
ENVIRONMENT = {**os.environ, "PYTHONPATH": PATHS, "OPENBLAS_NUM_THREADS": "1"}

MEASURE = """
import math
def hill(arm):
    return math.exp(-8 * ((arm.row["x1"] - 0.3) ** 2 + (arm.row["x2"] - 0.6) ** 2)) + arm.ticket % 7 / 100
"""


class Killer:
    """Starts commands in a folder and kills them."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.campaigns.killed"], cwd=folder, env=ENVIRONMENT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def __call__(self, *arguments: str, seconds: float | None = None, window: bool = False) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"arguments": arguments, "seconds": seconds, "window": window}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture
def kill(tmp_path: Path) -> Iterator[Killer]:
    write_pool(tmp_path)
    (tmp_path / "measure.py").write_text(MEASURE)
    killer = Killer(tmp_path)
    yield killer
    killer.close()


def told(campaign: Campaign) -> list[tuple[int, str, float, float]]:
    """Every ticket with its candidate, value and prediction."""
    return sorted((each.ticket, each.id, each.value, each.predicted) for each in history(campaign))


def lasting(campaign: Campaign) -> list[dict[str, object]]:
    """The batches without what a clock says about them."""
    clocks = ("seconds", "asked_at")
    return [{key: value for key, value in each.items() if key not in clocks} for each in batches(campaign)]


def check_sound(campaign: Campaign) -> int:
    """What must hold at any moment; how many results there are."""
    counts, tickets = ticket_counts(campaign), [each.ticket for each in history(campaign)]
    assert len(tickets) == len(set(tickets)) == counts["told"]
    assert sum(each["size"] for each in batches(campaign)) == counts["told"] + counts["open"] <= BUDGET
    return len(tickets)


@pytest.mark.parametrize(("changes", "enough"), [({}, 120), (LEARNED, 40)], ids=["given", "learned"])
def test_a_run_killed_again_and_again_is_the_uninterrupted_one(tmp_path, kill, changes, enough):
    """Each start goes a little further; in the end every batch, value and prediction agrees."""
    rng = random.Random(1)
    run = ("run", "--python", "measure:hill", "--workers", "2", "--batch", "5")
    made(tmp_path, "whole.db", budget=BUDGET, **changes).close()
    assert kill(*run, "whole.db") == 0
    with Campaign(tmp_path / "whole.db") as campaign:
        expected, expected_batches = told(campaign), lasting(campaign)
    assert len(expected) == BUDGET
    kills, campaigns = 0, 0
    while kills < enough:
        campaigns += 1
        name, seconds = f"killed{campaigns}.db", 0.6
        made(tmp_path, name, budget=BUDGET, **changes).close()
        seen = 0
        while seen < BUDGET:
            kills += kill(*run, name, seconds=rng.uniform(0.0, seconds)) == -9
            with Campaign(tmp_path / name) as campaign:
                now = check_sound(campaign)
            assert now >= seen
            seconds = 0.6 if now > seen else 1.5 * seconds  # a slow machine may need longer to get anywhere
            seen = now
        with Campaign(tmp_path / name) as campaign:
            assert told(campaign) == expected
            assert lasting(campaign) == expected_batches
    assert kills >= enough


def test_a_killed_tell_is_all_or_nothing_and_can_be_told_again(tmp_path, kill):
    rng = random.Random(2)
    with made(tmp_path, "asked.db") as campaign:
        step(campaign, 10)
        (tmp_path / "r.csv").write_text(results(campaign.ask(40)))
    shutil.copy(tmp_path / "asked.db", tmp_path / "whole.db")
    assert kill("tell", "whole.db", "r.csv") == 0
    with Campaign(tmp_path / "whole.db") as campaign:
        expected, following = told(campaign), campaign.ask(5)
    before = after = kills = 0
    longest = 0.2
    while kills < TELL_KILLS:
        shutil.copy(tmp_path / "asked.db", tmp_path / "killed.db")
        killed = kill("tell", "killed.db", "r.csv", seconds=rng.uniform(0.0, longest)) == -9
        kills += killed
        with Campaign(tmp_path / "killed.db") as campaign:
            n_told = len(history(campaign))
            assert n_told in (10, 50)
            before, after = before + (n_told == 10), after + (n_told == 50)
            longest = 0.9 * longest if n_told == 50 else 1.1 * longest  # so that kills fall around the commit
            assert campaign.tell_file(tmp_path / "r.csv").new == 50 - n_told
            assert told(campaign) == expected
            assert campaign.ask(5) == following
        for left in tmp_path.glob("killed.db*"):
            left.unlink()
    assert min(before, after) >= TELL_KILLS // 8, (before, after)


WINDOW_KILLS, CROWD, CROWD_ROUNDS = 25, 8, 5


def test_a_batch_file_of_an_ask_killed_between_rename_and_commit_is_refused(tmp_path, kill):
    """The file is there and looks right, but its numbers are handed out for other candidates afterwards."""
    made(tmp_path, "c.db", repeats="forbid").close()
    elsewhere = 0
    for turn in range(WINDOW_KILLS):
        with Campaign(tmp_path / "c.db") as campaign:
            before = told_rows(campaign)
        orphan, real = tmp_path / f"orphan{turn}.csv", tmp_path / f"real{turn}.csv"
        assert kill("ask", "c.db", "-n", "3", "--out", orphan.name, window=True) == -9
        with Campaign(tmp_path / "c.db") as campaign:
            assert (ticket_counts(campaign)["open"], told_rows(campaign)) == (0, before)
            # Somebody measures the first candidate without a ticket, so the next ask chooses other ones.
            first = ids_of(orphan)[0]
            campaign.tell_bytes(f"name,value\n{first},{value_of_id(first)}\n".encode(), f"news{turn}.csv")
            before = told_rows(campaign)
        assert kill("ask", "c.db", "-n", "3", "--out", real.name) == 0
        elsewhere += ids_of(orphan) != ids_of(real)
        fill_tickets(orphan)
        assert kill("tell", "c.db", orphan.name) == 3
        with Campaign(tmp_path / "c.db") as campaign:
            assert told_rows(campaign) == before
        fill_tickets(real)
        assert kill("tell", "c.db", real.name) == 0
    assert elsewhere >= WINDOW_KILLS // 2, "the test must meet numbers that changed their candidate"
    with Campaign(tmp_path / "c.db") as campaign:
        check_values(campaign, WINDOW_KILLS * 3)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_eight_writers_are_killed_in_the_window_and_no_value_reaches_another_candidate(
    tmp_path, request, kind
):
    database = "c.db" if kind == "sqlite" else f"{fresh_database(request.getfixturevalue('server'))}#crowd"
    made(tmp_path, database).close()
    crowd = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.campaigns.killed_crowd", database, str(number), str(CROWD_ROUNDS)],
            cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(CROWD)
    ]  # fmt: skip
    counts = {"orphans": 0, "told": 0, "killed": 0}
    for process in crowd:
        out, err = process.communicate(timeout=500)
        assert process.returncode == 0, err
        for name, count in json.loads(out).items():
            counts[name] += count
    assert counts["orphans"] >= CROWD
    assert counts["killed"] >= CROWD // 2
    with Campaign(
        tmp_path / "c.db" if kind == "sqlite" else database, pool=tmp_path / "pool.csv"
    ) as campaign:
        check_values(campaign, counts["told"])
        assert ticket_counts(campaign)["open"] == 0
        assert campaign.ask(3)


def told_rows(campaign: Campaign) -> list[tuple[int | None, str, float | None]]:
    return [(each.ticket, each.id, each.value) for each in history(campaign)]


def ids_of(path: Path) -> list[str]:
    with open(path, newline="") as stream:
        return [row["name"] for row in csv.DictReader(stream)]


def check_values(campaign: Campaign, n_tickets: int) -> None:
    """Every result of a ticket belongs to the candidate that was measured, and none is lost or doubled."""
    mine = [each for each in history(campaign) if each.ticket is not None]
    assert len(mine) == len({each.ticket for each in mine}) == n_tickets
    assert {each.value == value_of_id(each.id) for each in mine} == {True}
