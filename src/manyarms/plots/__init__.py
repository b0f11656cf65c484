"""Charts of a run or a campaign, as `manyarms.plots`: each function returns a `Plot` with the data behind it.

The source of every chart is an `Optimizer`, a `Result` of `maximize`, or a `Campaign`. Drawing needs Altair,
the extra `plots`; the functions that end in `_data` do not. The same charts make up the report and the page
of a campaign.
"""

from typing import Any

from manyarms.plots.charts.agreement import calibration, predicted
from manyarms.plots.charts.batches import batches
from manyarms.plots.charts.influence import effect, effects, importance
from manyarms.plots.charts.pool_map import pool_map
from manyarms.plots.charts.progress import progress, regret
from manyarms.plots.data import agreement as _agreement
from manyarms.plots.data import batches as _batches
from manyarms.plots.data import influence as _influence
from manyarms.plots.data import pool_map as _pool_map
from manyarms.plots.data import progress as _progress
from manyarms.plots.plot import Plot
from manyarms.plots.sources import view_of
from manyarms.plots.view import checked_optimum


def progress_data(source: Any, *, optimum: float | None = None) -> _progress.ProgressData:
    """The data of `progress`."""
    return _progress.progress_data(view_of(source), checked_optimum(optimum))


def regret_data(source: Any, *, optimum: float) -> _progress.RegretData:
    """The data of `regret`."""
    known = checked_optimum(optimum)
    assert known is not None
    return _progress.regret_data(view_of(source), known)


def predicted_data(source: Any) -> _agreement.PredictedData:
    """The data of `predicted`."""
    return _agreement.predicted_data(view_of(source))


def calibration_data(source: Any) -> _agreement.CalibrationData:
    """The data of `calibration`."""
    return _agreement.calibration_data(view_of(source))


def batches_data(source: Any) -> _batches.BatchData:
    """The data of `batches`."""
    return _batches.batch_data(view_of(source))


def importance_data(source: Any) -> _influence.ImportanceData:
    """The data of `importance`."""
    return _influence.importance_data(view_of(source))


def effect_data(source: Any, column: str, *, around: Any = None) -> _influence.EffectData:
    """The data of `effect`."""
    return _influence.effect_data(view_of(source), column, around)


def pool_map_data(source: Any, by: str = "components") -> _pool_map.MapData:
    """The data of `pool_map`."""
    return _pool_map.pool_map_data(view_of(source), by)


__all__ = [
    "Plot",
    "batches",
    "batches_data",
    "calibration",
    "calibration_data",
    "effect",
    "effect_data",
    "effects",
    "importance",
    "importance_data",
    "pool_map",
    "pool_map_data",
    "predicted",
    "predicted_data",
    "progress",
    "progress_data",
    "regret",
    "regret_data",
]
