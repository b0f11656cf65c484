"""Columns of the table that hold results: warned of by their names, refused once results are known.

A table that another program exported often holds measurements beside the descriptions. As a feature, such a
column makes the predictions of the model worthless where its cells are not results, and nothing shows it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from manyarms.errors import LeakingColumnError
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats

RESULT_WORDS = {
    "measured", "measurement", "objective", "outcome", "output", "response", "result", "results", "reward",
    "score", "target", "value", "values", "y",
}  # fmt: skip
BESIDE_THEM = {
    "average", "avg", "experimental", "exp", "final", "mean", "median", "obs", "observed", "test", "total",
    "true", "raw",
}  # fmt: skip  # words that leave the name of a result one, and numbers
MIN_ARMS, MIN_VALUES = 8, 5  # different arms and different values from which a correlation says anything
MIN_RESEMBLING, RESEMBLES = 12, 0.99  # arms, and correlation of values or ranks, from which to warn
_ROUNDING = 1e-9  # a correlation within this of 1 is exact


def named_like_results(columns: Sequence[str]) -> tuple[str, ...]:
    """A sentence for each column that is used as a feature and has the name of a result."""
    return tuple(
        f"warning: column {name!r} is used as a feature, but its name is that of a result; if it holds "
        "measurements, create the campaign without it (--features)"
        for name in columns
        if _is_result(name)
    )


def _is_result(name: str) -> bool:
    """Whether a name consists of words for results, such as `Measured value (mg)` or `y_mean_2`."""
    words = re.findall(r"[^\W\d_]+", re.sub(r"[(\[].*?[)\]]", " ", name).lower())
    return bool(RESULT_WORDS.intersection(words)) and RESULT_WORDS.union(BESIDE_THEM).issuperset(words)


def check_no_column_holds_results(pool: Pool, values: Sequence[tuple[int, float]]) -> None:
    """Raise an error if a numeric column of the pool is a linear function of the values of these arms."""
    known = _columns_and_averages(pool, values, MIN_ARMS)
    if known is None:
        return
    found = np.flatnonzero(_correlations(*known) > 1 - _ROUNDING)
    if len(found):
        column, n = _named(pool, int(found[0])), len(known[1])
        raise LeakingColumnError(
            f"column {column} of the table is a feature, and the {n} results so far are an exact linear "
            "function of it: it seems to hold the results themselves. Create the campaign again and name the "
            "columns that are known before a measurement with --features, or with --categories if they hold "
            "texts (also this one if it is known)"
        )


def resembling_columns(pool: Pool, values: Sequence[tuple[int, float]]) -> tuple[str, ...]:
    """A sentence for each numeric column that nearly is a function of the values of these arms.

    That may be the column to learn from, or the results themselves with noise or in other units. Only the
    user can tell.
    """
    known = _columns_and_averages(pool, values, MIN_RESEMBLING)
    if known is None:
        return ()
    columns, means = known
    by_value = _correlations(columns, means)
    by_rank = _correlations(_ranks(columns), _ranks(means[:, None])[:, 0])
    found = np.flatnonzero(np.maximum(by_value, by_rank) >= RESEMBLES).tolist()
    return tuple(
        f"warning: column {_named(pool, place)} almost determines the {len(means)} results so far "
        f"(correlation {by_value[place]:.3f}, of ranks {by_rank[place]:.3f}); if it holds measurements, "
        "create the campaign again without it (--features)"
        for place in found
    )


def _named(pool: Pool, place: int) -> str:
    return repr(pool.names[place]) if pool.names else str(place)


def _columns_and_averages(
    pool: Pool, values: Sequence[tuple[int, float]], fewest: int
) -> tuple[Floats, Floats] | None:
    """The features of the arms with values, and the average value of each; None if they say too little."""
    arms, places = np.unique([arm for arm, _ in values], return_inverse=True)
    if len(arms) < fewest or pool.features.ndim != 2 or pool.features.dtype.kind not in "fiu":
        return None
    means = np.bincount(places, [value for _, value in values]) / np.bincount(places)
    if len(np.unique(means)) < MIN_VALUES:
        return None
    return np.asarray(pool.take(arms), dtype=np.float64), means


def _ranks(columns: Floats) -> Floats:
    """The rank of each value in its column; ties share the middle rank."""
    ranks = np.empty(columns.shape)
    for place, column in enumerate(columns.T):
        _, group, counts = np.unique(column, return_inverse=True, return_counts=True)
        ranks[:, place] = (np.cumsum(counts) - 0.5 * (counts + 1))[group.reshape(-1)]
    return ranks


def _correlations(columns: Floats, values: Floats) -> Floats:
    """The absolute correlation of each column with the values; 0 for a constant column."""

    def standardised(rows: Floats) -> Floats:
        centred = rows - rows.mean(axis=0)
        largest = np.abs(centred).max(axis=0, initial=0.0)
        scaled = np.divide(centred, largest, out=np.zeros_like(centred), where=largest > 0)
        norms = np.sqrt((scaled**2).sum(axis=0))
        return np.asarray(np.divide(scaled, norms, out=np.zeros_like(scaled), where=norms > 0))

    return np.asarray(np.abs(standardised(columns).T @ standardised(values)))
