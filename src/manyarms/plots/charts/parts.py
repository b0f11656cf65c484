"""What several charts share: data, axes, marks by style, and sentences about what is left out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from manyarms.plots.plot import altair_module

DIRECTION_MARKS = re.compile("[\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]")
LONGEST = 60


class Tables:
    """The rows that the layers of a chart draw, under names.

    Altair sees the names only: it checks and copies everything that it sees, which takes seconds for a
    thousand rows.
    """

    def __init__(self) -> None:
        self.found: dict[str, list[dict[str, Any]]] = {}

    def chart(self, rows: Iterable[Mapping[str, Any]], role: str | None = None) -> Any:
        """A chart of these rows; with `role`, each row also says what it is, for `colours`."""
        altair, name, more = (
            altair_module(),
            f"table{len(self.found)}",
            {} if role is None else {"role": role},
        )
        self.found[name] = [{key: _drawable(cell) for key, cell in {**row, **more}.items()} for row in rows]
        return altair.Chart(altair.NamedData(name=name))


def _drawable(cell: Any) -> Any:
    """The cell, or nothing in place of a number that has no place on an axis."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def tip(text: str, longest: int = LONGEST) -> str:
    """A user's text in a chart: one line, not too long, without marks that turn the text around it."""
    line = " ".join(DIRECTION_MARKS.sub("", text[: 4 * longest]).split())
    cut = len(line) > longest or len(text) > 4 * longest
    return f"{line[: longest - 1]}…" if cut else line


def x_axis(
    field: str, title: str, domain: Sequence[float] | None = None, whole: bool = False, **more: Any
) -> Any:
    """A horizontal axis of numbers."""
    return _axis(altair_module().X, field, title, domain, whole, more)


def y_axis(
    field: str, title: str, domain: Sequence[float] | None = None, whole: bool = False, **more: Any
) -> Any:
    """A vertical axis of numbers."""
    return _axis(altair_module().Y, field, title, domain, whole, more)


def _axis(
    channel: Any, field: str, title: str, domain: Sequence[float] | None, whole: bool, more: dict[str, Any]
) -> Any:
    altair = altair_module()
    scale = altair.Undefined if domain is None else altair.Scale(domain=list(domain), nice=False, zero=False)
    axis = altair.Axis(title=title, **({"format": ",d", "tickMinStep": 1} if whole else {}))
    return channel(field, type="quantitative", scale=scale, axis=axis, **more)


def shown(field: str, title: str) -> Any:
    """A line of a tooltip with a text."""
    return altair_module().Tooltip(field, type="nominal", title=title)


def figure(field: str, title: str, format: str = ",.4~g") -> Any:
    """A line of a tooltip with a number."""
    return altair_module().Tooltip(field, type="quantitative", title=title, format=format)


def colours(roles: Mapping[str, int], present: Iterable[str]) -> Any:
    """The colour of a layer by the role of its rows, with a legend.

    `roles` gives each role a place in the palette, and `present` are those that the legend shows.
    """
    altair, names = altair_module(), {place: name for name, place in roles.items()}
    domain = [names.get(place, f"unused {place}") for place in range(1 + max(names))]
    legend = altair.Legend(title=None, values=[name for name in roles if name in {*present}])
    return altair.Color("role", type="nominal", scale=altair.Scale(domain=domain), legend=legend)


def thinning_note(drawn: int, of: int, what: str = "measurements") -> list[str]:
    """A sentence that says how many marks were left out."""
    return [f"{drawn:,} of {of:,} {what} are drawn, evenly spaced."] if drawn < of else []


def outside_note(outside: int) -> list[str]:
    """A sentence that says how many dots lie outside the chart."""
    return [f"{outside:,} of the dots lie outside the range shown."] if outside else []
