"""A service that keeps its model does what a new process would do for every single act.

The same random acts (asks, results that come late or fail, forgotten tickets, corrections) go to a service
that stays alive, and to a copy of the campaign on which a new process does each act. Tickets, candidates,
reasons and predictions must be equal to the last bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import httpx
import pytest

from manyarms.service.client.http import Connection
from manyarms.service.client.remote import RemoteCampaign
from manyarms.service.places import Folder, Place, PostgresDatabase
from tests.campaigns.server import fresh_database
from tests.campaigns.support import LEARNED, SMALL, made
from tests.service.random_acts import Codes, Laboratory, model_cold, model_of, perform, perform_cold
from tests.service.support import in_process

MODELS = {"learned": LEARNED, "given": SMALL}
LOADED_LATE = ["scipy.linalg", "scipy.optimize", "scipy.special", "threadpoolctl", "psycopg"]


@pytest.fixture(scope="module")
def cold() -> Iterator[ProcessPoolExecutor]:
    """Runs every call in a process of its own, whose modules are loaded and nothing else."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.service.random_acts", *LOADED_LATE])
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        yield pool


class Databases:
    """A campaign for the service and one for new processes, in files or on a PostgreSQL server."""

    def __init__(self, folder: Path, server: str | None) -> None:
        self.folder, self.server = folder, server

    @contextlib.contextmanager
    def service(self) -> Iterator[tuple[httpx.Client, Callable[[str], str]]]:
        """A service, and the address of a campaign by its name."""
        place: Place = Folder(self.folder)
        address = str(self.folder / "{}.db").format
        if self.server is not None:
            database = fresh_database(self.server)
            place, address = PostgresDatabase(database), f"{database}#{{}}".format
        with in_process(place) as client:
            yield client, address

    def make(self, where: str, kind: str) -> None:
        name = where if self.server is not None else Path(where).name
        made(self.folder, name, **MODELS[kind]).close()


def compare(where: Databases, cold: ProcessPoolExecutor, kind: str, seeds: range, acts: int) -> None:
    with where.service() as (client, address):
        for seed in seeds:
            warm_name, cold_place = f"warm{seed}", address(f"cold{seed}")
            where.make(address(warm_name), kind)
            where.make(cold_place, kind)
            campaign = RemoteCampaign(Connection(f"{client.base_url}/{warm_name}"))
            try:
                one_sequence([campaign], cold_place, cold, Laboratory(seed), acts)
            finally:
                campaign.close()


def one_sequence(
    campaigns: list[RemoteCampaign],
    place: str,
    cold: ProcessPoolExecutor,
    laboratory: Laboratory,
    acts: int,
) -> None:
    """Acts on one campaign, which one or several services hold, in turn."""
    warm_codes: Codes = {}
    cold_codes: Codes = {}
    for number in range(acts):
        act = laboratory.next()
        warm_new, warm_found = perform(campaigns[number % len(campaigns)], act, warm_codes)
        cold_new, cold_found = cold.submit(perform_cold, place, act, cold_codes).result(120)
        assert warm_found == cold_found, act
        assert warm_new.keys() == cold_new.keys()
        warm_codes |= warm_new
        cold_codes |= cold_new
        laboratory.open += warm_new
    assert laboratory.told, "nothing was told, so nothing was compared"
    found = cold.submit(model_cold, place).result(120)
    assert all(model_of(campaign) == found for campaign in campaigns)


@pytest.mark.parametrize("kind", MODELS)
def test_a_warm_service_equals_new_processes(tmp_path: Path, cold: ProcessPoolExecutor, kind: str) -> None:
    compare(Databases(tmp_path, None), cold, kind, range(1), 14)


@pytest.mark.parametrize("kind", ["learned", pytest.param("given", marks=pytest.mark.slow)])
def test_two_services_that_take_turns_equal_new_processes(
    tmp_path: Path, cold: ProcessPoolExecutor, kind: str
) -> None:
    """What one of them keeps of the model is never what the other one has made of the campaign since."""
    where = Databases(tmp_path, None)
    with where.service() as (one, address), where.service() as (two, _):
        for name in ("warm", "cold"):
            where.make(address(name), kind)
        with contextlib.ExitStack() as open_ones:
            both = [RemoteCampaign(Connection(f"{client.base_url}/warm")) for client in (one, two)]
            for campaign in both:
                open_ones.callback(campaign.close)
            one_sequence(both, address("cold"), cold, Laboratory(77), 14)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_a_warm_service_on_postgresql_equals_new_processes(
    tmp_path: Path, cold: ProcessPoolExecutor, server: str, kind: str
) -> None:
    compare(Databases(tmp_path, server), cold, kind, range(3), 20)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_warm_service_equals_new_processes_in_200_sequences(
    tmp_path: Path, cold: ProcessPoolExecutor, request: pytest.FixtureRequest, database: str, block: int
) -> None:
    """Five sequences each, with a learned model in every other block."""
    server = request.getfixturevalue("server") if database == "postgresql" else None
    first = 1_000 + 5 * block + (500 if server else 0)
    compare(Databases(tmp_path, server), cold, ("learned", "given")[block % 2], range(first, first + 5), 20)
