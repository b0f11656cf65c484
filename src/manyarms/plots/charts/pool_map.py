"""The map of the pool: measured, pending and recommended candidates among all others."""

from __future__ import annotations

from typing import Any

from manyarms.plots.charts.parts import Tables, colours, figure, shown, tip, x_axis, y_axis
from manyarms.plots.data.pool_map import CHOSEN, KINDS, MEASURED, OTHER, PENDING, MapData, pool_map_data
from manyarms.plots.numbers import axis_range, central, percent
from manyarms.plots.plot import Plot, altair_module
from manyarms.plots.sources import view_of

ROLES = {OTHER: 5, MEASURED: 0, PENDING: 1, CHOSEN: 4}
MARKS: dict[str, dict[str, Any]] = {
    OTHER: {"size": 10, "opacity": 0.25, "shape": "circle"},
    MEASURED: {"size": 26, "opacity": 0.65, "shape": "circle"},
    PENDING: {"size": 50, "opacity": 0.9, "shape": "square"},
    CHOSEN: {"size": 90, "opacity": 1.0, "shape": "diamond"},
}


def pool_map(source: Any, by: str = "components") -> Plot:
    """A map of the pool: measured, pending and recommended candidates among all others.

    by: "components" for the first two principal components of the features, or "columns" for the two most
        important columns of numbers.
    """
    tables, data = Tables(), pool_map_data(view_of(source), by)
    x = x_axis("x", tip(data.x_title), axis_range(central(p.x for p in data.points) or (0.0, 1.0)))
    y = y_axis("y", tip(data.y_title), axis_range(central(p.y for p in data.points) or (0.0, 1.0)))
    present = [kind for kind in KINDS if data.counts[kind]]
    tooltip = [shown("id", "candidate"), shown("kind", "is"), figure("mean", "model mean")]
    layers = []
    for kind in present:
        own = [
            {"x": p.x, "y": p.y, "id": tip(p.id), "kind": p.kind, "mean": p.mean}
            for p in data.points
            if p.kind == kind
        ]
        chart = tables.chart(own, kind).mark_point(filled=True, clip=True, **MARKS[kind])
        layers.append(chart.encode(x=x, y=y, color=colours(ROLES, present), tooltip=tooltip))
    description = (
        f"Map of {sum(data.counts.values()):,} candidates, {data.counts[MEASURED]:,} of them measured."
    )
    chart = altair_module().layer(*layers)
    return Plot("Map of the pool", _caption(data), chart, tables.found, data, description, height=380)


def _caption(data: MapData) -> tuple[str, ...]:
    caption = [f"The {data.counts[CHOSEN]} recommended candidates have the best model means."]
    if data.explained is not None:
        caption.append(f"The two components hold {percent(data.explained)} of the variance of the features.")
    drawn = sum(p.kind == OTHER for p in data.points)
    if drawn < data.counts[OTHER]:
        caption.append(f"{drawn:,} of {data.counts[OTHER]:,} candidates that were not measured are drawn.")
    return tuple(caption)
