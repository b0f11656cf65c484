"""The service is killed at random moments while workers ask and tell: nothing is lost or doubled.

Every worker writes down what it has told. In the end the database holds exactly that: one result per ticket,
no ticket that nobody has got, and no measurement without a ticket.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import history, ticket_counts
from manyarms.campaigns.results_file import ReportedResult
from manyarms.service.client.http import Connection
from manyarms.service.client.remote import RemoteCampaign
from tests.campaigns.server import fresh_database
from tests.campaigns.support import made, wait_until
from tests.service.support import Service, campaign_in

WORKERS = 4


class Worker(threading.Thread):
    """Asks, measures and tells until it is stopped; it finishes what it has begun."""

    def __init__(self, url: str, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.url, self.number, self.stopping = url, number, stop
        self.told: list[tuple[str, float]] = []
        self.problem: BaseException | None = None

    def run(self) -> None:
        rng, name = random.Random(self.number), f"worker {self.number}"
        campaign = RemoteCampaign(Connection(self.url, patience=3600))
        try:
            while not self.stopping.is_set():
                for job in campaign.ask(rng.choice([1, 1, 2]), worker=name, lease_seconds=600):
                    time.sleep(rng.uniform(0, 0.03))
                    value = rng.gauss(0, 1)
                    check = job.code.partition("-")[2]
                    campaign.tell([ReportedResult("", job.ticket, None, value, check=check)])
                    self.told.append((job.code, value))
        except BaseException as problem:
            self.problem = problem
        finally:
            campaign.close()


def killed_often(folder: Path, moments: int, server: str | None = None, seed: int = 1) -> None:
    """Kill and restart the service so many times while the workers go on.

    The campaign is in a file of the folder, or on a PostgreSQL server.
    """
    if server is None:
        place, path = str(folder), str(campaign_in(folder))
    else:
        place = fresh_database(server)
        path = f"{place}#screen"
        made(folder, path).close()
    service, stop, rng = Service(place), threading.Event(), random.Random(seed)
    workers = [Worker(f"{service.address}/screen", number, stop) for number in range(WORKERS)]
    try:
        for worker in workers:
            worker.start()
        for _ in range(moments):
            time.sleep(rng.uniform(0.02, 1.0))
            service.kill()
            service.start()
        wait_until(lambda: all(worker.told or worker.problem for worker in workers))
        stop.set()
        for worker in workers:
            worker.join(600)  # under load, a worker may wait for long
            assert not worker.is_alive()
            assert worker.problem is None, repr(worker.problem)
    finally:
        stop.set()
        service.stop()
    told = sorted(entry for worker in workers for entry in worker.told)
    with Campaign(path) as campaign:
        assert sorted((row.code or "", row.value) for row in history(campaign)) == told
        counts = ticket_counts(campaign)
    assert (counts["told"], counts["open"], counts["forgotten"]) == (len(told), 0, 0)
    assert len({code for code, _ in told}) == len(told)


def test_a_killed_service_loses_and_doubles_nothing(tmp_path: Path) -> None:
    killed_often(tmp_path, moments=2)


@pytest.mark.slow
def test_a_killed_service_on_postgresql_loses_and_doubles_nothing(tmp_path: Path, server: str) -> None:
    killed_often(tmp_path, moments=2, server=server)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_service_killed_at_100_moments_loses_and_doubles_nothing(
    tmp_path: Path, request: pytest.FixtureRequest, database: str, block: int
) -> None:
    """Ten moments each, 100 on each database; another seed for each block."""
    server = request.getfixturevalue("server") if database == "postgresql" else None
    killed_often(tmp_path, 10, server, seed=block)
