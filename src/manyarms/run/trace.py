"""The trace of a run: the batch as it is handed out, and one record per batch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from manyarms.support.append_log import AppendLog
from manyarms.support.frozen import changed
from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True)
class Batch:
    """Arms to evaluate, in any order. A ticket stands for one pull of one arm.

    `arms` holds the indices of the arms, `ids` their ids and `tickets` one ticket for each. `ended_because`
    is the reason why the batch ended. `ratio` is a bound on the factor by which any variance has shrunk since
    the last feedback (at most about BBKB's C̃ unless a size was asked for). `why` is the reason for each arm:
    "random start" (uniformly at random, before there are results), "initial design", "upper bound",
    "exploration", "final batch", "Thompson draw", "highest mean", "highest variance" (the initialisation of
    GP-BUCB), "gain per cost", or "requested" (the size asked for needs every arm that has not been tried).
    Of an arm that failed before, the reason ends with ", again after a failure".
    `costs` holds what each pull costs, in a run with costs.
    """

    arms: Ints
    ids: list[Any]
    tickets: Ints
    ended_because: str
    ratio: float
    why: tuple[str, ...] = ()
    costs: Floats | None = None

    def __len__(self) -> int:
        return len(self.arms)

    def __iter__(self) -> Iterator[int]:
        return iter(self.arms.tolist())


@dataclass(frozen=True)
class BatchRecord:
    """A batch in the trace, with the results recorded so far.

    `rewards` is NaN for pulls without a result; `failed` marks failed trials. `dictionary_size` is the size m
    of the sketch. `width` is β at the last feedback, before it is widened for a batch of a given size or
    narrowed for a final batch. `effective_dimension` is d_eff at the last feedback. `seconds` is the time
    that it took to choose the batch. The other fields are those of `Batch`.
    """

    arms: Ints
    tickets: Ints
    rewards: Floats
    failed: np.ndarray[tuple[int], np.dtype[np.bool_]]
    dictionary_size: int
    width: float
    effective_dimension: float
    ended_because: str
    ratio: float
    seconds: float
    why: tuple[str, ...] = ()


_PER_BATCH = ("dictionary_size", "width", "effective_dimension", "ratio", "seconds")


@dataclass(frozen=True)
class Trace:
    """All batches of a run and the results of their tickets, as an immutable value.

    The batches are stored as they were handed out, without results; `records` combines the two.
    """

    batches: AppendLog[BatchRecord] = field(default_factory=AppendLog)
    results: AppendLog[tuple[int, float, bool]] = field(default_factory=AppendLog)  # ticket, reward, failed

    def with_batch(self, record: BatchRecord) -> Trace:
        """The trace with one more batch."""
        longer, known = changed(self, batches=self.batches.added([record])), vars(self).get("records")
        if known is not None:
            vars(longer)["records"] = [*known, record]
        return longer

    def with_results(self, tickets: list[int], rewards: Floats, failed: Any) -> Trace:
        """The trace with the results of these tickets."""
        told = list(zip(tickets, rewards.tolist(), failed.tolist(), strict=True))
        longer, known = changed(self, results=self.results.added(told)), vars(self).get("records")
        if known is not None:
            vars(longer)["records"] = _with_results(known, told)
        return longer

    @cached_property
    def records(self) -> list[BatchRecord]:
        """The batches with the results recorded so far. Records are never modified afterwards.

        Once they have been read, longer traces bring them up to date instead of combining everything again.
        """
        if not len(self.batches):
            return []
        first, last = int(self.batches[0].tickets[0]), int(self.batches[-1].tickets[-1])
        rewards, failed = np.full(last + 1 - first, np.nan), np.zeros(last + 1 - first, dtype=bool)
        for ticket, reward, lost in self.results:
            if ticket >= first:  # earlier tickets belong to batches that are not in this trace
                rewards[ticket - first], failed[ticket - first] = reward, lost
        rewards.flags.writeable = failed.flags.writeable = False
        records = []
        for record in self.batches:
            own = slice(int(record.tickets[0]) - first, int(record.tickets[-1]) + 1 - first)
            records.append(replace(record, rewards=rewards[own], failed=failed[own]))
        return records

    def to_plain(self) -> dict[str, Any]:
        """The trace by columns: numbers as arrays, strings as lists."""
        batches, results = list(self.batches), list(self.results)
        return {
            "sizes": np.array([len(record.arms) for record in batches], dtype=np.int64),
            "arms": _joined([record.arms for record in batches]),
            "tickets": _joined([record.tickets for record in batches]),
            **{name: np.array([getattr(record, name) for record in batches]) for name in _PER_BATCH},
            "ended_because": [record.ended_because for record in batches],
            "why": [list(record.why) for record in batches],
            "told_tickets": np.array([ticket for ticket, _, _ in results], dtype=np.int64),
            "told_rewards": np.array([reward for _, reward, _ in results], dtype=np.float64),
            "told_failed": np.array([failed for _, _, failed in results], dtype=bool),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Trace:
        """The trace that `to_plain` wrote."""
        ends, records = np.cumsum(plain["sizes"]), []
        for i, (start, end) in enumerate(zip(ends - plain["sizes"], ends, strict=True)):
            numbers = {name: plain[name][i].item() for name in _PER_BATCH}
            records.append(
                unanswered(
                    read_only(plain["arms"][start:end]),
                    read_only(plain["tickets"][start:end]),
                    ended_because=plain["ended_because"][i],
                    why=tuple(plain["why"][i]),
                    **numbers,
                )
            )
        columns = (plain[f"told_{name}"].tolist() for name in ("tickets", "rewards", "failed"))
        return cls(AppendLog(records), AppendLog(zip(*columns, strict=True)))


def _with_results(records: list[BatchRecord], told: list[tuple[int, float, bool]]) -> list[BatchRecord]:
    """The records with these results; tickets of earlier batches than the first are ignored."""
    updated: dict[int, BatchRecord] = {}
    for ticket, reward, lost in told:
        place = bisect_right(records, ticket, key=lambda record: int(record.tickets[0])) - 1
        if place < 0:
            continue
        if place not in updated:
            record = records[place]
            updated[place] = replace(record, rewards=record.rewards.copy(), failed=record.failed.copy())
        own = ticket - int(records[place].tickets[0])
        updated[place].rewards[own], updated[place].failed[own] = reward, lost
    for record in updated.values():
        read_only(record.rewards)
        read_only(record.failed)
    return [updated.get(place, record) for place, record in enumerate(records)] if updated else records


def read_only(array: Any) -> Any:
    """The same array, which can no longer be written to."""
    array.flags.writeable = False
    return array


def unanswered(arms: Ints, tickets: Ints, **facts: Any) -> BatchRecord:
    """The record of a batch without any results yet; `facts` are the other fields."""
    rewards, failed = np.full(len(arms), np.nan), np.zeros(len(arms), dtype=bool)
    return BatchRecord(arms, tickets, read_only(rewards), read_only(failed), **facts)


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
