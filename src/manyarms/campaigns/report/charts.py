"""The figures of the report: the marks of each chart, its caption and its legend."""

from __future__ import annotations

import math
from dataclasses import dataclass

from manyarms.campaigns.report.data import (
    Batches,
    Calibration,
    Point,
    ProgressData,
    batch_data,
    calibration_data,
    central,
    progress_data,
    regret_data,
)
from manyarms.campaigns.report.marks import Chart, Dots, Line, Mark, Rectangle, Rug
from manyarms.campaigns.report.markup import tip
from manyarms.campaigns.report.scales import AxisScale, counting_scale, number, percent, scale
from manyarms.campaigns.report.values import CampaignReport


@dataclass(frozen=True)
class Figure:
    """A chart with its title, caption and legend."""

    title: str
    caption: list[str]
    legend: list[tuple[str, str]]
    chart: Chart


@dataclass(frozen=True)
class MissingFigure:
    """A figure that has no data yet."""

    title: str
    why: str


def thinning_note(drawn: int, of: int, what: str = "measurements") -> list[str]:
    """A sentence that says how many marks were left out."""
    return [f"{drawn:,} of {of:,} {what} are drawn, evenly spaced."] if drawn < of else []


def outside_note(outside: int) -> list[str]:
    """A sentence that says how many dots lie outside the chart."""
    return [f"{outside:,} of the dots lie outside the range shown."] if outside else []


def progress_figure(report: CampaignReport) -> Figure | MissingFigure:
    """The best value so far, every measurement, and the model's interval for its best candidate."""
    data, title = progress_data(report), "Best so far"
    if not data.n_values:
        return MissingFigure(title, "There are no measured values yet.")
    y = progress_range(data, report.optimum)
    outside = sum(not 0 <= y.share(value) <= 1 for _, value in data.points)
    label = (
        f"Best measured value against the number of measurements: {number(data.best[0][1])} at first, "
        f"{number(data.best[-1][1])} after {len(report.measurements):,} measurements."
    )
    x = counting_scale(0.0, data.end)
    chart = Chart(label, x, y, "measurements", "value", progress_marks(data, report.optimum))
    return Figure(title, progress_caption(data, outside), progress_legend(data, report.optimum), chart)


def progress_caption(data: ProgressData, outside: int) -> list[str]:
    """What is drawn, what is left out, and how to read it."""
    caption = ["The line is the best value measured so far; each dot is one measurement."]
    caption += thinning_note(len(data.points), data.n_values) + outside_note(outside)
    caption += thinning_note(len(data.failed), data.n_failed, "failures")
    if data.model:
        caption.append("The band is the model's interval for its best candidate at the time of each ask.")
        caption += thinning_note(len(data.model), data.n_model, "batches")
    return [
        *caption,
        "Because of noise, the best of many measurements overstates its candidate.",
    ]


def progress_range(data: ProgressData, optimum: float | None) -> AxisScale:
    """Show all values and the optimum; wide intervals extend the range by at most half on each side."""
    span = central(value for _, value in data.points)
    assert span is not None
    shown = [*span, data.best[-1][1], *([] if optimum is None else [optimum])]
    low, high = min(shown), max(shown)
    reach = 0.5 * high - 0.5 * low
    model = central([held.lower for held in data.model] + [held.upper for held in data.model])
    if model and math.isfinite(reach) and reach > 0:
        low, high = min(low, max(model[0], low - reach)), max(high, min(model[1], high + reach))
    return scale([low, high])


def progress_marks(data: ProgressData, optimum: float | None) -> list[Mark]:
    """The marks from back to front."""
    marks: list[Mark] = [
        Rectangle(held.start, held.end, held.lower, held.upper, "band",
            f"batch {held.batch}: {number(held.mean)}, from {number(held.lower)} to {number(held.upper)}")
        for held in data.model
    ]  # fmt: skip
    tips = [(float(m.number), y, f"measurement {m.number}: {tip(m.id)}, {number(y)}") for m, y in data.points]
    held_mean = [point for held in data.model for point in ((held.start, held.mean), (held.end, held.mean))]
    marks += [
        Rug(data.failed, "failed"),
        Dots(tips, "dots"),
        Line(held_mean, "mean"),
        Line(data.best, "best"),
    ]
    if optimum is not None:
        marks.append(Line([(0.0, optimum), (data.end, optimum)], "dashed"))
    return marks


def progress_legend(data: ProgressData, optimum: float | None) -> list[tuple[str, str]]:
    """The entries that the chart needs."""
    entries = [("best", "best measured so far", True), ("dots", "measurement", True)]
    entries += [("band", "model's interval for its best candidate", bool(data.model))]
    entries += [("mean", "model mean of its best candidate", bool(data.model))]
    entries += [
        ("dashed", "known optimum", optimum is not None),
        ("failed", f"failed ({data.n_failed:,})", bool(data.failed)),
    ]
    return [(style, text) for style, text, present in entries if present]


def regret_figure(report: CampaignReport) -> Figure | MissingFigure:
    """The average regret, if the optimum is known."""
    data, title = regret_data(report), "Regret"
    if not data.n_values:
        return MissingFigure(title, "There are no measured values yet.")
    last = data.average[-1][1]
    caption = [
        "The running average of the difference between the known optimum and the measured values.",
        f"The total is {number(data.total)} over {data.n_values:,} measurements, {number(last)} on average.",
    ]
    x = counting_scale(0.0, data.average[-1][0] * 1.03)
    label = f"Average regret against the number of measurements, {number(last)} at the end."
    y = scale([value for _, value in data.average], from_zero=True)
    chart = Chart(label, x, y, "measurements", "average regret so far", [Line(data.average, "best")])
    return Figure(title, caption, [], chart)


def calibration_figure(report: CampaignReport) -> Figure | MissingFigure:
    """Predicted against measured values, with the diagonal."""
    data, title = calibration_data(report), "Predicted against measured"
    if not data.n_pairs:
        return MissingFigure(title, "There are no measurements with a prediction yet.")
    sides = [central(side) or (0.0, 0.0) for side in zip(*[(p, v) for _, p, v in data.points], strict=True)]
    both = scale([end for side in sides for end in side])
    ends = [both.low * 10.0**both.exponent, both.high * 10.0**both.exponent]
    dots = [
        (p, v, f"measurement {m.number}: {tip(m.id)}, predicted {number(p)}, measured {number(v)}")
        for m, p, v in data.points
    ]
    diagonal: list[Point] = [(end, end) for end in ends]
    marks: list[Mark] = [Line(diagonal, "dashed"), Dots(dots, "pairs")]
    label = f"Measured against predicted values of {data.n_pairs:,} measurements."
    chart = Chart(label, both, both, "predicted", "measured", marks)
    legend = [("pairs", "measurement"), ("dashed", "predicted = measured")]
    outside = sum(not (0 <= both.share(p) <= 1 and 0 <= both.share(v) <= 1) for _, p, v in data.points)
    return Figure(title, calibration_caption(data, outside), legend, chart)


def calibration_caption(data: Calibration, outside: int) -> list[str]:
    """The share of values inside the 90 % interval, and what the interval includes."""
    caption = ["The predictions were made when the candidates were handed out."]
    caption += thinning_note(len(data.points), data.n_pairs) + outside_note(outside)
    if data.n_intervals:
        share = percent(data.inside / data.n_intervals)
        caption.append(f"{share} of the measured values lie inside their 90 % prediction interval, which")
        caption.append("includes the measurement noise.")
    return [*caption, f"The root mean square error is {number(data.error)}."]


def batch_figures(report: CampaignReport) -> list[Figure | MissingFigure]:
    """The sizes with the reasons for ending, the computing times, and the dictionary sizes."""
    if not report.batches:
        return [
            MissingFigure(title, "There are no batches yet.")
            for title in ("Batch sizes", "Seconds per batch", "Dictionary size")
        ]
    data = batch_data(report.batches)
    each = [f"Each mark is the average of {data.per_bar:,} consecutive batches."] if data.per_bar > 1 else []
    return [sizes_figure(data, each), seconds_figure(data, each, report), dictionary_figure(data, each)]


def batch_axis(data: Batches) -> AxisScale:
    """Batch numbers, with half a bar of margin at each end."""
    return counting_scale(data.bars[0].first - 0.5, data.bars[-1].last + 0.5)


def named(first: int, last: int) -> str:
    """The name of one or several batches for a tooltip."""
    return f"batch {first}" if first == last else f"batches {first} to {last}"


def sizes_figure(data: Batches, each: list[str]) -> Figure:
    """Stacked bars, with one colour for each reason."""
    styles = {reason: f"bar c{place}" for place, (reason, _) in enumerate(data.reasons)}
    marks: list[Mark] = []
    for bar in data.bars:
        gap, floor = 0.08 * (bar.last - bar.first + 1), 0.0
        for reason in styles:
            if height := bar.reasons.get(reason, 0.0):
                text = f"{named(bar.first, bar.last)}: {number(height)}, {tip(reason)}"
                left, right = bar.first - 0.5 + gap, bar.last + 0.5 - gap
                marks.append(Rectangle(left, right, floor, floor + height, styles[reason], text))
                floor += height
    largest = max(bar.size for bar in data.bars)
    y = scale([largest], from_zero=True, whole=True)
    label = f"Batch sizes, coloured by the reason why they ended; the largest is {number(largest)}."
    chart = Chart(label, batch_axis(data), y, "batch", "candidates", marks)
    caption = ["The number of candidates in each batch, and why the batch ended.", *each]
    legend = [(styles[reason], f"{tip(reason, 40)} ({times:,})") for reason, times in data.reasons]
    return Figure("Batch sizes", caption, legend, chart)


def seconds_figure(data: Batches, each: list[str], report: CampaignReport) -> Figure:
    """The computing time of each batch."""
    seconds = sum(batch.seconds for batch in report.batches if math.isfinite(batch.seconds))
    pulls = max(1, sum(batch.size for batch in report.batches))
    per_pull = f"{number(seconds)} seconds in total, {number(1000 * seconds / pulls)} ms per candidate."
    points = [(0.5 * (bar.first + bar.last), bar.seconds) for bar in data.bars]
    caption = ["The time to update the model and choose the next batch.", per_pull, *each]
    chart = trend(data, points, f"Seconds per batch: {per_pull}", "seconds")
    return Figure("Seconds per batch", caption, [], chart)


def dictionary_figure(data: Batches, each: list[str]) -> Figure:
    """The number of inducing arms in the sketch."""
    points = [(0.5 * (bar.first + bar.last), bar.dictionary_size) for bar in data.bars]
    caption = [
        "The number of inducing arms in the sketch. The cost of a step is proportional to it.",
        *each,
    ]
    label = f"Dictionary size of each batch, {number(points[-1][1])} at the end."
    return Figure("Dictionary size", caption, [], trend(data, points, label, "inducing arms", whole=True))


def trend(data: Batches, points: list[Point], label: str, y_title: str, whole: bool = False) -> Chart:
    """A line over the batches, starting at zero, with a dot for each bar."""
    dots = [
        (x, y, f"{named(bar.first, bar.last)}: {number(y)}")
        for bar, (x, y) in zip(data.bars, points, strict=True)
    ]
    y = scale([value for _, value in points], from_zero=True, whole=whole)
    marks: list[Mark] = [Line(points, "best"), Dots(dots, "knots", 2.0)]
    return Chart(label, batch_axis(data), y, "batch", y_title, marks)
