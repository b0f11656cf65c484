"""Which charts the report and the page of a campaign show, and in which sections."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from manyarms.errors import NothingToPlotError
from manyarms.plots.charts.agreement import calibration, predicted
from manyarms.plots.charts.batches import batches
from manyarms.plots.charts.influence import effects, importance
from manyarms.plots.charts.pool_map import pool_map
from manyarms.plots.charts.progress import progress, regret
from manyarms.plots.plot import Plot
from manyarms.plots.view import RunView
from manyarms.plots.web import MissingFigure, figure

Figures = list[Plot | MissingFigure]

PROGRESS, LEARNED, AGREEMENT, BATCHES = (
    "Progress",
    "What the model learned",
    "Model and measurements",
    "Batches",
)


def progress_figures(view: RunView, optimum: float | None = None) -> Figures:
    """The best so far and, if the optimum is known, the regret."""
    found = [figure("Best so far", partial(progress, view, optimum=optimum))]
    if optimum is not None:
        found.append(figure("Regret", partial(regret, view, optimum=optimum)))
    return found


def learned_figures(view: RunView) -> Figures:
    """The importance of the columns, the effects of the most important ones, and the map of the pool."""
    found = [figure("Importance of the columns", partial(importance, view))]
    with suppress(NothingToPlotError):  # the chart of importance says why
        found += effects(view)
    return [*found, figure("Map of the pool", partial(pool_map, view))]


def agreement_figures(view: RunView) -> Figures:
    """Predicted against measured values, and the calibration."""
    return [
        figure("Predicted against measured", partial(predicted, view)),
        figure("Calibration", partial(calibration, view)),
    ]


def batch_figures(view: RunView) -> Figures:
    """Batch sizes, seconds and dictionary sizes."""
    kinds = {"Batch sizes": "size", "Seconds per batch": "seconds", "Dictionary size": "dictionary"}
    return [figure(title, partial(batches, view, kind)) for title, kind in kinds.items()]


SECTIONS: dict[str, Callable[[RunView], Figures]] = {
    PROGRESS: progress_figures,
    LEARNED: learned_figures,
    AGREEMENT: agreement_figures,
    BATCHES: batch_figures,
}
