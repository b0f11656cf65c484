"""Worker processes choose the arms that one process chooses (for shards and threads: test_sharding.py)."""

from __future__ import annotations

import pytest
from distributed import Client

from manyarms.engines import Dask, Local, base
from tests.engines.campaigns import POLICIES, Search

ONE = Local(shards=1, threads=1)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["learned", "per cost", "failing"])
def test_two_worker_processes(client: Client, name: str) -> None:
    search = Search(0)
    assert search.arms(name, Dask(client, shards=5)) == search.arms(name, ONE)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", POLICIES)
def test_any_number_of_shards_on_two_worker_processes(client: Client, name: str, seed: int) -> None:
    search = Search(seed)
    expected = search.arms(name, ONE)
    for shards in (1, 2, 5, 16):
        assert search.arms(name, Dask(client, shards=shards)) == expected, shards


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("storage", ["disk", "recompute"])
def test_other_storage_on_the_workers(client: Client, storage: str) -> None:
    search = Search(1)
    for name in POLICIES:
        engine = Dask(client, shards=5, storage=storage)
        assert search.arms(name, engine) == search.arms(name, ONE), name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BKB", "learned"])
def test_blocks_of_the_usual_size(client: Client, name: str) -> None:
    search = Search(3, n_arms=4 * base.BLOCK + 100, max_memory=2**29)
    assert search.arms(name, Dask(client, shards=5)) == search.arms(name, ONE)
