"""Shards in this process, each on its own thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

from manyarms.engines.base import Answers, Make, cuts
from manyarms.errors import InvalidParameterError
from manyarms.pool.pool import Pool
from manyarms.support.column_room import ColumnRoom, StorageSettings
from manyarms.support.threads import LARGE_POOL, one_thread
from manyarms.support.validation import count


class Local:
    """Shards in this process. The arms chosen depend neither on their number nor on threads nor on `storage`.

    shards: how many ranges the pool is cut into; by default as many as threads for 100 000 arms or more, and
        one for fewer arms.
    threads: how many of them are worked on at the same time; by default, the number of cores.
    storage: where the columns of the posterior live, which take most of the memory. "memory"; "disk", in
        temporary files; "recompute", nowhere: they are computed again at each use. "auto" uses memory while
        there is room, then files, and computes them again if a usual sketch fits into neither. It says so in
        the log and in `in_use()`.
    folder: for the files; by default the folder named by TMPDIR, or /var/tmp. They have no names, and vanish
        with the process.
    memory: the bytes that columns may take in memory before "auto" uses files; by default 60 % of what is
        available when the first are made.
    """

    def __init__(
        self,
        shards: int | None = None,
        threads: int | None = None,
        *,
        storage: str = "auto",
        folder: str | Path | None = None,
        memory: int | None = None,
    ) -> None:
        self.shards = None if shards is None else count("shards", shards)
        self.threads = None if threads is None else count("threads", threads)
        if folder is not None and not os.access(folder, os.W_OK | os.X_OK):
            raise InvalidParameterError("folder", folder, "a folder that can be written to")
        settings = StorageSettings(storage, None if folder is None else str(folder), memory)
        self.room = ColumnRoom(settings)
        self._executor: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return f"Local(shards={self.shards}, threads={self.threads}, {self.room.settings})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_executor": None}

    def in_use(self) -> str:
        """One sentence: where the columns of all runs on this engine are at present."""
        return self.room.in_use()

    def place(self, pool: Pool, make: Make) -> LocalShards:
        """The shards of a pool."""
        wanted = self.shards or (self._n_threads() if pool.n_arms >= LARGE_POOL else 1)
        return LocalShards(self, pool, make, cuts(pool.n_arms, wanted))

    def run(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run independent tasks, at most `threads` at a time, each with one thread for its linear algebra."""
        if len(tasks) == 1 or self._n_threads() == 1:
            return [task() for task in tasks]
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._n_threads(), thread_name_prefix="manyarms-shard")
        with one_thread():
            return list(self._executor.map(lambda task: task(), tasks))

    def _n_threads(self) -> int:
        return self.threads or os.cpu_count() or 1


class LocalShards:
    """The shards of one pool in this process."""

    def __init__(self, engine: Local, pool: Pool, make: Make, starts: list[int]) -> None:
        self.engine, self.starts, self._make = engine, starts, make
        self.shards = [make(pool.part(*ends), ends[0], engine.room) for ends in pairwise(starts)]

    def each(self, method: str, calls: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of each shard with its own arguments; None leaves a shard out."""
        if len(calls) == 1:
            return [None if calls[0] is None else getattr(self.shards[0], method)(*calls[0])]
        wanted = [(i, args) for i, args in enumerate(calls) if args is not None]
        found: list[Any] = [None] * len(calls)
        results = self.engine.run([_Call(self.shards[i], method, args) for i, args in wanted])
        for (i, _), result in zip(wanted, results, strict=True):
            found[i] = result
        return found

    def post(self, method: str, calls: Sequence[tuple[Any, ...]]) -> Answers:
        """Call a method of each shard; there is nothing to gain from waiting."""
        return self.each(method, calls).copy  # a bound method can be pickled

    def release(self, method: str, number: int) -> None:
        """Let every shard forget what has this number."""
        for shard in self.shards:
            getattr(shard, method)(number)

    def extended(self, pool: Pool) -> LocalShards:
        """The shards of a larger pool that begins with the present arms."""
        return self.engine.place(pool, self._make)


class _Call:
    """One call, as a task."""

    def __init__(self, shard: Any, method: str, args: tuple[Any, ...]) -> None:
        self.shard, self.method, self.args = shard, method, args

    def __call__(self) -> Any:
        return getattr(self.shard, self.method)(*self.args)


DEFAULT = Local()
