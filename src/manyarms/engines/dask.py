"""Shards on the workers of a Dask cluster.

Each shard lives in an actor, which answers one call at a time. Neither Dask nor a worker can bring back an
actor that was lost. The driver therefore keeps the log of calls since the last rebuild (`call_log.py`), and
makes a lost shard again on another worker: from its part of the pool and the log, to the same numbers.
"""

from __future__ import annotations

import copy
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any

from manyarms.engines.base import Keeps, Make, cuts
from manyarms.engines.call_log import CallLog
from manyarms.engines.dask_cluster import Cluster, pack, unpack
from manyarms.errors import EngineError, UnknownVersionError
from manyarms.pool.pool import Pool
from manyarms.support.column_room import StorageSettings, room_of_process
from manyarms.support.validation import count

SHARDS_PER_WORKER = 2  # by default, so that a worker that joins later can take over some of them
MOST_ANSWERS, LARGEST_ANSWER = 256, 1 << 16  # remembered, in bytes each; a step asks for some arms repeatedly
MOST_LOSSES = 8  # of shards in a row during one call, before the call fails


class Dask:
    """Shards on the workers of a Dask cluster; the arms chosen are those of one process.

    client: a `distributed.Client`, connected to the scheduler.
    shards: how many ranges the pool is cut into; by default two for each worker that is present when the
        pool is placed.
    insecure: allow a connection without TLS to another machine. Pool, rewards and model then cross the
        network in clear text, and everyone who can reach the scheduler can run programs on the workers.
    timeout: how many seconds to wait for a worker when there is none.
    storage, folder: where workers keep columns, as for `manyarms.engines.Local`; each decides by itself.
    """

    def __init__(
        self,
        client: Any,
        shards: int | None = None,
        *,
        insecure: bool = False,
        timeout: float = 60.0,
        storage: str = "memory",
        folder: str | None = None,
    ) -> None:
        self.storage = StorageSettings(storage, folder)
        self.shards = None if shards is None else count("shards", shards)
        self.cluster = Cluster(client, insecure, timeout)
        self._placed: weakref.WeakKeyDictionary[Pool, weakref.ref[DaskShards]] = weakref.WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"Dask({self.cluster.address!r}, shards={self.shards})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Dask:
        return self  # a connection cannot be copied

    def __reduce__(self) -> Any:
        raise TypeError("a run on Dask cannot be pickled; save it with Optimizer.save")

    def place(self, pool: Pool, make: Make) -> DaskShards:
        """The shards of a pool. A pool that is in use on this cluster is not sent again."""
        known = self._placed.get(pool)
        shards = None if known is None else known()
        if shards is not None and shards.make is make:
            shards.balance()
            return shards
        workers = self.cluster.workers()
        wanted = self.shards or SHARDS_PER_WORKER * len(workers)
        shards = DaskShards(self, pool, make, cuts(pool.n_arms, wanted))
        self._placed[pool] = weakref.ref(shards)
        return shards


class DaskShards:
    """The shards of one pool on a cluster."""

    def __init__(self, engine: Dask, pool: Pool, make: Make, starts: list[int]) -> None:
        self.engine, self.starts, self.make = engine, starts, make
        self._pool, self._cluster = pool, engine.cluster
        self._lock = RLock()
        self._log = CallLog(pack)
        self._answers: OrderedDict[tuple[int, str, bytes], bytes] = OrderedDict()
        self._released: deque[tuple[str, int]] = deque()  # appended by finalizers, at any moment
        self._unsent: list[list[tuple[str, int]]] = [
            [] for _ in starts[1:]
        ]  # for each shard, to be forgotten
        self._actors: list[Any] = [None] * (len(starts) - 1)
        self._homes: list[str] = [""] * (len(starts) - 1)  # addresses of workers
        self._make_all(range(len(starts) - 1))

    def __deepcopy__(self, memo: dict[int, Any]) -> DaskShards:
        return self  # versions are never changed, so copies of a run can share them

    def __reduce__(self) -> Any:
        raise TypeError("a run on Dask cannot be pickled; save it with Optimizer.save")

    @property
    def homes(self) -> list[str]:
        """The address of the worker that holds each shard."""
        return list(self._homes)

    def each(self, method: str, calls: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of each shard with its own arguments; None leaves a shard out."""
        with self._lock:
            self._take_released()
            kept = self._kept(method, calls)
            if kept is not None and kept.begins is not None:  # a good moment: a rebuild takes long anyway
                self.balance()
            packed = self._log.packed(calls)
            found: list[Any] = [None] * len(calls)
            waiting = []
            for i, args in enumerate(packed):
                known = None if args is None else self._answers.get((i, method, args))
                if known is not None:
                    found[i] = unpack(known)[1]
                elif args is not None:
                    waiting.append(i)
            losses = 0
            while waiting:
                lost = self._ask(method, packed, waiting, found)
                losses += len(lost)
                if losses > MOST_LOSSES * len(calls):
                    raise EngineError(
                        f"shards were lost {losses} times during one call: the workers at "
                        f"{self._cluster.address} may have too little memory"
                    )
                self._make_all(lost)
                waiting = lost
            if kept is not None:
                self._log.record(kept, method, calls, packed)
            return found

    def release(self, method: str, number: int) -> None:
        """Let every shard forget what has this number, together with the next call."""
        self._released.append((method, number))

    def extended(self, pool: Pool) -> DaskShards:
        """The shards of a larger pool that begins with the present arms."""
        return self.engine.place(pool, self.make)

    def balance(self) -> None:
        """Move shards to workers that have fewer of them, such as workers that joined later."""
        with self._lock:
            self._take_released()
            load = Counter(dict.fromkeys(self._cluster.workers(), 0))
            load.update(self._homes)
            moved = []
            for i, home in enumerate(self._homes):
                least = min(load, key=lambda worker: (load[worker], worker))
                if load[home] - load[least] >= 2:
                    load[home] -= 1
                    load[least] += 1
                    moved.append(i)
            self._make_all(moved)

    # ------------------------------------------------------------------ calls

    def _kept(self, method: str, calls: Sequence[tuple[Any, ...] | None]) -> Keeps | None:
        """What the call leaves with the shards."""
        if method == "run":
            function = next(args[0] for args in calls if args is not None)
            return getattr(function, "keeps", None)
        return getattr(getattr(self.make, method), "keeps", None)

    def _ask(self, method: str, packed: list[bytes | None], which: list[int], found: list[Any]) -> list[int]:
        """Call some shards and store their answers; returns those that have to be made again."""
        sent = []
        for i in which:
            message = pack((method, packed[i], self._to_forget(i)))  # Dask takes longer for three arguments
            sent.append(self._cluster.call(self._actors[i], "call", message))
        lost, problems = [], []
        for i, whole in zip(which, self._answers_to(sent, which), strict=True):
            if whole is None:
                lost.append(i)
                continue
            kind, result = unpack(whole)
            if kind == "answer":
                found[i] = result
                self._remember(i, method, packed[i], whole)
            elif isinstance(result, UnknownVersionError) and self._log.replay(i):
                lost.append(i)
            else:
                problems.append(result)
        if problems:
            raise problems[0]
        return lost

    def _answers_to(self, sent: list[Any], which: list[int]) -> list[Any]:
        return self._cluster.answers(sent, [self._homes[i] for i in which])

    def _remember(self, shard: int, method: str, args: bytes | None, answer: bytes) -> None:
        """Keep a small answer that would be the same again: versions are never changed."""
        repeatable = getattr(getattr(self.make, method), "repeatable", False)
        if args is not None and repeatable and len(answer) <= LARGEST_ANSWER:
            self._answers[shard, method, args] = answer
            if len(self._answers) > MOST_ANSWERS:
                self._answers.popitem(last=False)

    def _to_forget(self, shard: int) -> list[tuple[str, int]]:
        unsent, self._unsent[shard] = self._unsent[shard], []
        return unsent

    def _take_released(self) -> None:
        """Move what finalizers have released out of the log, and into the next message to each shard."""
        while self._released:
            method, number = self._released.popleft()
            self._log.forget(getattr(self.make, method).forgets, number)
            for unsent in self._unsent:
                unsent.append((method, number))

    # ------------------------------------------------------------------ making shards

    def _make_all(self, which: Iterable[int]) -> None:
        """Make these shards, from their part of the pool and the log; they may have been elsewhere before."""
        waiting, losses = list(which), 0
        while waiting:
            self._choose_homes(waiting)
            homes = [self._homes[i] for i in waiting]
            for i, actor in zip(waiting, self._cluster.actors(ShardHost, homes), strict=True):
                self._actors[i] = actor
            sent = []
            for i in waiting:
                self._unsent[i] = []
                part = _bare(self._pool.part(self.starts[i], self.starts[i + 1]))
                call = self._cluster.call(
                    self._actors[i],
                    "hold",
                    self.make,
                    part,
                    self.starts[i],
                    self._log.replay(i),
                    self.engine.storage,
                )
                sent.append(call)
            lost = []
            for i, answer in zip(waiting, self._answers_to(sent, waiting), strict=True):
                if answer is None:
                    lost.append(i)
                elif (outcome := unpack(answer))[0] != "answer":
                    raise outcome[1]
            losses += len(lost)
            if losses > MOST_LOSSES * len(self._homes):
                raise EngineError(
                    f"shards could not be placed on the workers at {self._cluster.address}: they were lost "
                    f"{losses} times; the workers may have too little memory"
                )
            waiting = lost

    def _choose_homes(self, which: list[int]) -> None:
        """Give these shards to the workers that have the fewest."""
        load = Counter(dict.fromkeys(self._cluster.workers(), 0))
        staying = [home for i, home in enumerate(self._homes) if i not in which and home in load]
        load.update(staying)
        for i in which:
            self._homes[i] = min(load, key=lambda worker: (load[worker], worker))
            load[self._homes[i]] += 1


class ShardHost:
    """The actor: one shard and the calls to it. Errors of the shard are answers, not faults of the worker."""

    shard: Any = None

    def hold(
        self,
        make: Make,
        part: Pool,
        first: int,
        calls: list[tuple[str, bytes]],
        storage: StorageSettings,
    ) -> bytes:
        """Make the shard, and repeat the calls that made what it kept."""
        try:
            self.shard = make(part, first, room_of_process(storage))
            for method, packed in calls:
                if method == "forget":
                    self._forget(*unpack(packed))
                else:
                    getattr(self.shard, method)(*unpack(packed))
            return pack(("answer", None))
        except Exception as problem:
            return _problem(problem)

    def call(self, message: bytes) -> bytes:
        """Forget what is not needed any more, and call a method of the shard."""
        try:
            method, packed, forgotten = unpack(message)
            if self.shard is None:
                raise UnknownVersionError("this worker does not have the shard any more")
            for release, number in forgotten:
                getattr(self.shard, release)(number)
            return pack(("answer", getattr(self.shard, method)(*unpack(packed))))
        except Exception as problem:
            return _problem(problem)

    def _forget(self, kind: str, number: int) -> None:
        """Call the method of the shard that forgets things of this kind."""
        for method in dir(type(self.shard)):
            if getattr(getattr(type(self.shard), method), "forgets", None) == kind:
                getattr(self.shard, method)(number)


def _problem(problem: Exception) -> bytes:
    with suppress(Exception):
        return pack(("problem", problem))
    return pack(("problem", EngineError(f"a shard failed: {problem!r}")))


def _bare(pool: Pool) -> Pool:
    """A pool without ids, which shards do not need."""
    if not pool.has_ids:
        return pool
    other = copy.copy(pool)
    other._ids = None
    return other
