"""What a run did: the batch as it is handed out, and one record per batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from manyarms.support.append_log import AppendLog
from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True)
class Batch:
    """Arms to evaluate now, in any order, anywhere. A ticket stands for one pull of one arm.

    `ended_because` names the rule that closed the batch; `ratio` is how far, at its end, some variance
    may have shrunk since the last feedback (BBKB's C̃ bounds it unless a size was asked for). `why` says for
    each arm what chose it: "initial design", "upper bound", "exploration", "final batch", "Thompson draw",
    "highest mean", or "requested" (the size asked for needs every arm that has not been tried).
    """

    arms: Ints
    ids: list[Any]
    tickets: Ints
    ended_because: str
    ratio: float
    why: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.arms)

    def __iter__(self) -> Iterator[int]:
        return iter(self.arms.tolist())


@dataclass(frozen=True)
class BatchRecord:
    """A batch in the trace. Rewards are NaN where none had been told; `failed` marks trials that gave none.

    `width` is β at the last feedback, before a batch of a given size widens it or a final batch narrows it.
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
    """All batches of a run and the results of their tickets; an ask or a told result makes a longer one.

    The batches are kept as they were handed out, without results; `records` puts the two together.
    """

    batches: AppendLog[BatchRecord] = field(default_factory=AppendLog)
    results: AppendLog[tuple[int, float, bool]] = field(default_factory=AppendLog)  # ticket, reward, failed

    def with_batch(self, record: BatchRecord) -> Trace:
        """One batch more."""
        return replace(self, batches=self.batches.added([record]))

    def with_results(self, tickets: list[int], rewards: Floats, failed: Any) -> Trace:
        """The results of some tickets more."""
        told = zip(tickets, rewards.tolist(), failed.tolist(), strict=True)
        return replace(self, results=self.results.added(told))

    @cached_property
    def records(self) -> list[BatchRecord]:
        """The batches so far with the results told so far. A record never changes."""
        if not len(self.batches):
            return []
        first, last = int(self.batches[0].tickets[0]), int(self.batches[-1].tickets[-1])
        rewards, failed = np.full(last + 1 - first, np.nan), np.zeros(last + 1 - first, dtype=bool)
        for ticket, reward, lost in self.results:
            if ticket >= first:  # an earlier ticket belongs to a past that this run left behind
                rewards[ticket - first], failed[ticket - first] = reward, lost
        rewards.flags.writeable = failed.flags.writeable = False
        records = []
        for record in self.batches:
            own = slice(int(record.tickets[0]) - first, int(record.tickets[-1]) + 1 - first)
            records.append(replace(record, rewards=rewards[own], failed=failed[own]))
        return records

    def to_plain(self) -> dict[str, Any]:
        """Arrays by column, texts as lists."""
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
        """What `to_plain` wrote."""
        ends, records = np.cumsum(plain["sizes"]), []
        for i, (start, end) in enumerate(zip(ends - plain["sizes"], ends, strict=True)):
            numbers = {name: plain[name][i].item() for name in _PER_BATCH}
            records.append(
                unanswered(
                    plain["arms"][start:end],
                    plain["tickets"][start:end],
                    ended_because=plain["ended_because"][i],
                    why=tuple(plain["why"][i]),
                    **numbers,
                )
            )
        columns = (plain[f"told_{name}"].tolist() for name in ("tickets", "rewards", "failed"))
        return cls(AppendLog(records), AppendLog(zip(*columns, strict=True)))


def unanswered(arms: Ints, tickets: Ints, **facts: Any) -> BatchRecord:
    """A batch before any of its results."""
    return BatchRecord(arms, tickets, np.full(len(arms), np.nan), np.zeros(len(arms), dtype=bool), **facts)


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
