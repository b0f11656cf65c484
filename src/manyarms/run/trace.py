"""What a run did: one record per batch, and the batch as it is handed out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True)
class Batch:
    """Arms to evaluate now, in any order, anywhere. A ticket stands for one pull of one arm.

    `ended_because` names the rule that closed the batch; `ratio` is how far, at its end, some variance
    may have shrunk since the last feedback (BBKB's C̃ bounds it unless a size was asked for).
    """

    arms: Ints
    ids: list[Any]
    tickets: Ints
    ended_because: str
    ratio: float

    def __len__(self) -> int:
        return len(self.arms)

    def __iter__(self) -> Iterator[int]:
        return iter(self.arms.tolist())


@dataclass(frozen=True)
class BatchRecord:
    """A batch in the trace. Rewards are NaN until told; `failed` marks trials that gave none.

    `width` is β at the last feedback, before a plate widens it or, being the last one, narrows it.
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


@dataclass
class Trace:
    """All batches of a run, growing by one record per ask and one entry per told ticket."""

    _records: list[BatchRecord] = field(default_factory=list)
    _batch_of: list[int] = field(default_factory=list)  # by ticket

    def add(self, record: BatchRecord) -> None:
        """A batch was handed out."""
        self._batch_of += [len(self._records)] * len(record.tickets)
        self._records.append(record)

    def told(self, ticket: int, reward: float, failed: bool) -> None:
        """The result of one ticket came in."""
        record = self._records[self._batch_of[ticket]]
        place = ticket - int(record.tickets[0])
        record.rewards[place], record.failed[place] = reward, failed

    def records(self) -> list[BatchRecord]:
        """The batches so far."""
        return list(self._records)
