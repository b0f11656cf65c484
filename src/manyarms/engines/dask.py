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

from manyarms.engines.base import Answers, Keeps, Make, cuts
from manyarms.engines.call_log import CallLog
from manyarms.engines.dask_cluster import Cluster, pack, unpack
from manyarms.engines.outbox import MISSING, Call, Outbox
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
        self._outbox = Outbox()
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
            return self._answered(self._call(method, calls))

    def post(self, method: str, calls: Sequence[tuple[Any, ...]]) -> Answers:
        """Call a method of each shard together with the next call that reads what it makes."""
        with self._lock:
            call = self._call(method, calls)
            self._outbox.add(call)

        def answers() -> list[Any]:
            with self._lock:
                return call.answers if call.is_answered else self._answered(call)

        return answers

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

    def _call(self, method: str, args: Sequence[tuple[Any, ...] | None]) -> Call:
        """A call of this method."""
        return Call(method, args, self._log.packed(args), self._kept(method, args))

    def _kept(self, method: str, calls: Sequence[tuple[Any, ...] | None]) -> Keeps | None:
        """What the call leaves with the shards."""
        if method == "run":
            function = next(args[0] for args in calls if args is not None)
            return getattr(function, "keeps", None)
        return getattr(getattr(self.make, method), "keeps", None)

    def _answered(self, call: Call) -> list[Any]:
        """The answers to a call, after those that wait and must come before it."""
        together = self._outbox.up_to(call)
        if any(each.begins for each in together):  # a good moment: a rebuild takes long anyway
            self.balance()
        if len(together) == 1:
            self._recall(call)
        problem, losses = None, 0
        while problem is None and (waiting := _unanswered(together, len(self._homes))):
            lost, problem = self._ask(together, waiting)
            losses += len(lost)
            if losses > MOST_LOSSES * len(self._homes):
                raise EngineError(
                    f"shards were lost {losses} times during one call: the workers at "
                    f"{self._cluster.address} may have too little memory"
                )
            self._make_all(lost)
        for each in together:
            if each.is_answered:
                self._note(each)
        if problem is not None:
            raise problem
        return call.answers

    def _recall(self, call: Call) -> None:
        """Use the answers that are known already."""
        for i, args in enumerate(call.packed):
            known = None if args is None else self._answers.get((i, call.method, args))
            if known is not None:
                call.answers[i] = unpack(known)[0][0]

    def _note(self, call: Call) -> None:
        """Write a call that was answered into the log, if it left something with the shards."""
        self._outbox.remove(call)
        if call.keeps is not None:
            self._log.record(call.keeps, call.method, call.args, call.packed)

    def _ask(self, together: list[Call], which: list[int]) -> tuple[list[int], Exception | None]:
        """Send some shards the calls that they have not answered.

        Returns the shards that have to be made again, and the problem of a shard, if there is one.
        """
        sent, parts = [], []
        for i in which:
            part = [call for call in together if call.answers[i] is MISSING]
            message = pack(([(call.method, call.packed[i]) for call in part], self._to_forget(i)))
            sent.append(self._cluster.call(self._actors[i], "call", message))
            parts.append(part)
        lost, problems = [], []
        for i, part, whole in zip(which, parts, self._answers_to(sent, which), strict=True):
            if whole is None:
                lost.append(i)
                continue
            answers, problem = unpack(whole)
            for call, answer in zip(part, answers, strict=False):  # there are fewer after a problem
                call.answers[i] = answer
            if len(part) == 1 and problem is None:
                self._remember(i, part[0], whole)
            if isinstance(problem, UnknownVersionError) and self._log.replay(i):
                lost.append(i)
            elif problem is not None:
                problems.append(problem)
        return lost, problems[0] if problems else None

    def _answers_to(self, sent: list[Any], which: list[int]) -> list[Any]:
        return self._cluster.answers(sent, [self._homes[i] for i in which])

    def _remember(self, shard: int, call: Call, answer: bytes) -> None:
        """Keep a small answer that would be the same again: versions are never changed."""
        args, repeatable = call.packed[shard], getattr(getattr(self.make, call.method), "repeatable", False)
        if args is not None and repeatable and len(answer) <= LARGEST_ANSWER:
            self._answers[shard, call.method, args] = answer
            if len(self._answers) > MOST_ANSWERS:
                self._answers.popitem(last=False)

    def _to_forget(self, shard: int) -> list[tuple[str, int]]:
        unsent, self._unsent[shard] = self._unsent[shard], []
        return unsent

    def _take_released(self) -> None:
        """Move what finalizers have released out of the log, and into the next message to each shard.

        What a waiting call reads stays until that call has been made.
        """
        for _ in range(len(self._released)):
            method, number = self._released.popleft()
            name = getattr(self.make, method).forgets, number
            if self._outbox.needs(name):
                self._released.append((method, number))
                continue
            self._outbox.drop(name)
            self._log.forget(*name)
            for unsent in self._unsent:  # some shards may have answered a call that failed elsewhere
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
                for waits in self._outbox:
                    waits.lost(i)
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
                elif (problem := unpack(answer)[1]) is not None:
                    raise problem
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
            return pack(([], None))
        except Exception as problem:
            return _ended([], problem)

    def call(self, message: bytes) -> bytes:
        """Forget what is not needed any more, and call methods of the shard.

        The answer holds theirs, up to the first call that fails, and its problem or None.
        """
        answers: list[Any] = []
        try:
            calls, forgotten = unpack(message)
            if self.shard is None:
                raise UnknownVersionError("this worker does not have the shard any more")
            for release, number in forgotten:
                getattr(self.shard, release)(number)
            for method, packed in calls:
                answers.append(getattr(self.shard, method)(*unpack(packed)))
            return pack((answers, None))
        except Exception as problem:
            return _ended(answers, problem)

    def _forget(self, kind: str, number: int) -> None:
        """Call the method of the shard that forgets things of this kind."""
        for method in dir(type(self.shard)):
            if getattr(getattr(type(self.shard), method), "forgets", None) == kind:
                getattr(self.shard, method)(number)


def _unanswered(calls: Iterable[Call], n_shards: int) -> list[int]:
    """The shards that have not answered all of these calls."""
    return [i for i in range(n_shards) if any(call.answers[i] is MISSING for call in calls)]


def _ended(answers: list[Any], problem: Exception) -> bytes:
    """The answers to the calls before the one that failed, and its problem."""
    with suppress(Exception):
        return pack((answers, problem))
    return pack((answers, EngineError(f"a shard failed: {problem!r}")))


def _bare(pool: Pool) -> Pool:
    """A pool without ids, which shards do not need."""
    if not pool.has_ids:
        return pool
    other = copy.copy(pool)
    other._ids = None
    return other
