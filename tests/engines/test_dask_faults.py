"""Workers that are killed, join late or lose a shard; a scheduler that is gone; unsafe addresses."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster

import manyarms as ma
from manyarms.engines import Dask, Local
from manyarms.engines.dask import ShardHost
from manyarms.engines.dask_cluster import Cluster, check_safe
from manyarms.errors import EngineError, InvalidParameterError, SchedulerLostError
from tests.engines.campaigns import Search

pytestmark = pytest.mark.usefixtures("small_blocks")
SIZES = (4, 6, 25, 1, 1, 2)
KILLS = {"learned": 12, "BBKB local": 9, "SGPTS": 9}  # 30 in all
OPTIONS = {"threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}


def worker_pids(client: Client) -> list[int]:
    """The processes of the workers; those that were just killed do not answer."""
    while not (found := [pid for pid in client.run(os.getpid, on_error="ignore").values() if pid]):
        time.sleep(0.2)
    return found


def wait_for_both(cluster: LocalCluster, client: Client) -> None:
    """Wait for two workers. Dask gives up one that is killed while it starts, so another takes its place."""
    for _ in range(10):
        try:
            return client.wait_for_workers(2, timeout=30)
        except TimeoutError:
            cluster.scale(1)  # drops the one that is missing
            cluster.scale(2)
    return client.wait_for_workers(2, timeout=30)


def kill(pid: int, killed: list[int]) -> None:
    """Kill a process and note it, unless it has ended by itself meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)


def shards_of(opt: ma.Optimizer):
    return opt.posterior.state.over_pool.shards


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SGPTS", "per cost"])
def test_a_shard_that_forgot_everything_is_told_again(client: Client, name: str) -> None:
    search = Search(1)
    expected = search.arms(name, Local(), sizes=(3, 3, 3))
    opt = search.start(name, Dask(client, shards=3))
    arms = search.step(opt, 3) + search.step(opt, 3)
    shards = shards_of(opt)
    before = list(shards._actors)
    shards._actors[1] = shards._cluster.actors(ShardHost, [shards.homes[1]])[0]  # an actor without its shard
    arms += search.step(opt, 3)
    assert arms == expected
    assert shards._actors[1] is not before[1]


@pytest.mark.slow
def test_a_worker_lost_before_its_shard_was_made_is_noticed_at_once(client: Client) -> None:
    """Dask restarts a killed worker at another address, so nothing would ever be made at the old one."""
    cluster, alive = Cluster(client, timeout=600, insecure=False), sorted(client.scheduler_info()["workers"])
    began = time.monotonic()
    made = cluster.actors(ShardHost, [alive[0], "tcp://127.0.0.1:1"])
    assert time.monotonic() - began < 120
    assert made[0] is not None
    assert made[1] is None


@pytest.mark.slow
def test_a_worker_killed_three_times() -> None:
    killed_at_random_moments("BBKB local", 3)


@pytest.mark.soak
@pytest.mark.parametrize("name", KILLS)
def test_workers_killed_at_random_moments(name: str) -> None:
    killed_at_random_moments(name, KILLS[name])


def killed_at_random_moments(name: str, wanted: int) -> None:
    """In each run a worker is killed at a random moment; runs that ended before that moment do not count."""
    search, sizes = Search(2), (4, 25, 1, 2)
    expected = search.arms(name, Local(), sizes)
    rng, kills, runs = np.random.default_rng(5), 0, 0
    with LocalCluster(n_workers=2, **OPTIONS) as cluster, Client(cluster) as client:
        engine = Dask(client, shards=4, timeout=300)
        seconds = 10.0
        while kills < wanted:
            wait_for_both(cluster, client)
            killed: list[int] = []
            pid = int(rng.choice(worker_pids(client)))
            timer = threading.Timer(rng.uniform(0.0, 0.8 * seconds), kill, (pid, killed))
            started = time.monotonic()
            timer.start()
            assert search.arms(name, engine, sizes) == expected
            timer.cancel()
            if not killed:
                seconds = time.monotonic() - started  # that an undisturbed run takes
            kills, runs = kills + len(killed), runs + 1
            timer.join()
            assert runs < 10 * wanted


@pytest.mark.slow
def test_a_worker_that_joins_late_is_used() -> None:
    search = Search(3)
    expected = search.arms("learned", Local())
    with LocalCluster(n_workers=1, **OPTIONS) as cluster, Client(cluster) as client:
        opt = search.start("learned", Dask(client, shards=4))
        arms = [arm for size in SIZES[:2] for arm in search.step(opt, size)]
        assert len(set(shards_of(opt).homes)) == 1
        cluster.scale(2)
        client.wait_for_workers(2, timeout=60)
        arms += [arm for size in SIZES[2:] for arm in search.step(opt, size)]
        shards_of(opt).balance()  # a refit or a rebuild does this too
        assert sorted(np.unique(shards_of(opt).homes, return_counts=True)[1].tolist()) == [2, 2]
        assert arms == expected
        assert search.step(opt, 3)


@pytest.mark.slow
def test_the_scheduler_is_gone_and_the_run_continues_elsewhere(tmp_path: Path) -> None:
    search, saved = Search(4), tmp_path / "run"
    expected = search.arms("learned", Local())
    cluster = LocalCluster(n_workers=2, **OPTIONS)
    client = Client(cluster)
    opt = search.start("learned", Dask(client))
    arms = [arm for size in SIZES[:3] for arm in search.step(opt, size)]
    opt.save(saved)
    before = opt.history.pulls
    cluster.close()
    with pytest.raises(SchedulerLostError, match="does not answer"):
        opt.ask(3)
    assert opt.history.pulls == before
    client.close()
    again = ma.Optimizer.load(saved, engine=Local(shards=3))
    assert arms + [arm for size in SIZES[3:] for arm in search.step(again, size)] == expected


@pytest.mark.slow
def test_a_run_saved_in_one_process_continues_on_a_cluster(client: Client, tmp_path: Path) -> None:
    search, saved = Search(6), tmp_path / "run"
    for name in ("learned", "SGPTS"):
        expected = search.arms(name, Local())
        opt = search.start(name, Local(shards=2))
        arms = [arm for size in SIZES[:3] for arm in search.step(opt, size)]
        opt.save(saved)
        again = ma.Optimizer.load(saved, engine=Dask(client, shards=3))
        arms += search.step(again, SIZES[3])
        shards = shards_of(again)
        shards._actors[0] = None  # lost: made again from what the file contained
        assert arms + [arm for size in SIZES[4:] for arm in search.step(again, size)] == expected


@pytest.mark.slow
def test_versions_that_nothing_refers_to_are_forgotten(client: Client) -> None:
    search = Search(7)
    opt = search.start("BKB", Dask(client, shards=2))
    for _ in range(12):
        search.step(opt, 1)
    gc.collect()
    shards = shards_of(opt)
    kept = shards.each("run", [(_versions, opt.posterior.state.over_pool.number)] * 2)
    assert max(kept) <= 4


def _versions(shard, version) -> int:
    return len(shard.versions)


@pytest.mark.slow
def test_a_pool_in_use_is_not_sent_again(client: Client) -> None:
    search, engine = Search(8), Dask(client, shards=2)
    opt = search.start("BKB", engine)
    actors = list(shards_of(opt)._actors)
    other = search.start("BKB", engine)
    assert shards_of(other)._actors == actors


@pytest.mark.slow
def test_an_error_in_a_shard_is_the_error_of_the_call(client: Client) -> None:
    class Broken(ma.RBF):
        def diag(self, X):
            return np.full(len(X), -1.0)

    with pytest.raises(ma.errors.InvalidKernelError, match="a variance must be"):
        ma.Optimizer(Search(9).pool, ma.BKB(kernel=Broken(1.0), noise_std=0.1), engine=Dask(client))


@pytest.mark.parametrize("client", [None, "tcp://127.0.0.1:8786"])
def test_something_else_than_a_client_is_refused(client: object) -> None:
    with pytest.raises(InvalidParameterError, match=r"client must be a distributed\.Client"):
        Dask(client)


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "tcp://[2001:db8::1]:8786", "ws://node:80"])
def test_an_address_without_encryption_is_refused(address: str) -> None:
    with pytest.raises(EngineError, match="not encrypted"):
        check_safe(address, insecure=False)
    check_safe(address, insecure=True)


@pytest.mark.parametrize(
    "address",
    ["tls://10.0.0.1:8786", "tcp://127.0.0.1:1", "tcp://[::1]:1", "tcp://localhost:1", "inproc://a/1"],
)
def test_a_safe_address_is_accepted(address: str) -> None:
    check_safe(address, insecure=False)
