"""Charts of influence: the importance of the columns, and the effect of one column."""

from __future__ import annotations

from typing import Any

from manyarms.plots.charts.parts import Tables, figure, shown, tip, x_axis, y_axis
from manyarms.plots.data.influence import EffectData, columns_by_importance, effect_data, importance_data
from manyarms.plots.numbers import axis_range, percent
from manyarms.plots.plot import Plot, altair_module
from manyarms.plots.sources import view_of
from manyarms.plots.view import RunView

MOST_BARS = 15


def importance(source: Any) -> Plot:
    """How much each column matters: the share of the predictions' variance that depends on it.

    The shares of columns that act together overlap, so they may add up to more than 100 %.
    """
    altair, tables, data = altair_module(), Tables(), importance_data(view_of(source))
    names, shares = data.columns[:MOST_BARS], data.importance[:MOST_BARS]
    bars = [
        {"column": f"{tip(name, 28)}", "place": place, "share": share}
        for place, (name, share) in enumerate(zip(names, shares, strict=True))
    ]
    chart = tables.chart(bars).mark_bar(style="bars", cornerRadiusEnd=2).encode(
        x=altair.X("share", type="quantitative", title="share of the variance",
                   axis=altair.Axis(format=".0%"),
                   scale=altair.Scale(domain=[0, max(1e-9, 1.05 * max(shares))])),
        y=altair.Y("column", type="nominal", title=None, sort=altair.EncodingSortField("place"),
                   axis=altair.Axis(labelLimit=150)),
        tooltip=[shown("column", "column"), figure("share", "share", ".1%")],
    )  # fmt: skip
    caption = [
        "The share of the variance of the model's predictions that is lost when a column is shuffled.",
        "Shares of columns that act together overlap.",
    ]
    if len(names) < len(data.columns):
        caption.append(f"The {len(names)} most important of {len(data.columns):,} columns are shown.")
    description = f"Importance of the columns: {tip(names[0])} comes first with {percent(shares[0])}."
    height = 30 + 24 * len(names)
    return Plot("Importance of the columns", tuple(caption), chart, tables.found, data, description, height)


def effect(source: Any, column: str | None = None, *, around: Any = None) -> Plot:
    """The effect of one column on the model's function, with a 90 % band.

    column: its name; None is the most important column.
    around: the id of a candidate whose other columns are kept; None averages over a sample of candidates.
    """
    view = view_of(source)
    name = columns_by_importance(view, 1)[0].name if column is None else column
    return _drawn(effect_data(view, name, around))


def effects(source: Any, most: int = 4) -> list[Plot]:
    """The effects of the most important columns, one chart each."""
    view: RunView = view_of(source)
    return [_drawn(effect_data(view, column.name)) for column in columns_by_importance(view, most)]


def _drawn(data: EffectData) -> Plot:
    altair, tables, title = altair_module(), Tables(), tip(data.column, 40)
    keys = ("value", "mean", "lower", "upper")
    cells = [tip(v, 28) if isinstance(v, str) else v for v in data.values]
    points = [
        dict(zip(keys, row, strict=True))
        for row in zip(cells, data.mean, data.lower, data.upper, strict=True)
    ]
    span = axis_range([*data.lower, *data.upper])
    tooltip = [
        shown("value", title) if data.is_category else figure("value", title),
        figure("mean", "expected value"), figure("lower", "from"), figure("upper", "to"),
    ]  # fmt: skip
    chart, low, mean = tables.chart(points), y_axis("lower", "value", span), y_axis("mean", "value", span)
    if data.is_category:
        x = altair.X("value", type="nominal", title=title, sort=None, axis=altair.Axis(labelLimit=110))
        layers = altair.layer(
            chart.mark_rule(style="mean", strokeWidth=5, opacity=0.4).encode(x=x, y=low, y2="upper"),
            chart.mark_circle(style="knots", size=60).encode(x=x, y=mean, tooltip=tooltip),
        )
    else:
        numbers = [v for v in data.values if not isinstance(v, str)]
        if data.logarithmic:
            scale = altair.Scale(type="log", domain=[min(numbers), max(numbers)], nice=False)
            x = altair.X("value", type="quantitative", scale=scale, axis=altair.Axis(title=title))
        else:
            x = x_axis("value", title, axis_range(numbers))
        layers = altair.layer(
            chart.mark_area(style="band").encode(x=x, y=low, y2="upper"),
            chart.mark_line(style="best").encode(x=x, y=mean),
            chart.mark_circle(style="knots", size=20).encode(x=x, y=mean, tooltip=tooltip),
        )
    if data.around is None:
        basis = (
            f"The model's expected value, averaged over {data.n:,} candidates with this value of the column."
        )
    else:
        basis = (
            f"The model's expected value for the candidate {tip(data.around)}, with this value of the column."
        )
    description = f"Expected value against the column {title}."
    caption = (basis, "The band is the 90 % interval of that average under the model.")
    return Plot(f"Effect of {title}", caption, layers, tables.found, data, description)
