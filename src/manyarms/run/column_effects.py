"""What each column of a candidate contributes to its prediction (theory §4.14).

The question is what the prediction would be if one column had another value. The model answers it at a
feature row that need not be in the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.pool.columns import Column
from manyarms.pool.pool import Pool
from manyarms.run.belief import Belief
from manyarms.run.context import RunContext
from manyarms.run.reward_scale import RewardScale
from manyarms.support.validation import Floats, Ints

AVERAGED = 64  # candidates of the pool that a column's values are taken from
_FEWEST, _MOST_ROWS = 8, 20_000  # the fewest, if there are very many columns; predictions for _TOGETHER arms
_TOGETHER = 50  # arms whose rows are in memory at the same time


@dataclass(frozen=True)
class ColumnEffect:
    """What one column contributes to a prediction, in reward units and with their sign.

    `value` is the arm's value of the column, a number or the text of a kind. `against_pool` is the prediction
    minus its average over values that the column has elsewhere in the pool. `best_value` is the value of the
    best arm found, and `against_best` the prediction minus that with this value.
    """

    column: str
    value: float | str
    against_pool: float
    best_value: float | str
    against_best: float


def column_effects(
    context: RunContext, belief: Belief, pool: Pool, columns: Sequence[Column], arms: Ints, best: int
) -> list[tuple[ColumnEffect, ...]]:
    """For each arm, the columns that change its prediction, those first that speak most for it.

    `pool` has the user's features, and `best` is the arm to compare with.
    """
    model, of_best = _Predictions(context, belief), pool.take(np.array([best]))
    others = _sample(pool, min(len(arms), _TOGETHER) * len(columns))
    parts = [pool.take(arms[start : start + _TOGETHER]) for start in range(0, len(arms), _TOGETHER)]
    return [each for rows in parts for each in _of_rows(model, columns, rows, of_best, others, context.sign)]


def _of_rows(
    model: _Predictions,
    columns: Sequence[Column],
    rows: NDArray[Any],
    of_best: NDArray[Any],
    others: NDArray[Any],
    sign: float,
) -> list[tuple[ColumnEffect, ...]]:
    """The same for a few feature rows."""
    now = model.of(rows)
    found: list[list[ColumnEffect]] = [[] for _ in rows]
    for column in columns:
        usual = model.of(_replaced(rows, column, others)).reshape(len(rows), -1).mean(axis=1)
        as_best = model.of(_replaced(rows, column, of_best))
        for place, effects in enumerate(found):
            against = float(now[place] - usual[place]), float(now[place] - as_best[place])
            if any(against):
                value, other = _value(column, rows[place]), _value(column, of_best[0])
                effects.append(ColumnEffect(column.name, value, against[0], other, against[1]))
    for effects in found:
        effects.sort(key=lambda each: -sign * each.against_pool)
    return [tuple(effects) for effects in found]


class _Predictions:
    """The predictions at any feature rows of the user, in reward units."""

    def __init__(self, context: RunContext, belief: Belief) -> None:
        self._prepared, posterior = context.prepared, belief.posterior
        self._embedding, self._weights = posterior.embedding(), posterior.state.weights.vector
        self._scale = RewardScale(belief.model, context.sign)

    def of(self, rows: NDArray[Any]) -> Floats:
        """The predictions at these rows."""
        encoded = rows if self._prepared is None else self._prepared.encode(rows)
        return self._scale.rewards(self._embedding.matrix(encoded) @ self._weights)


def _sample(pool: Pool, n_questions: int) -> NDArray[Any]:
    """The feature rows of a fixed random sample of the pool; fewer if there are very many questions."""
    size = min(pool.n_arms, max(_FEWEST, min(AVERAGED, _MOST_ROWS // n_questions)))
    return pool.take(np.sort(np.random.default_rng(0).choice(pool.n_arms, size, replace=False)))


def _replaced(rows: NDArray[Any], column: Column, others: NDArray[Any]) -> NDArray[Any]:
    """Each row with the column's cells of each of the others, len(rows) · len(others) rows."""
    cells = np.tile(others[:, list(column.places)], (len(rows), 1))
    return column.put(np.repeat(rows, len(others), axis=0), cells)


def _value(column: Column, row: NDArray[Any]) -> float | str:
    """The value of a column in a feature row."""
    cells = tuple(row[list(column.places)].tolist())
    if not column.is_category:
        return float(cells[0])
    if len(column.places) > 1:
        return next((text for text, kind in column.kinds if kind == cells), "")
    return str(cells[0])
