"""The numbers behind each chart. `charts.py` draws them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

from manyarms.campaigns.report.values import BatchLine, CampaignReport, Measurement

MOST_POINTS = 1000  # dots per chart
MOST_STEPS = 400  # steps per line
MOST_BARS = 120
MOST_REASONS = 6  # number of colours in the palette

T = TypeVar("T")
Point = tuple[float, float]


def thinned(items: Sequence[T], most: int) -> list[T]:
    """At most `most` items, evenly spaced, including the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def usable(value: float | None) -> float | None:
    """The value if it is finite, otherwise None."""
    return None if value is None or not math.isfinite(value) else value


def value_of(measurement: Measurement) -> float | None:
    """The value of a trial; None if it failed."""
    return None if measurement.failed else usable(measurement.value)


def values_of(measurements: Iterable[Measurement]) -> list[tuple[Measurement, float]]:
    """The successful trials, each with its value."""
    return [(m, value) for m in measurements if (value := value_of(m)) is not None]


def beats(goal: str, value: float, other: float) -> bool:
    """Whether `value` is better than `other`."""
    return value > other if goal == "maximise" else value < other


def improvements(report: CampaignReport) -> list[tuple[Measurement, float]]:
    """The measurements that were the best so far when they were recorded."""
    found: list[tuple[Measurement, float]] = []
    for measurement, value in values_of(report.measurements):
        if not found or beats(report.goal, value, found[-1][1]):
            found.append((measurement, value))
    return found


@dataclass(frozen=True)
class Interval:
    """The model's interval for its best candidate, from one ask to the next."""

    batch: int
    start: float
    end: float
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class ProgressData:
    """Dots, the best so far, the model's intervals and failed trials, each thinned and with a full count."""

    points: list[tuple[Measurement, float]]
    n_values: int
    best: list[Point]
    model: list[Interval]
    n_model: int
    failed: list[int]
    n_failed: int
    end: float


def central(values: Iterable[float]) -> tuple[float, float] | None:
    """The range of the values, or of their central 98 % if a few outliers would hide the rest."""
    ordered = sorted(values)
    if not ordered:
        return None
    stray = len(ordered) // 100
    low, high = ordered[stray], ordered[len(ordered) - 1 - stray]
    whole = ordered[-1] - ordered[0]
    return (low, high) if 0 < 10 * (high - low) < whole else (ordered[0], ordered[-1])


def progress_data(report: CampaignReport) -> ProgressData:
    """The progress of the search against the number of measurements."""
    values = values_of(report.measurements)
    last = max((m.number for m in report.measurements), default=0)
    failed = [m.number for m in report.measurements if value_of(m) is None]
    best = [(float(m.number), value) for m, value in improvements(report)]
    end = max(1.03 * last, last + 1.0)
    held = best_intervals(report)
    return ProgressData(
        points=thinned(values, MOST_POINTS),
        n_values=len(values),
        best=staircase(thinned(best, MOST_STEPS), last),
        model=intervals(thinned(held, MOST_STEPS), end),
        n_model=len(held),
        failed=thinned(failed, MOST_STEPS),
        n_failed=len(failed),
        end=end,
    )


def staircase(points: list[Point], end: float) -> list[Point]:
    """The corners of a step line that keeps each value until the next point, and the last one to `end`."""
    corners = points[:1]
    for before, after in pairwise(points):
        corners += [(after[0], before[1]), after]
    return [*corners, (end, corners[-1][1])] if corners else []


def best_intervals(report: CampaignReport) -> list[Interval]:
    """The model's interval for its best candidate at each ask; `intervals` sets where each one ends."""
    told = recorded_before(report)
    return [
        Interval(batch.number, told[batch.number], told[batch.number], mean, lower, upper)
        for batch in report.batches
        if (mean := usable(batch.best_mean)) is not None
        and (lower := usable(batch.best_lower)) is not None
        and (upper := usable(batch.best_upper)) is not None
    ]


def intervals(held: list[Interval], end: float) -> list[Interval]:
    """Extend each interval to the start of the next, and the last one to `end`."""
    ends = [*[interval.start for interval in held], end][1:]
    return [replace(interval, end=until) for interval, until in zip(held, ends, strict=True)]


def recorded_before(report: CampaignReport) -> dict[int, float]:
    """The number of measurements recorded before each batch was asked for, as far as the results show it.

    A batch was asked for before its own first result and before every later batch.
    """
    first: dict[int | None, int] = {}
    for m in report.measurements:
        first.setdefault(m.batch, m.number)
    latest = float(max((m.number for m in report.measurements), default=0))
    before: dict[int, float] = {}
    for batch in reversed(report.batches):
        latest = min(latest, first.get(batch.number, math.inf) - 1.0)
        before[batch.number] = latest
    return before


@dataclass(frozen=True)
class Regret:
    """The average regret after each measurement, the number of values, and the total regret."""

    average: list[Point]
    n_values: int
    total: float


def regret_data(report: CampaignReport) -> Regret:
    """The running average of the difference between the known optimum and the measurements."""
    assert report.optimum is not None
    sign = 1.0 if report.goal == "maximise" else -1.0
    average, line = 0.0, []
    for count, (measurement, value) in enumerate(values_of(report.measurements), 1):
        average += (sign * (report.optimum - value) - average) / count
        line.append((float(measurement.number), average))
    return Regret(thinned(line, MOST_STEPS), len(line), average * len(line))


@dataclass(frozen=True)
class Bar:
    """Consecutive batches: the first and last number, and averages over them."""

    first: int
    last: int
    size: float
    reasons: dict[str, float]  # the mean size, split by the reason why the batches ended
    dictionary_size: float
    seconds: float


@dataclass(frozen=True)
class Batches:
    """Bars of `per_bar` batches each, and the reasons for ending with their counts, most frequent first."""

    bars: list[Bar]
    per_bar: int
    reasons: list[tuple[str, int]]


def batch_data(batches: list[BatchLine]) -> Batches:
    """Size, reason, dictionary size and time of each batch, averaged over neighbours if there are many."""
    per_bar = max(1, math.ceil(len(batches) / MOST_BARS))
    counted = Counter(batch.ended_because for batch in batches).most_common()
    named = counted if len(counted) <= MOST_REASONS else counted[: MOST_REASONS - 1]
    rest = len(batches) - sum(times for _, times in named)
    reasons = [*named, ("other reasons", rest)] if rest else named
    known = {reason for reason, _ in named}
    groups = [batches[start : start + per_bar] for start in range(0, len(batches), per_bar)]
    return Batches([bar_of(group, known) for group in groups], per_bar, reasons)


def bar_of(group: list[BatchLine], known: set[str]) -> Bar:
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
    usable = [value for value in values if math.isfinite(value)]
    return sum(usable) / len(usable) if usable else math.nan


@dataclass(frozen=True)
class Calibration:
    """Dots (measurement, predicted, measured), the root mean square error, and the interval coverage."""

    points: list[tuple[Measurement, float, float]]
    n_pairs: int
    error: float
    inside: int
    n_intervals: int


def calibration_data(report: CampaignReport) -> Calibration:
    """Predicted against measured values."""
    pairs = [
        (m, predicted, value)
        for m, value in values_of(report.measurements)
        if (predicted := usable(m.predicted)) is not None
    ]
    distance = math.dist([predicted for _, predicted, _ in pairs], [value for *_, value in pairs])
    error = distance / math.sqrt(len(pairs)) if pairs else math.nan
    hits = [
        lower <= value <= upper
        for m, _, value in pairs
        if (lower := usable(m.predicted_lower)) is not None
        and (upper := usable(m.predicted_upper)) is not None
    ]
    return Calibration(thinned(pairs, MOST_POINTS), len(pairs), error, sum(hits), len(hits))


@dataclass(frozen=True)
class Headline:
    """One figure in large type, with a smaller note."""

    name: str
    figure: float | None
    note: str = ""


def headline_data(report: CampaignReport) -> list[Headline]:
    """The figures at the top of the page."""
    best = improvements(report)[-1:]
    failed = sum(value_of(m) is None for m in report.measurements)
    pulls = sum(batch.size for batch in report.batches)
    seconds = sum(batch.seconds for batch in report.batches if math.isfinite(batch.seconds))
    headlines = [Headline("Best measured", best[0][1] if best else None, best[0][0].id if best else "")]
    if report.top:
        headlines.append(Headline("Best by the model", report.top[0].mean, report.top[0].id))
    return [
        *headlines,
        Headline("Measurements", len(report.measurements)),
        Headline("Failed", failed),
        Headline("Batches", len(report.batches), f"{pulls:,} tickets" if report.batches else ""),
        Headline("Seconds of computing", seconds),
    ]
