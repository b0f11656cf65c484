"""Charts of progress: the best value so far, and the regret where the optimum is known."""

from __future__ import annotations

from typing import Any

from manyarms.errors import NothingToPlotError
from manyarms.plots.charts.parts import (
    Tables,
    colours,
    figure,
    outside_note,
    shown,
    thinning_note,
    tip,
    x_axis,
    y_axis,
)
from manyarms.plots.data.progress import ProgressData, progress_data, regret_data
from manyarms.plots.numbers import axis_range, number
from manyarms.plots.plot import Plot, altair_module
from manyarms.plots.sources import view_of
from manyarms.plots.view import checked_optimum

NO_VALUES = "There are no measured values yet."
BEST, MODEL, OPTIMUM = "best measured so far", "model: best candidate", "known optimum"
FAILED, DOTS = "failed", "measurement"
ROLES = {BEST: 0, DOTS: 5, MODEL: 1, OPTIMUM: 2, FAILED: 4}


def progress(source: Any, *, optimum: float | None = None) -> Plot:
    """The best value so far, every measurement, and the model's interval for its best candidate.

    optimum: the best true value, if it is known, drawn as a line.
    """
    data = progress_data(view_of(source), checked_optimum(optimum))
    if not data.n_values:
        raise NothingToPlotError(NO_VALUES)
    low, high = data.range
    outside = sum(not low <= value <= high for _, value in data.points)
    description = (
        f"Best measured value against the number of measurements: {number(data.best[0][1])} at first, "
        f"{number(data.best[-1][1])} after {data.n_values + data.n_failed:,} measurements."
    )
    tables = Tables()
    layers = altair_module().layer(*_progress_layers(data, tables))
    caption = _progress_caption(data, outside)
    return Plot("Best so far", caption, layers, tables.found, data, description, height=340)


def _progress_caption(data: ProgressData, outside: int) -> tuple[str, ...]:
    """What is drawn, what is left out, and how to read it."""
    caption = ["The line is the best value measured so far; each dot is one measurement."]
    caption += thinning_note(len(data.points), data.n_values) + outside_note(outside)
    caption += thinning_note(len(data.failed), data.n_failed, "failures")
    if data.model:
        caption.append(
            "The band is the model's interval for its best candidate, at the time of each ask and now."
        )
        caption += thinning_note(len(data.model), data.n_model, "batches")
    return (*caption, "Because of noise, the best of many measurements overstates its candidate.")


def _progress_layers(data: ProgressData, tables: Tables) -> list[Any]:
    """The marks from back to front."""
    altair = altair_module()
    given = {
        BEST: True,
        DOTS: True,
        MODEL: data.model,
        FAILED: data.failed,
        OPTIMUM: data.optimum is not None,
    }
    present = [name for name, drawn in given.items() if drawn]
    x = x_axis("x", "measurements", (0.0, data.end), whole=True)
    y = y_axis("y", "value", data.range)
    layers = []
    if data.model:
        layers += _model_layers(data, tables, x, present)
    if data.failed:
        ticks = tables.chart([{"x": place} for place in data.failed], FAILED)
        layers.append(
            ticks.mark_rule(strokeWidth=1.6, clip=True).encode(
                x=x, y=altair.value({"expr": "height"}), y2=altair.value({"expr": "height - 9"}),
                color=colours(ROLES, present),
            )
        )  # fmt: skip
    dots = [{"x": m.number, "y": value, "id": tip(m.id)} for m, value in data.points]
    layers.append(
        tables.chart(dots, DOTS).mark_circle(size=22, opacity=0.5, clip=True).encode(
            x=x, y=y, color=colours(ROLES, present),
            tooltip=[figure("x", "measurement", ",d"), shown("id", "candidate"), figure("y", "value")],
        )
    )  # fmt: skip
    line = [{"x": x, "y": value} for x, value in data.best]
    layers.append(_line(tables.chart(line, BEST), x, y, present, strokeWidth=2.2))
    if data.optimum is not None:
        ends = [{"x": end, "y": data.optimum} for end in (0.0, data.end)]
        layers.append(_line(tables.chart(ends, OPTIMUM), x, y, present, strokeWidth=1.5, strokeDash=[6, 4]))
    return layers


def _line(chart: Any, x: Any, y: Any, present: list[str], **mark: Any) -> Any:
    return chart.mark_line(clip=True, **mark).encode(x=x, y=y, color=colours(ROLES, present))


def _model_layers(data: ProgressData, tables: Tables, x: Any, present: list[str]) -> list[Any]:
    """The intervals of the model's best candidate, and its means."""
    held = [
        {"start": each.start, "end": each.end, "lower": each.lower, "upper": each.upper, "mean": each.mean,
         "name": "now" if each.batch is None else f"batch {each.batch}"}
        for each in data.model
    ]  # fmt: skip
    tooltip = [
        shown("name", "at"), figure("mean", "mean"), figure("lower", "from"), figure("upper", "to"),
    ]  # fmt: skip
    chart, colour = tables.chart(held, MODEL), colours(ROLES, present)
    ends = {"x": x_axis("start", "measurements", (0.0, data.end), whole=True), "x2": "end"}
    bands = chart.mark_rect(opacity=0.25, clip=True).encode(
        **ends, y=y_axis("lower", "value", data.range), y2="upper", color=colour, tooltip=tooltip
    )
    means = chart.mark_rule(strokeWidth=1.8, clip=True).encode(
        **ends, y=y_axis("mean", "value", data.range), color=colour, tooltip=tooltip
    )
    return [bands, means]


def regret(source: Any, *, optimum: float) -> Plot:
    """The average difference between the known optimum and the measured values, over time."""
    known = checked_optimum(optimum)
    assert known is not None
    data = regret_data(view_of(source), known)
    if not data.n_values:
        raise NothingToPlotError(NO_VALUES)
    last = data.average[-1][1]
    caption = (
        "The running average of the difference between the known optimum and the measured values.",
        f"The total is {number(data.total)} over {data.n_values:,} measurements, {number(last)} on average.",
    )
    points = [{"x": place, "y": value} for place, value in data.average]
    x = x_axis("x", "measurements", (0.0, 1.03 * data.average[-1][0]), whole=True)
    y = y_axis("y", "average regret so far", axis_range([0.0, *(value for _, value in data.average)]))
    tooltip = [figure("x", "measurement", ",d"), figure("y", "average regret")]
    tables = Tables()
    chart = tables.chart(points).mark_line(style="best", clip=True).encode(x=x, y=y, tooltip=tooltip)
    description = f"Average regret against the number of measurements, {number(last)} at the end."
    return Plot("Regret", caption, chart, tables.found, data, description)
