"""Charts in a web page: the scripts, the themes, and the descriptions of charts as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from manyarms.errors import NothingToPlotError
from manyarms.plots.plot import Plot
from manyarms.plots.theme import DARK, LIGHT

SCRIPTS = ("vendor/vega.min.js", "vendor/vega-lite.min.js", "vendor/vega-embed.min.js", "charts.js")
THEMES = {"light": LIGHT, "dark": DARK}


@dataclass(frozen=True)
class MissingFigure:
    """A chart that has no data yet, and why."""

    title: str
    why: str


def figure(title: str, draw: Callable[[], Plot]) -> Plot | MissingFigure:
    """The chart, or why there is none."""
    try:
        return draw()
    except NothingToPlotError as problem:
        return MissingFigure(title, str(problem))


def script(name: str) -> str:
    """The text of one of `SCRIPTS`."""
    return files("manyarms.plots.web").joinpath(name).read_text(encoding="utf-8")


def as_json(value: Any) -> str:
    """JSON that can stand inside a script element, whatever texts it holds."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
