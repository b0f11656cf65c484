"""Charts of agreement: predicted against measured values, and the calibration of intervals."""

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
from manyarms.plots.data.agreement import CalibrationData, PredictedData, calibration_data, predicted_data
from manyarms.plots.numbers import number, percent
from manyarms.plots.plot import Plot, altair_module
from manyarms.plots.sources import view_of

NO_PREDICTIONS = "There are no measurements with a prediction yet."
LEFT_OUT = "Each candidate is predicted from the results of all others."
AT_THE_ASK = "The predictions were made when the candidates were handed out."
PAIR, EQUAL = "measurement", "predicted = measured"
OBSERVED, EXPECTED = "observed", "95 % band if calibrated"


def predicted(source: Any) -> Plot:
    """Predicted against measured values, with the diagonal.

    The predictions of a campaign were made when the candidates were handed out; those of an `Optimizer` are
    made for each candidate from the results of all others.
    """
    data = predicted_data(view_of(source))
    if not data.pairs:
        raise NothingToPlotError(NO_PREDICTIONS)
    tables, (low, high) = Tables(), data.range
    outside = sum(not (low <= p.predicted <= high and low <= p.measured <= high) for p in data.points)
    x, y = x_axis("x", "predicted", (low, high)), y_axis("y", "measured", (low, high))
    roles = {PAIR: 0, EQUAL: 2}
    ends = [{"x": low, "y": low}, {"x": high, "y": high}]
    diagonal = tables.chart(ends, EQUAL).mark_line(strokeDash=[6, 4], strokeWidth=1.5)
    dots = [{"x": p.predicted, "y": p.measured, "id": tip(p.id)} for p in data.points]
    tooltip = [shown("id", "candidate"), figure("x", "predicted"), figure("y", "measured")]
    circles = tables.chart(dots, PAIR).mark_circle(size=26, opacity=0.5, clip=True)
    layers = altair_module().layer(
        diagonal.encode(x=x, y=y, color=colours(roles, roles)),
        circles.encode(x=x, y=y, color=colours(roles, roles), tooltip=tooltip),
    )
    description = f"Measured against predicted values of {len(data.pairs):,} measurements."
    caption = _predicted_caption(data, outside)
    return Plot("Predicted against measured", caption, layers, tables.found, data, description)


def _predicted_caption(data: PredictedData, outside: int) -> tuple[str, ...]:
    """The share of values inside the 90 % interval, and what the interval includes."""
    caption = [LEFT_OUT if data.left_out else AT_THE_ASK]
    caption += thinning_note(len(data.points), len(data.pairs)) + outside_note(outside)
    if data.n_intervals:
        share = percent(data.inside / data.n_intervals)
        caption.append(f"{share} of the measured values lie inside their 90 % prediction interval, which")
        caption.append("includes the measurement noise.")
    return (*caption, f"The root mean square error is {number(data.error)}.")


def calibration(source: Any) -> Plot:
    """How often measured values lie inside prediction intervals of every size, beside how often they should.

    A line below the band means that the model is too sure of itself, a line above it that it is too careful.
    """
    data = calibration_data(view_of(source))
    if not data.n:
        raise NothingToPlotError(NO_PREDICTIONS)
    description = (
        f"Share of {data.n:,} values inside prediction intervals, against the share that they should hold."
    )
    tables = Tables()
    layers = _calibration_layers(data, tables)
    return Plot("Calibration", _calibration_caption(data), layers, tables.found, data, description)


def _calibration_caption(data: CalibrationData) -> tuple[str, ...]:
    below = sum(f < low for f, low in zip(data.fractions, data.lower, strict=True))
    above = sum(f > high for f, high in zip(data.fractions, data.upper, strict=True))
    verdict = "The intervals hold about as many values as they should."
    if below > len(data.shares) // 4:
        verdict = "The intervals hold fewer values than they should: the model is too sure of itself."
    elif above > len(data.shares) // 4:
        verdict = (
            "The intervals hold more values than they should: the model is more careful than it needs to be."
        )
    basis = LEFT_OUT if data.left_out else AT_THE_ASK
    return (f"The share of {data.n:,} values inside prediction intervals of every size.", verdict, basis)


def _calibration_layers(data: CalibrationData, tables: Tables) -> Any:
    altair = altair_module()
    columns = zip(data.shares, data.fractions, data.lower, data.upper, strict=True)
    points = [dict(zip(("share", "found", "lower", "upper"), row, strict=True)) for row in columns]
    percentages = {"format": ".0%"}
    axis = altair.Axis(**percentages)
    x = altair.X("share", type="quantitative", title="share the interval should hold", axis=axis,
                 scale=altair.Scale(domain=[0, 1]))  # fmt: skip
    named = {"type": "quantitative", "title": "share of values inside", "axis": axis,
             "scale": altair.Scale(domain=[0, 1])}  # fmt: skip
    roles = {OBSERVED: 0, EXPECTED: 5}
    band, line = tables.chart(points, EXPECTED), tables.chart(points, OBSERVED)
    tooltip = [figure("share", "interval", ".0%"), figure("found", "inside", ".1%")]
    colour = colours(roles, roles)
    return altair.layer(
        band.mark_area(opacity=0.3).encode(x=x, y=altair.Y("lower", **named), y2="upper", color=colour),
        line.mark_line(strokeWidth=2.2, point=True).encode(
            x=x, y=altair.Y("found", **named), color=colour, tooltip=tooltip
        ),
    )
