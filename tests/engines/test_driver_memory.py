"""What the driver holds does not grow with the pool: it is counted while the shards live elsewhere."""

from __future__ import annotations

import multiprocessing
import pickle
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import manyarms as ma
from manyarms.engines.base import cuts
from manyarms.support.column_room import ColumnRoom, StorageSettings

SMALL, LARGE = 1 << 17, 1 << 19  # pools in which the contest for the highest bound reaches its limit
KERNEL = ma.RBF(0.5)
POLICIES = {
    "BKB": ma.BKB(kernel=KERNEL, noise_std=0.1),
    "BBKB": ma.BBKB(kernel=KERNEL, noise_std=0.1),
    "BBKB local": ma.BBKB(kernel=KERNEL, noise_std=0.1, local=True),
    "GPBUCB": ma.GPBUCB(kernel=KERNEL, noise_std=0.1),
    "learned": None,
}


class OtherProcess:
    """An engine whose shards live in a child process, which this process reaches through a pipe only."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def place(self, pool: ma.Pool, make: Callable[..., Any]) -> _Shards:
        starts = cuts(pool.n_arms, 3)
        parts = [(make, pool.part(*ends), ends[0]) for ends in pairwise(starts)]
        tracing = tracemalloc.is_tracing()
        tracemalloc.stop()  # sending the features once is not what is counted
        first = self.answer("make", parts)
        if tracing:
            tracemalloc.start()
        return _Shards(self, starts, first)

    def answer(self, what: str, message: Any) -> Any:
        self._connection.send_bytes(pickle.dumps((what, message)))
        failed, found = pickle.loads(self._connection.recv_bytes())
        if failed:
            raise found
        return found


class _Shards:
    def __init__(self, engine: OtherProcess, starts: list[int], first: int) -> None:
        self.engine, self.starts, self._first = engine, starts, first
        self._released: list[tuple[str, int]] = []

    def each(self, method: str, calls: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        released, self._released = self._released, []
        return self.engine.answer("call", (self._first, method, list(calls), released))

    def post(self, method: str, calls: Sequence[tuple[Any, ...]]) -> Callable[[], list[Any]]:
        return self.each(method, calls).copy

    def release(self, method: str, number: int) -> None:
        self._released.append((method, number))


def _serve(connection: Any) -> None:
    shards: list[Any] = []
    while True:
        try:
            what, message = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        try:
            if what == "make":
                found: Any = len(shards)
                room = ColumnRoom(StorageSettings("memory"))
                shards += [make(part, first, room) for make, part, first in message]
            else:
                first, method, calls, released = message
                here = shards[first : first + len(calls)]
                for shard in here:
                    for release, number in released:
                        getattr(shard, release)(number)
                pairs = zip(here, calls, strict=True)
                found = [None if args is None else getattr(shard, method)(*args) for shard, args in pairs]
            connection.send_bytes(pickle.dumps((False, found)))
        except Exception as problem:
            connection.send_bytes(pickle.dumps((True, problem)))


@contextmanager
def elsewhere() -> Iterator[OtherProcess]:
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_serve, args=(theirs,), daemon=True)
    child.start()
    theirs.close()
    try:
        yield OtherProcess(ours)
    finally:
        ours.close()
        child.join(10)


def peak(n_arms: int, policy: ma.Policy | None) -> int:
    """The largest number of bytes that the driver has allocated during a run, without the user's features."""
    features = np.random.default_rng(0).random((n_arms, 3), dtype=np.float32)
    pool = ma.Pool(features, max_memory=1 << 20)
    with elsewhere() as engine:
        opt = ma.Optimizer(pool, policy, seed=1, storage="float32", engine=engine)
        rng = np.random.default_rng(2)
        tracemalloc.start()
        try:
            for size in (8, 20, 1, None):
                batch = opt.ask(size, at_most=None if size else 20)
                values = np.sin(5 * features[batch.arms, 0]) + 0.1 * rng.normal(size=len(batch))
                opt.tell(batch.tickets[1:], values[1:])
            opt.best()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_the_driver_of_a_larger_pool_allocates_no_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyarms.choice.lazy_argmax.MOST_WATCHED", 1024)
    peak(1 << 14, POLICIES[name])  # imports what is imported at first use
    small, large = peak(SMALL, POLICIES[name]), peak(LARGE, POLICIES[name])
    assert large < small + 4 * (LARGE - SMALL)  # half of a single array over the arms
