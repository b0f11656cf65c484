"""The data of the charts of batches: sizes, reasons for ending, computing times and dictionary sizes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from manyarms.plots.view import BatchLine, RunView

MOST_BARS = 120
MOST_REASONS = 6  # number of colours in the palette


@dataclass(frozen=True)
class Bar:
    """Consecutive batches: the first and last number, and averages over them."""

    first: int
    last: int
    size: float
    reasons: dict[str, float]  # the mean size, split by the reason why the batches ended
    dictionary_size: float
    seconds: float

    @property
    def name(self) -> str:
        """The name of the batches in texts."""
        return f"batch {self.first}" if self.first == self.last else f"batches {self.first} to {self.last}"


@dataclass(frozen=True)
class BatchData:
    """Bars of `per_bar` batches each, and the reasons for ending with their counts, most frequent first."""

    bars: list[Bar]
    per_bar: int
    reasons: list[tuple[str, int]]
    seconds: float  # in total
    pulls: int


def batch_data(view: RunView) -> BatchData:
    """Size, reason, dictionary size and time of each batch, averaged over neighbours if there are many."""
    batches: Sequence[BatchLine] = view.batches
    per_bar = max(1, math.ceil(len(batches) / MOST_BARS))
    counted = Counter(batch.ended_because for batch in batches).most_common()
    named = counted if len(counted) <= MOST_REASONS else counted[: MOST_REASONS - 1]
    rest = len(batches) - sum(times for _, times in named)
    reasons = [*named, ("other reasons", rest)] if rest else named
    known = {reason for reason, _ in named}
    groups = [batches[start : start + per_bar] for start in range(0, len(batches), per_bar)]
    return BatchData(
        [_bar_of(group, known) for group in groups],
        per_bar,
        reasons,
        sum(batch.seconds for batch in batches if math.isfinite(batch.seconds)),
        sum(batch.size for batch in batches),
    )


def _bar_of(group: Sequence[BatchLine], known: set[str]) -> Bar:
    """One bar for consecutive batches."""
    split: Counter[str] = Counter()
    for batch in group:
        split[batch.ended_because if batch.ended_because in known else "other reasons"] += batch.size
    return Bar(
        group[0].number, group[-1].number, average(batch.size for batch in group),
        {reason: total / len(group) for reason, total in split.items()},
        average(batch.dictionary_size for batch in group), average(batch.seconds for batch in group),
    )  # fmt: skip


def average(values: Iterable[float]) -> float:
    """The mean of the finite values; NaN if there are none."""
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan
