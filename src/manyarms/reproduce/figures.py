"""Draw panels (`curves`) with matplotlib and write them to files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from manyarms.errors import MissingExtraError
from manyarms.reproduce.curves import Curve, Grid, Panel, labels

# The Okabe-Ito palette, which colour-blind readers can distinguish; the line styles differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", (0, (5, 1.5)), "-.", (0, (1, 1)), (0, (4, 1, 1, 1, 1, 1)), (0, (2, 1)))
PANEL_WIDTH, PANEL_HEIGHT, LEGEND_HEIGHT = 3.3, 2.7, 0.85  # inches
STYLE: dict[Any, Any] = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "manyarms",
}


def save_figure(grid: Grid, title: str, band: str, stem: Path) -> tuple[Path, ...]:
    """Write `stem`.png and `stem`.svg."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "reproduce", "drawing figures") from None
    rows, columns = len(grid), max(len(row) for row in grid)
    size = (PANEL_WIDTH * columns, PANEL_HEIGHT * rows + LEGEND_HEIGHT)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        styles = {label: _style(position) for position, label in enumerate(_lines(grid))}
        for row, line in zip(grid, axes, strict=True):
            for ax in line[len(row) :]:
                ax.set_axis_off()
            for panel, ax in zip(row, line, strict=False):
                draw_panel(panel, ax, styles)
        _legend(figure, axes, band, columns)
        figure.suptitle(title, fontsize=10)
        stem.parent.mkdir(parents=True, exist_ok=True)
        paths = stem.with_suffix(".png"), stem.with_suffix(".svg")
        _save_small_png(figure, paths[0])
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def _save_small_png(figure: Any, path: Path) -> None:
    """Write a PNG file with a palette of 256 colours, a third of the size of one without."""
    from PIL import Image  # a dependency of matplotlib

    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=95, format="png")
    Image.open(drawn).convert("RGB").quantize(256).save(path, optimize=True)


def draw_panel(panel: Panel, ax: Any, styles: dict[str, dict[str, Any]]) -> None:
    """Draw one panel on a pair of axes."""
    lowest = _lowest(panel)
    for curve in panel.curves:
        _draw_curve(curve, ax, styles.get(curve.label, {}), lowest)
    ax.set_title(panel.title)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    if panel.log_x:
        ax.set_xscale("log")
    if panel.log_y:
        ax.set_yscale("log")
    if panel.y_limits:
        ax.set_ylim(*panel.y_limits)
    ax.grid(alpha=0.25, linewidth=0.5)
    ax.spines[["top", "right"]].set_visible(False)


def _lowest(panel: Panel) -> float:
    """Where bands are cut off: a logarithmic axis has no place for 0, so half the lowest value of a curve."""
    if not panel.log_y:
        return -np.inf
    values = np.concatenate([curve.y for curve in panel.curves])
    return 0.5 * float(np.min(values, where=values > 0, initial=np.inf))


def _draw_curve(curve: Curve, ax: Any, style: dict[str, Any], lowest: float) -> None:
    if curve.kind == "points":
        ax.plot(curve.x, curve.y, "k.", markersize=3.5, alpha=0.6, label=curve.label, zorder=3)
    elif curve.kind == "reference":
        ax.plot(curve.x, curve.y, color="0.2", linewidth=1.0, linestyle=":", label=curve.label)
    else:
        ax.plot(curve.x, curve.y, linewidth=1.4, label=curve.label, **style)
        if curve.spread is not None:
            low, high = np.maximum(curve.y - curve.spread, lowest), curve.y + curve.spread
            ax.fill_between(curve.x, low, high, color=style["color"], alpha=0.18, linewidth=0)


def _lines(grid: Grid) -> list[str]:
    drawn = {c.label for row in grid for panel in row for c in panel.curves if c.kind == "line"}
    return [label for label in labels(grid) if label in drawn]


def _style(position: int) -> dict[str, Any]:
    return {"color": COLOURS[position % len(COLOURS)], "linestyle": DASHES[position % len(DASHES)]}


def _legend(figure: Any, axes: Any, band: str, columns: int) -> None:
    """Draw one legend for all panels, with an entry for the shaded bands."""
    from matplotlib.patches import Patch

    entries: dict[str, Any] = {}
    for ax in np.ravel(axes):
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if band:
        entries[f"band: {band}"] = Patch(color="0.6", alpha=0.35, linewidth=0)
    figure.legend(entries.values(), entries, loc="outside lower center", ncols=columns, frameon=False)
