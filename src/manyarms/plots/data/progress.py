"""The data of the charts of progress: the best value so far, the model's intervals, and the regret."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from manyarms.plots.numbers import axis_range, central, thinned, usable
from manyarms.plots.view import Measurement, RunView

MOST_POINTS = 1000  # dots per chart
MOST_STEPS = 400  # steps per line

Point = tuple[float, float]


def value_of(measurement: Measurement) -> float | None:
    """The value of a trial; None if it failed."""
    return None if measurement.failed else usable(measurement.value)


def values_of(measurements: Iterable[Measurement]) -> list[tuple[Measurement, float]]:
    """The successful trials, each with its value."""
    return [(m, value) for m in measurements if (value := value_of(m)) is not None]


def beats(goal: str, value: float, other: float) -> bool:
    """Whether `value` is better than `other`."""
    return value > other if goal == "maximise" else value < other


def improvements(view: RunView) -> list[tuple[Measurement, float]]:
    """The measurements that were the best so far when they were recorded."""
    found: list[tuple[Measurement, float]] = []
    for measurement, value in values_of(view.measurements):
        if not found or beats(view.goal, value, found[-1][1]):
            found.append((measurement, value))
    return found


@dataclass(frozen=True)
class Interval:
    """The model's interval for its best candidate, from one ask to the next; `batch` is None: now."""

    batch: int | None
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
    optimum: float | None = None

    @property
    def range(self) -> tuple[float, float]:
        """All values and the optimum; wide intervals extend the range by at most half on each side."""
        span = central(value for _, value in self.points)
        assert span is not None
        shown = [*span, self.best[-1][1], *([] if self.optimum is None else [self.optimum])]
        low, high = min(shown), max(shown)
        reach = 0.5 * high - 0.5 * low
        model = central([held.lower for held in self.model] + [held.upper for held in self.model])
        if model and math.isfinite(reach) and reach > 0:
            low, high = min(low, max(model[0], low - reach)), max(high, min(model[1], high + reach))
        return axis_range([low, high])


def progress_data(view: RunView, optimum: float | None = None) -> ProgressData:
    """The progress of the search against the number of measurements."""
    values = values_of(view.measurements)
    last = max((m.number for m in view.measurements), default=0)
    failed = [m.number for m in view.measurements if value_of(m) is None]
    best = [(float(m.number), value) for m, value in improvements(view)]
    end = max(1.03 * last, last + 1.0)
    held = best_intervals(view)
    return ProgressData(
        points=thinned(values, MOST_POINTS),
        n_values=len(values),
        best=staircase(thinned(best, MOST_STEPS), last),
        model=intervals(thinned(held, MOST_STEPS), end),
        n_model=len(held),
        failed=thinned(failed, MOST_STEPS),
        n_failed=len(failed),
        end=end,
        optimum=optimum,
    )


def staircase(points: list[Point], end: float) -> list[Point]:
    """The corners of a step line that keeps each value until the next point, and the last one to `end`."""
    corners = points[:1]
    for before, after in pairwise(points):
        corners += [(after[0], before[1]), after]
    return [*corners, (end, corners[-1][1])] if corners else []


def best_intervals(view: RunView) -> list[Interval]:
    """The model's interval for its best candidate at each ask and now; `intervals` sets where each ends."""
    told = recorded_before(view)
    last = float(max((m.number for m in view.measurements), default=0))
    said = [
        (batch.number, told[batch.number], batch.best_mean, batch.best_lower, batch.best_upper)
        for batch in view.batches
    ]
    now = [] if view.present is None else [(None, last, *view.present)]
    return [
        Interval(batch, start, start, mean, lower, upper)
        for batch, start, *ends in [*said, *now]
        if (mean := usable(ends[0])) is not None
        and (lower := usable(ends[1])) is not None
        and (upper := usable(ends[2])) is not None
    ]


def intervals(held: list[Interval], end: float) -> list[Interval]:
    """Extend each interval to the start of the next, and the last one to `end`."""
    ends = [*[interval.start for interval in held], end][1:]
    return [replace(interval, end=until) for interval, until in zip(held, ends, strict=True)]


def recorded_before(view: RunView) -> dict[int, float]:
    """The number of measurements recorded before each batch was asked for, as far as the results show it.

    A batch was asked for before its own first result and before every later batch.
    """
    first: dict[int | None, int] = {}
    for m in view.measurements:
        first.setdefault(m.batch, m.number)
    latest = float(max((m.number for m in view.measurements), default=0))
    before: dict[int, float] = {}
    for batch in reversed(view.batches):
        latest = min(latest, first.get(batch.number, math.inf) - 1.0)
        before[batch.number] = latest
    return before


@dataclass(frozen=True)
class RegretData:
    """The average regret after each measurement, the number of values, and the total regret."""

    average: list[Point]
    n_values: int
    total: float


def regret_data(view: RunView, optimum: float) -> RegretData:
    """The running average of the difference between the known optimum and the measurements."""
    sign = 1.0 if view.goal == "maximise" else -1.0
    average, line = 0.0, []
    for count, (measurement, value) in enumerate(values_of(view.measurements), 1):
        average += (sign * (optimum - value) - average) / count
        line.append((float(measurement.number), average))
    return RegretData(thinned(line, MOST_STEPS), len(line), average * len(line))
