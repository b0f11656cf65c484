"""Eight processes on one campaign at once, in a file and on a server."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import batches, history, ticket_counts
from tests.campaigns.server import fresh_database
from tests.campaigns.support import ROOT, made, step

PROCESSES, ROUNDS = 8, 6


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_eight_processes_ask_and_tell_at_once(tmp_path, request, kind):
    database = "c.db" if kind == "sqlite" else f"{fresh_database(request.getfixturevalue('server'))}#crowd"
    with made(tmp_path, database) as campaign:
        step(campaign, 4)
    place = str(tmp_path / "c.db") if kind == "sqlite" else database
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    crowd = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.campaigns.crowd", place, str(number), str(ROUNDS)],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(PROCESSES)
    ]  # fmt: skip
    asked: list[int] = []
    forgotten: list[int] = []
    for process in crowd:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        for line in out.splitlines():
            word, *tickets = line.split()
            (asked if word == "asked" else forgotten).extend(map(int, tickets))
    every = sorted(asked + forgotten)
    assert every == list(range(4, 4 + len(every)))  # each handed out once, none skipped
    with Campaign(place) as campaign:
        counts = ticket_counts(campaign)
        assert (counts["told"], counts["forgotten"], counts["open"]) == (4 + len(asked), PROCESSES, 0)
        told = [each.ticket for each in history(campaign)]
        assert len(told) == len(set(told)) == 4 + len(asked)
        numbers = [batch["number"] for batch in batches(campaign)]
        assert numbers == list(range(1, 2 + PROCESSES * (ROUNDS + 1)))
        assert campaign.ask(3)


@pytest.mark.slow
def test_a_server_holds_many_campaigns_that_do_not_see_each_other(tmp_path, server):
    database = fresh_database(server)
    with made(tmp_path, f"{database}#one") as one, made(tmp_path, f"{database}#two", seed=1) as two:
        step(one, 3)
        step(two, 5)
        assert (len(history(one)), len(history(two))) == (3, 5)
        assert one.ask(1)[0].ticket == 3
