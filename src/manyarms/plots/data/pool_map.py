"""The data of the map of the pool: every candidate as a point in two dimensions.

The axes are the first two principal components of the candidates' features, each scaled to unit variance
(fingerprints: the bits themselves), or the two most important columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidParameterError, NothingToPlotError
from manyarms.plots.data.influence import columns_by_importance
from manyarms.plots.numbers import thinned
from manyarms.plots.view import ModelView, RunView
from manyarms.pool.columns import Column
from manyarms.support.validation import Floats, Ints

MOST_OTHERS = 1500  # candidates drawn that were neither measured nor recommended
MOST_OF_A_KIND = 1000
FITTED = 1500  # candidates that the components are computed from
RECOMMENDED = 10
COMPONENTS, COLUMNS = "components", "columns"
OTHER, MEASURED, PENDING, CHOSEN = "not measured", "measured", "pending", "recommended"
KINDS = (OTHER, MEASURED, PENDING, CHOSEN)


@dataclass(frozen=True)
class MapPoint:
    """One candidate: its place on the map, its id, what it is, and the model's mean."""

    x: float
    y: float
    id: str
    kind: str
    mean: float


@dataclass(frozen=True)
class MapData:
    """The points that are drawn, the titles of the axes, and how many candidates of each kind there are."""

    points: list[MapPoint]
    x_title: str
    y_title: str
    counts: dict[str, int]
    explained: float | None  # the share of the variance that the two components hold


def pool_map_data(view: RunView, by: str = COMPONENTS) -> MapData:
    """The map, by "components" or "columns"."""
    if by not in (COMPONENTS, COLUMNS):
        raise InvalidParameterError("by", by, f"{COMPONENTS!r} or {COLUMNS!r}")
    model = view.model()
    if model is None:
        raise NothingToPlotError("There are no results to learn from yet.")
    kinds, counts = _kinds(model)
    arms = np.concatenate([kinds[kind] for kind in KINDS])
    labels = [kind for kind in KINDS for _ in range(len(kinds[kind]))]
    if by == COLUMNS:
        places, titles, explained = _by_columns(view, model, arms)
    else:
        places, titles, explained = _by_components(model, arms)
    means = model.to_user(model.run.predict(arms)[0])
    rows = zip(*places.T.tolist(), model.names(arms), labels, means.tolist(), strict=True)
    return MapData([MapPoint(*row) for row in rows], *titles, counts, explained)


def _kinds(model: ModelView) -> tuple[dict[str, Ints], dict[str, int]]:
    """The arms of each kind that are drawn, and the number of all of them; no arm has two kinds."""
    run = model.run
    n_arms = model.pool.n_arms
    utilities = model.utilities()
    chosen = np.argsort(-utilities, kind="stable")[:RECOMMENDED]
    pending = np.setdiff1d(model.pending, chosen)
    measured = np.setdiff1d(run.state.history.arms, np.concatenate([chosen, pending]))
    taken = np.zeros(n_arms, dtype=bool)
    taken[np.concatenate([chosen, pending, measured])] = True
    others = np.flatnonzero(~taken)
    sample = np.sort(np.random.default_rng(0).permutation(others)[:MOST_OTHERS])
    whole = {OTHER: others, MEASURED: measured, PENDING: pending, CHOSEN: chosen}
    drawn = {
        kind: np.array(thinned(arms.tolist(), MOST_OF_A_KIND), dtype=np.int64) for kind, arms in whole.items()
    }
    return {**drawn, OTHER: sample}, {kind: len(arms) for kind, arms in whole.items()}


def _by_columns(view: RunView, model: ModelView, arms: Ints) -> tuple[Floats, tuple[str, str], None]:
    columns = [column for column in columns_by_importance(view, 10) if not column.is_category][:2]
    if len(columns) < 2:
        raise NothingToPlotError("The pool has fewer than two columns of numbers.")
    rows = model.pool.take(arms)
    places = np.column_stack([_numbers(rows, column) for column in columns])
    return places, (columns[0].name, columns[1].name), None


def _numbers(rows: NDArray[Any], column: Column) -> Floats:
    return np.asarray(rows[:, column.places[0]], dtype=np.float64)


def _by_components(model: ModelView, arms: Ints) -> tuple[Floats, tuple[str, str], float]:
    """The first two principal components, with signs that make the largest loading positive."""
    from scipy.linalg import svd

    n_arms = model.pool.n_arms
    fitted = np.sort(np.random.default_rng(0).permutation(n_arms)[:FITTED])
    reference, bits = _vectors(model, fitted)
    centre, spread = reference.mean(axis=0), reference.std(axis=0)
    scale = np.ones_like(spread) if bits else np.where(spread > 0, spread, np.inf)
    _, singular, axes = svd((reference - centre) / scale, full_matrices=False)
    axes = np.vstack([axes, np.zeros((2, axes.shape[1]))])[:2]
    axes *= np.where(np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1) < 0, -1.0, 1.0)
    total = float((singular**2).sum())
    explained = float((singular[:2] ** 2).sum()) / total if total > 0 else 0.0
    places = (_vectors(model, arms)[0] - centre) / scale @ axes.T
    return places, ("first principal component", "second principal component"), explained


def _vectors(model: ModelView, arms: Ints) -> tuple[Floats, bool]:
    """The features of some arms as vectors, and whether they are bits."""
    context = model.run.context
    for pool in (context.encoded_pool, model.pool):
        features = pool.features
        if features.ndim == 2 and not model.columns and features.dtype == np.dtype(np.uint8):
            return np.unpackbits(features[arms], axis=1).astype(np.float64), True
        if features.ndim == 2 and features.dtype.kind in "fb":
            return np.asarray(features[arms], dtype=np.float64), False
    if model.pool.features.ndim == 2 and model.pool.features.dtype.kind in "iu":
        return np.asarray(model.pool.features[arms], dtype=np.float64), False
    raise NothingToPlotError("The candidates are not numbers, so they have no place on a map.")
