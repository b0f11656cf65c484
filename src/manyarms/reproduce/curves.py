"""The contents of a figure as plain values: curves with error bands, arranged in panels. No drawing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from manyarms.support.validation import Floats


@dataclass(frozen=True)
class Curve:
    """A line with an error band of ±`spread` (None for no band), a reference line, or separate points."""

    label: str
    x: Floats
    y: Floats
    spread: Floats | None = None
    kind: Literal["line", "reference", "points"] = "line"


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_x: bool = False
    log_y: bool = False
    y_limits: tuple[float, float] | None = None


Grid = tuple[tuple[Panel, ...], ...]


def mean_and_sd(runs: Iterable[ArrayLike]) -> tuple[Floats, Floats]:
    """Pointwise mean and standard deviation (n − 1) over runs; the deviation of a single run is 0."""
    stacked = np.array([np.asarray(run, dtype=np.float64) for run in runs])
    spread = stacked.std(axis=0, ddof=1) if len(stacked) > 1 else np.zeros(stacked.shape[1:])
    return stacked.mean(axis=0), spread


def averaged(label: str, x: ArrayLike, runs: Iterable[ArrayLike]) -> Curve:
    """The mean over runs, with the standard deviation as the band."""
    mean, spread = mean_and_sd(runs)
    return Curve(label, np.asarray(x, dtype=np.float64), mean, spread)


def fitted_slope(x: ArrayLike, y: ArrayLike) -> float:
    """The exponent b of the least-squares fit y ≈ a·xᵇ."""
    return float(np.polyfit(np.log(np.asarray(x)), np.log(np.asarray(y)), 1)[0])


def labels(grid: Grid) -> list[str]:
    """Each label once, in order of appearance; a label has the same colour in all panels."""
    return list(dict.fromkeys(curve.label for panel in panels(grid) for curve in panel.curves))


def panels(grid: Grid) -> Sequence[Panel]:
    """All panels, row by row."""
    return [panel for row in grid for panel in row]
