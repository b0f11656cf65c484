"""The report's figures: what each chart is made of, and the words that go with it."""

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
    """A chart with its title, its sentences and what its styles stand for."""

    title: str
    caption: list[str]
    legend: list[tuple[str, str]]
    chart: Chart


@dataclass(frozen=True)
class MissingFigure:
    """A figure for which there is nothing to draw yet."""

    title: str
    why: str


def thinning_note(drawn: int, of: int, what: str = "measurements") -> list[str]:
    """The sentence that owns up to marks left out."""
    return [f"{drawn:,} of {of:,} {what} are drawn, evenly spaced."] if drawn < of else []


def outside_note(outside: int) -> list[str]:
    """The sentence that owns up to dots beyond the edge."""
    return [f"{outside:,} of the dots drawn lie outside the range shown."] if outside else []


def progress_figure(report: CampaignReport) -> Figure | MissingFigure:
    """The best so far, every measurement, and the model's interval for its best candidate."""
    data, title = progress_data(report), "Best so far"
    if not data.n_values:
        return MissingFigure(title, "No measurement has given a value yet.")
    y = progress_range(data, report.optimum)
    outside = sum(not 0 <= y.share(value) <= 1 for _, value in data.points)
    label = (
        f"Best measured value against measurements: {number(data.best[0][1])} at first, "
        f"{number(data.best[-1][1])} after {len(report.measurements):,} measurements."
    )
    x = counting_scale(0.0, data.end)
    chart = Chart(label, x, y, "measurements", "value", progress_marks(data, report.optimum))
    return Figure(title, progress_caption(data, outside), progress_legend(data, report.optimum), chart)


def progress_caption(data: ProgressData, outside: int) -> list[str]:
    """What is drawn, what is not, and what to make of it."""
    caption = ["The line is the best value measured so far; each dot is one measurement."]
    caption += thinning_note(len(data.points), data.n_values) + outside_note(outside)
    caption += thinning_note(len(data.failed), data.n_failed, "failures")
    if data.model:
        caption.append(
            "The band is the model's interval for the candidate it held best when each batch was asked."
        )
        caption += thinning_note(len(data.model), data.n_model, "batches")
    return [*caption, "With noise, the best of many measurements looks better than its candidate is."]


def progress_range(data: ProgressData, optimum: float | None) -> AxisScale:
    """Values, best and optimum in full; intervals, which may be very wide, for half as much again."""
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
    """From the back to the front."""
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
    """Only what is there."""
    entries = [("best", "best measured so far", True), ("dots", "measurement", True)]
    entries += [("band", "model's interval for its best", bool(data.model))]
    entries += [("mean", "model's mean of its best", bool(data.model))]
    entries += [
        ("dashed", "known optimum", optimum is not None),
        ("failed", f"failed ({data.n_failed:,})", bool(data.failed)),
    ]
    return [(style, text) for style, text, present in entries if present]


def regret_figure(report: CampaignReport) -> Figure | MissingFigure:
    """Average regret, where the optimum is known."""
    data, title = regret_data(report), "Regret"
    if not data.n_values:
        return MissingFigure(title, "No measurement has given a value yet.")
    last = data.average[-1][1]
    caption = [
        "How far measurements fell short of the known optimum, averaged from the first to each.",
        f"In all {number(data.total)} over {data.n_values:,} measurements, {number(last)} each.",
    ]
    x = counting_scale(0.0, data.average[-1][0] * 1.03)
    label = f"Average regret against measurements, {number(last)} at the end."
    y = scale([value for _, value in data.average], from_zero=True)
    chart = Chart(label, x, y, "measurements", "average regret so far", [Line(data.average, "best")])
    return Figure(title, caption, [], chart)


def calibration_figure(report: CampaignReport) -> Figure | MissingFigure:
    """Predicted against measured, with the line on which they agree."""
    data, title = calibration_data(report), "Predicted against measured"
    if not data.n_pairs:
        return MissingFigure(title, "No measurement with a prediction yet.")
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
    """The share inside the 90 % interval, and what that interval counts."""
    caption = ["Predictions are those made when the candidate was handed out."]
    caption += thinning_note(len(data.points), data.n_pairs) + outside_note(outside)
    if data.n_intervals:
        share = percent(data.inside / data.n_intervals)
        caption.append(f"{share} of the measured values lie inside their 90 % interval, which")
        caption.append("counts the noise of a measurement.")
    return [*caption, f"Typical (root mean square) error {number(data.error)}."]


def batch_figures(report: CampaignReport) -> list[Figure | MissingFigure]:
    """Sizes with the reasons for ending, the seconds, and the size of the dictionary."""
    if not report.batches:
        return [
            MissingFigure(title, "No batch has been asked yet.")
            for title in ("Batch sizes", "Seconds per batch", "Dictionary size")
        ]
    data = batch_data(report.batches)
    each = [f"Each mark is the average of {data.per_bar:,} batches in a row."] if data.per_bar > 1 else []
    return [sizes_figure(data, each), seconds_figure(data, each, report), dictionary_figure(data, each)]


def batch_axis(data: Batches) -> AxisScale:
    """Batch numbers, with room for half a bar at each end."""
    return counting_scale(data.bars[0].first - 0.5, data.bars[-1].last + 0.5)


def named(first: int, last: int) -> str:
    """One batch or several, for a tooltip."""
    return f"batch {first}" if first == last else f"batches {first} to {last}"


def sizes_figure(data: Batches, each: list[str]) -> Figure:
    """Stacked bars, one colour for each reason."""
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
    label = f"Sizes of the batches, coloured by why they ended; the largest {number(largest)}."
    chart = Chart(label, batch_axis(data), y, "batch", "pulls", marks)
    caption = ["How many pulls each batch asked for, and why it ended there.", *each]
    legend = [(styles[reason], f"{tip(reason, 40)} ({times:,})") for reason, times in data.reasons]
    return Figure("Batch sizes", caption, legend, chart)


def seconds_figure(data: Batches, each: list[str], report: CampaignReport) -> Figure:
    """What thinking costs."""
    seconds = sum(batch.seconds for batch in report.batches if math.isfinite(batch.seconds))
    pulls = max(1, sum(batch.size for batch in report.batches))
    per_pull = f"{number(seconds)} seconds in all, {number(1000 * seconds / pulls)} ms for each pull."
    points = [(0.5 * (bar.first + bar.last), bar.seconds) for bar in data.bars]
    caption = ["Time to take in the results and choose the next batch.", per_pull, *each]
    chart = trend(data, points, f"Seconds per batch: {per_pull}", "seconds")
    return Figure("Seconds per batch", caption, [], chart)


def dictionary_figure(data: Batches, each: list[str]) -> Figure:
    """How large the sketch of the history is."""
    points = [(0.5 * (bar.first + bar.last), bar.dictionary_size) for bar in data.bars]
    caption = ["Candidates that the model's sketch is built on. A step costs time in proportion.", *each]
    label = f"Size of the dictionary batch by batch, {number(points[-1][1])} at the end."
    return Figure(
        "Dictionary size", caption, [], trend(data, points, label, "inducing candidates", whole=True)
    )


def trend(data: Batches, points: list[Point], label: str, y_title: str, whole: bool = False) -> Chart:
    """A line over batches, from zero, with a dot for each bar."""
    dots = [
        (x, y, f"{named(bar.first, bar.last)}: {number(y)}")
        for bar, (x, y) in zip(data.bars, points, strict=True)
    ]
    y = scale([value for _, value in points], from_zero=True, whole=whole)
    marks: list[Mark] = [Line(points, "best"), Dots(dots, "knots", 2.0)]
    return Chart(label, batch_axis(data), y, "batch", y_title, marks)
