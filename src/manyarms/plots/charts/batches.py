"""Charts of batches: sizes with the reasons for ending, computing times, and dictionary sizes."""

from __future__ import annotations

from typing import Any

from manyarms.errors import InvalidParameterError, NothingToPlotError
from manyarms.plots.charts.parts import Tables, figure, shown, tip, x_axis, y_axis
from manyarms.plots.data.batches import BatchData, batch_data
from manyarms.plots.numbers import axis_range, number
from manyarms.plots.plot import Plot, altair_module
from manyarms.plots.sources import view_of

NO_BATCHES = "There are no batches yet."
KINDS = ("size", "seconds", "dictionary")


def batches(source: Any, show: str = "size") -> Plot:
    """The batches: "size" and why each one ended, "seconds" to choose it, or size of the "dictionary"."""
    if show not in KINDS:
        raise InvalidParameterError("show", show, "'size', 'seconds' or 'dictionary'")
    data = batch_data(view_of(source))
    if not data.bars:
        raise NothingToPlotError(NO_BATCHES)
    each = (f"Each mark is the average of {data.per_bar:,} consecutive batches.",) if data.per_bar > 1 else ()
    return {"size": _sizes, "seconds": _seconds, "dictionary": _dictionary}[show](data, each)


def _numbers(data: BatchData) -> tuple[float, float]:
    """The batch numbers, with half a bar of margin at each end."""
    return data.bars[0].first - 0.5, data.bars[-1].last + 0.5


def _sizes(data: BatchData, each: tuple[str, ...]) -> Plot:
    """Stacked bars, with one colour for each reason."""
    altair, tables = altair_module(), Tables()
    labels = {reason: f"{tip(reason, 40)} ({times:,})" for reason, times in data.reasons}
    bars = []
    for bar in data.bars:
        gap, floor = 0.08 * (bar.last - bar.first + 1), 0.0
        for reason, label in labels.items():
            if height := bar.reasons.get(reason, 0.0):
                bars.append(
                    {"left": bar.first - 0.5 + gap, "right": bar.last + 0.5 - gap, "floor": floor,
                     "top": floor + height, "reason": label, "name": bar.name, "size": height}
                )  # fmt: skip
                floor += height
    largest = max(bar.size for bar in data.bars)
    scale = altair.Scale(domain=list(labels.values()))
    colour = altair.Color("reason", type="nominal", scale=scale, legend=altair.Legend(title=None))
    chart = tables.chart(bars).mark_rect().encode(
        x=x_axis("left", "batch", _numbers(data), whole=True), x2="right",
        y=y_axis("floor", "candidates", (0, axis_range([0.0, largest])[1]), whole=True), y2="top",
        color=colour,
        tooltip=[shown("name", "batch"), figure("size", "candidates"), shown("reason", "ended because")],
    )  # fmt: skip
    caption = ("The number of candidates in each batch, and why the batch ended.", *each)
    description = f"Batch sizes, coloured by the reason why they ended; the largest is {number(largest)}."
    return Plot("Batch sizes", caption, chart, tables.found, data, description)


def _seconds(data: BatchData, each: tuple[str, ...]) -> Plot:
    """The computing time of each batch."""
    per_pull = 1000 * data.seconds / max(1, data.pulls)
    told = f"{number(data.seconds)} seconds in total, {number(per_pull)} ms per candidate."
    caption = ("The time to update the model and choose the next batch.", told, *each)
    values = [bar.seconds for bar in data.bars]
    return _trend("Seconds per batch", "seconds", data, values, caption, f"Seconds per batch: {told}")


def _dictionary(data: BatchData, each: tuple[str, ...]) -> Plot:
    """The number of inducing arms in the sketch."""
    values = [bar.dictionary_size for bar in data.bars]
    caption = ("The number of inducing arms in the sketch. The cost of a step is proportional to it.", *each)
    description = f"Dictionary size of each batch, {number(values[-1])} at the end."
    return _trend("Dictionary size", "inducing arms", data, values, caption, description, whole=True)


def _trend(
    title: str, unit: str, data: BatchData, values: list[float], caption: tuple[str, ...], description: str,
    whole: bool = False,
) -> Plot:  # fmt: skip
    """A line over the batches, starting at zero, with a dot for each bar."""
    tables = Tables()
    finite = [(bar, value) for bar, value in zip(data.bars, values, strict=True) if value == value]
    points = [{"x": 0.5 * (bar.first + bar.last), "y": value, "name": bar.name} for bar, value in finite]
    x = x_axis("x", "batch", _numbers(data), whole=True)
    y = y_axis("y", unit, (0, axis_range([0.0, *(value for _, value in finite)])[1]), whole=whole)
    chart = tables.chart(points)
    layers = altair_module().layer(
        chart.mark_line(style="best").encode(x=x, y=y),
        chart.mark_circle(style="knots", size=24).encode(
            x=x, y=y, tooltip=[shown("name", "batch"), figure("y", unit)]
        ),
    )
    return Plot(title, caption, layers, tables.found, data, description)
