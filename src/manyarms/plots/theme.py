"""Colours and fonts of the charts, light and dark, as Vega-Lite configurations.

A chart names its parts by style ("best", "dots", …) and its colours by their place in the palette, so the
same chart can be shown in either theme. The style sheet of the report and the page uses the same colours.
"""

from __future__ import annotations

from typing import Any

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"
LIGHT_COLOURS = {
    "card": "#ffffff", "ink": "#1c2430", "soft": "#55606e", "rule": "#e6e9ee",
    "c0": "#1f5fa8", "c1": "#d1660c", "c2": "#489f6d", "c3": "#b383c4", "c4": "#902045", "c5": "#73797e",
    "dots": "#5b6b80", "bad": "#b3261e",
}  # fmt: skip
DARK_COLOURS = {
    "card": "#1a2029", "ink": "#e8ecf1", "soft": "#a9b4c1", "rule": "#2b333f",
    "c0": "#6fb1f5", "c1": "#ff9d4d", "c2": "#239453", "c3": "#d4c0df", "c4": "#bf7898", "c5": "#eebb8b",
    "dots": "#9fb0c6", "bad": "#ff8a80",
}  # fmt: skip


def configuration(colours: dict[str, str]) -> dict[str, Any]:
    """The Vega-Lite configuration for these colours."""
    words = {
        "labelColor": colours["soft"],
        "titleColor": colours["ink"],
        "labelFontSize": 12,
        "titleFontSize": 12,
    }
    return {
        "background": colours["card"],
        "font": FONT,
        "view": {"stroke": None},
        "title": {"color": colours["ink"], "subtitleColor": colours["soft"], "anchor": "start"},
        "axis": {
            **words, "titleFontWeight": 500, "gridColor": colours["rule"], "domainColor": colours["soft"],
            "tickColor": colours["soft"], "labelOverlap": "greedy", "labelSeparation": 6, "tickCount": 6,
        },
        "legend": {**words, "orient": "top", "direction": "horizontal", "title": None, "labelLimit": 300,
                   "columns": 3, "symbolOpacity": 1},
        "range": {"category": [colours[name] for name in ("c0", "c1", "c2", "c3", "c4", "c5")]},
        "style": {
            "best": {"color": colours["c0"], "strokeWidth": 2.2, "strokeJoin": "round"},
            "mean": {"color": colours["c1"], "strokeWidth": 1.8},
            "band": {"color": colours["c1"], "opacity": 0.25},
            "knots": {"color": colours["c0"], "opacity": 1},
            "bars": {"color": colours["c0"]},
        },
    }  # fmt: skip


LIGHT, DARK = configuration(LIGHT_COLOURS), configuration(DARK_COLOURS)
