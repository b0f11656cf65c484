"""The arms chosen do not depend on where the pool is held: shards, threads, worker processes."""

from __future__ import annotations

import pytest
from distributed import Client

from manyarms.engines import Dask, Local
from tests.engines.campaigns import POLICIES, Search

pytestmark = pytest.mark.usefixtures("small_blocks")
ENGINES = [Local(shards=2, threads=1), Local(shards=5, threads=2), Local(shards=16, threads=2)]


def others_than(expected: list[int], search: Search, name: str, engines: list[object]) -> list[str]:
    """The engines that choose other arms."""
    return [repr(engine) for engine in engines if search.arms(name, engine) != expected]


@pytest.mark.parametrize("name", POLICIES)
def test_shards_and_threads(name: str) -> None:
    search = Search(0)
    expected = search.arms(name, Local(shards=1, threads=1))
    assert not others_than(expected, search, name, ENGINES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 10))
@pytest.mark.parametrize("name", POLICIES)
def test_shards_and_threads_on_more_seeds(name: str, seed: int) -> None:
    search = Search(seed)
    expected = search.arms(name, Local(shards=1, threads=1))
    assert not others_than(expected, search, name, ENGINES)


def test_two_worker_processes(client: Client) -> None:
    search = Search(0)
    expected = search.arms("learned", Local(shards=1, threads=1))
    assert not others_than(expected, search, "learned", [Dask(client, shards=5)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", POLICIES)
def test_two_worker_processes_on_more_seeds(client: Client, name: str, seed: int) -> None:
    search = Search(seed)
    expected = search.arms(name, Local(shards=1, threads=1))
    assert not others_than(expected, search, name, [Dask(client), Dask(client, shards=16)])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BKB", "learned"])
def test_blocks_of_the_usual_size(client: Client, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.undo()
    search = Search(3, n_arms=70_000, max_memory=2**29)
    expected = search.arms(name, Local(shards=1, threads=1))
    engines = [Local(shards=2, threads=2), Local(shards=5, threads=1), Dask(client, shards=5)]
    assert not others_than(expected, search, name, engines)
