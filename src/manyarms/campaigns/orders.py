"""What an ask is asked for, and how its batch is shared by several requesters.

Several requesters that wait at the same time get one batch, computed once: the tickets are dealt out in
order, each to its requester, with that requester's name and lease.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from manyarms.campaigns.eligible import Mask
from manyarms.run.batch_structure import BatchStructure

COST_COLUMNS = ("cost", "gain_per_cost")  # of a batch file, in a campaign with costs


@dataclass(frozen=True)
class Issued:
    """One ticket of a batch: the candidate to measure, and its prediction."""

    ticket: int
    batch: int
    arm: int
    id: str
    columns: Mapping[str, str]  # the user's own columns
    predicted: float
    predicted_std: float
    reason: str  # why the candidate was chosen (`Batch.why`)
    lower: float | None = None  # lower and upper end of the 90 % prediction interval of a measured value
    upper: float | None = None
    code: str = field(default="", compare=False)  # the name of the ticket in files, such as 7-k3f5m
    explanation: Mapping[str, Any] | None = field(default=None, compare=False)  # if it was asked for
    cost: float | None = None  # of the trial, in a campaign with costs
    gain: float | None = None  # by how much this candidate alone is expected to improve the best one

    @property
    def gain_per_cost(self) -> float | None:
        """The expected improvement per unit of cost; None if it is not known."""
        return None if self.gain is None or self.cost is None else self.gain / self.cost

    @property
    def predicts(self) -> bool:
        """Whether the prediction is in the user's units, which a model that knows no result cannot know."""
        return self.lower is not None


Deliver = Callable[[list[Issued]], None]


@dataclass(frozen=True)
class Share:
    """The part of one requester: so many tickets (None: the whole batch), for whom, and for how long."""

    size: int | None = None
    worker: str | None = None
    lease_seconds: float | None = None
    key: str | None = None  # names the request, so that it can be repeated; see `store/keyed_asks.py`
    digest: str = ""  # of the contents of the request

    def held(self, moment: float) -> dict[str, Any]:
        """The columns of its tickets that say who measures them, and until when."""
        until = None if self.lease_seconds is None else moment + self.lease_seconds
        return {"worker": self.worker, "lease_until": until}


@dataclass(frozen=True)
class Order:
    """The arguments of one ask."""

    n: int | None
    at_most: int | None
    until_gap: float | None
    shares: tuple[Share, ...]
    deliver: Deliver | None = None
    eligible: Mask | None = None
    structure: BatchStructure | None = None
    until_gain: float | None = None  # nothing is handed out if the batch is expected to add at most this
    explain: bool = False  # whether each ticket comes with an explanation
    max_cost: float | None = None  # of the batch
    per_cost: bool | None = None  # whether it is chosen by value per cost; None: as the settings say


class RepeatedAskError(Exception):
    """A key of the order was used meanwhile: its tickets were handed out, and this order was not."""


def dealt(issued: Sequence[Issued], shares: Sequence[Share]) -> list[list[Issued]]:
    """The tickets of each share, in order."""
    parts, start = [], 0
    for share in shares:
        size = len(issued) - start if share.size is None else share.size
        parts.append(list(issued[start : start + size]))
        start += size
    assert start == len(issued), "every ticket belongs to one share"
    return parts
