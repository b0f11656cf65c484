"""Measure and draw the kernel errors of docs/thompson.md: `python -m benchmarks.feature_figure [folder]`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.features import FULL, MAPS, Point, kernel_errors
from benchmarks.timing import ROOT, one_thread

STYLES = dict(zip(MAPS, ["o-", "s-", "^-", "d--"], strict=True))
COLOURS = dict(zip(MAPS, ["#d55e00", "#009e73", "#0072b2", "#777777"], strict=True))
FLOOR = 1e-14  # rounding: lower errors are drawn here


def draw(points: Iterable[Point], path: Path) -> None:
    """One panel per number of features and kernel, both axes logarithmic."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    measured = list(points)
    columns = sorted({point.n_features for point in measured})
    rows = sorted({point.kernel for point in measured}, reverse=True)
    with pyplot.rc_context({"svg.hashsalt": "manyarms", "svg.fonttype": "none", "font.size": 9}):
        figure, axes = pyplot.subplots(
            len(rows), len(columns), figsize=(9.0, 5.2), sharex=True, sharey=True, squeeze=False
        )
        for i, kernel in enumerate(rows):
            for j, d in enumerate(columns):
                _panel(axes[i][j], [p for p in measured if (p.kernel, p.n_features) == (kernel, d)])
                axes[i][j].set_title(f"{kernel}, d = {d}")
            axes[i][0].set_ylabel("largest kernel error")
        for axis in axes[-1]:
            axis.set_xlabel("dimension of the feature map")
        handles, labels = max(
            (axis.get_legend_handles_labels() for axis in axes.flat), key=lambda x: len(x[1])
        )
        figure.legend(handles, labels, loc="lower center", ncol=len(MAPS), frameon=False)
        figure.tight_layout(rect=(0, 0.05, 1, 1))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _panel(axis, points: list[Point]) -> None:
    for name in MAPS:
        line = [(p.dimension, max(p.error, FLOOR)) for p in points if p.map == name]
        if line:
            axis.loglog(
                *zip(*line, strict=True), STYLES[name], color=COLOURS[name], label=name, markersize=3.5
            )
    axis.set_ylim(FLOOR / 2, 3)
    axis.grid(True, alpha=0.3)


def main(arguments: list[str]) -> None:
    """Write kernel-error-against-size.svg."""
    folder = Path(arguments[0]) if arguments else ROOT / "docs" / "images"
    with one_thread():
        points = list(kernel_errors(FULL))
    draw(points, folder / "kernel-error-against-size.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
