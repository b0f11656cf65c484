"""The data of the charts of influence: how much each column matters to the model, and how.

**Importance** of a column is its total effect (Sobol' index) on the model's mean: the share of the variance
of the predictions that is lost when the column is shuffled among candidates, estimated as in Jansen (1999),
E[(f(x) − f(x'))²] / (2 Var f), where x' has the column's cells of another candidate.

**Effect** of a column is the average of the model's function over a sample of candidates, as the column takes
one value after another (partial dependence). The average of a Gaussian process is Gaussian; its variance is
the average of all covariances, so the band is exact and narrower than that of a single candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.embeddings.nystrom import covariances
from manyarms.errors import InvalidParameterError, NothingToPlotError
from manyarms.plots.data.agreement import NINETY
from manyarms.plots.view import ModelView, RunView
from manyarms.pool.columns import Column
from manyarms.posterior.posterior import Posterior
from manyarms.support.threads import threads_for
from manyarms.support.validation import Floats

SAMPLE = 512  # candidates among which a column is shuffled
MOST_ROWS = 50_000  # predictions for one chart of importance
AVERAGED = 100  # candidates that an effect is averaged over
NO_COLUMNS = "The candidates have no columns that could be shown, because they are compared as a whole."


@dataclass(frozen=True)
class ImportanceData:
    """The importance of each column, largest first, and the number of candidates it was estimated from."""

    columns: list[str]
    importance: list[float]
    n: int


@dataclass(frozen=True)
class EffectData:
    """The average effect of a column: its values (texts for a category), means and 90 % intervals."""

    column: str
    is_category: bool
    values: list[float | str]
    mean: list[float]
    lower: list[float]
    upper: list[float]
    around: str | None  # the id of the candidate whose other columns are kept; None: the average of a sample
    n: int
    logarithmic: bool = False  # whether the values span orders of magnitude


def model_of(view: RunView) -> ModelView:
    """The model, which must have columns."""
    model = view.model()
    if model is None:
        raise NothingToPlotError("There are no results to learn from yet.")
    if not model.columns:
        raise NothingToPlotError(NO_COLUMNS)
    return model


def sample_of(model: ModelView, size: int) -> NDArray[Any]:
    """The feature rows of a fixed random sample of candidates."""
    pool = model.pool
    arms = np.random.default_rng(0).permutation(pool.n_arms)[:size]
    return pool.take(np.sort(arms))


def importance_data(view: RunView) -> ImportanceData:
    """The columns by the share of the predictions' variance that depends on them."""
    model = model_of(view)
    size = max(2, min(SAMPLE, MOST_ROWS // len(model.columns)))
    rows = sample_of(model, size)
    posterior, rng = model.run.posterior, np.random.default_rng(1)
    with threads_for(model.pool.n_arms):
        before = posterior.at(model.encoded(rows))[0]
        spread = float(before.var())
        found = []
        for column in model.columns:
            shuffled = column.put(rows, rows[rng.permutation(len(rows))][:, list(column.places)])
            after = posterior.at(model.encoded(shuffled))[0]
            found.append(0.5 * float(((before - after) ** 2).mean()) / spread if spread > 0 else 0.0)
    order = sorted(range(len(found)), key=lambda place: -found[place])
    names = [model.columns[place].name for place in order]
    return ImportanceData(names, [found[place] for place in order], len(rows))


def effect_data(view: RunView, column: str, around: Any = None) -> EffectData:
    """The effect of a column, averaged over candidates or, with `around`, for one candidate (an id)."""
    model = model_of(view)
    chosen = next((each for each in model.columns if each.name == column), None)
    if chosen is None:
        names = ", ".join(repr(each.name) for each in model.columns[:20])
        raise InvalidParameterError("column", column, f"one of {names}")
    pool = model.pool
    if around is None:
        rows, name = sample_of(model, AVERAGED), None
    else:
        arm = pool.index_of(around)
        rows, name = pool.take([arm]), str(around)
    grid = chosen.grid(pool.features)
    with threads_for(pool.n_arms):
        found = [_average(model, model.encoded(chosen.put(rows, cells))) for _, cells in grid]
    mean, std = np.array([m for m, _ in found]), np.sqrt([v for _, v in found])
    belief_factor = 1.0 if model.run.model is None else model.run.model.std_factor
    ends = model.model_interval(mean, belief_factor * std, NINETY)
    middle, lower, upper = (each.tolist() for each in ends)
    return EffectData(
        column, chosen.is_category, [value for value, _ in grid], middle, lower, upper, name, len(rows),
        chosen.is_logarithmic(pool.features),
    )  # fmt: skip


def _average(model: ModelView, rows: Any) -> tuple[float, float]:
    """Mean and variance of the average of the model's function over these rows."""
    posterior = model.run.posterior
    state = posterior.state
    Z = posterior.embedding().matrix(rows)
    centre: Floats = Z.mean(axis=0)
    mean = float(centre @ state.weights.vector)
    variance = state.ridge * float(centre @ state.weights.precision.apply(centre[:, None])[:, 0])
    if state.keeps_residual:
        variance += max(0.0, _average_covariance(posterior, rows) - float(centre @ centre))
    return mean, max(variance, 0.0)


def _average_covariance(posterior: Posterior, rows: Any) -> float:
    """The prior variance of the average: the mean of all covariances between the rows."""
    return float(covariances(posterior.kernel, rows, rows).mean())


def columns_by_importance(view: RunView, most: int) -> list[Column]:
    """The most important columns, the first of them the most important."""
    model = model_of(view)
    by_name = {column.name: column for column in model.columns}
    return [by_name[name] for name in importance_data(view).columns[:most]]
