"""Columns of the table that hold results: warned of by their names, refused once results are known.

A table that another program exported often holds measurements beside the descriptions. As a feature, such a
column makes the predictions of the model worthless where its cells are not results, and nothing shows it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyarms.errors import LeakingColumnError
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats

RESULT_WORDS = {
    "measured", "measurement", "objective", "outcome", "output", "response", "result", "results", "reward",
    "score", "target", "value", "y",
}  # fmt: skip
MIN_ARMS, MIN_VALUES = 8, 5  # different arms and different values from which a correlation says anything
_ROUNDING = 1e-9  # a correlation within this of 1 is exact


def named_like_results(columns: Sequence[str]) -> tuple[str, ...]:
    """A sentence for each column that is used as a feature and has the name of a result."""
    return tuple(
        f"warning: column {name!r} is used as a feature, but its name is that of a result; if it holds "
        "measurements, create the campaign without it (--features)"
        for name in columns
        if name.strip().lower() in RESULT_WORDS
    )


def check_no_column_holds_results(pool: Pool, values: Sequence[tuple[int, float]]) -> None:
    """Raise an error if a numeric column of the pool is a linear function of the values of these arms."""
    arms, places = np.unique([arm for arm, _ in values], return_inverse=True)
    if len(arms) < MIN_ARMS or pool.features.ndim != 2 or pool.features.dtype.kind not in "fiu":
        return
    counts = np.bincount(places)
    means = np.bincount(places, [value for _, value in values]) / counts
    if len(np.unique(means)) < MIN_VALUES:
        return
    found = np.flatnonzero(
        _correlations(np.asarray(pool.take(arms), dtype=np.float64), means) > 1 - _ROUNDING
    )
    if len(found):
        j = int(found[0])
        column = repr(pool.names[j]) if pool.names else str(j)
        raise LeakingColumnError(
            f"column {column} of the table is a feature, and the {len(arms)} results so far are an exact "
            "linear function of it: it seems to hold the results themselves. Create the campaign again and "
            "name the columns that are known before a measurement with --features (also this one if it is)"
        )


def _correlations(columns: Floats, values: Floats) -> Floats:
    """The absolute correlation of each column with the values; 0 for a constant column."""

    def standardised(rows: Floats) -> Floats:
        centred = rows - rows.mean(axis=0)
        largest = np.abs(centred).max(axis=0, initial=0.0)
        scaled = np.divide(centred, largest, out=np.zeros_like(centred), where=largest > 0)
        norms = np.sqrt((scaled**2).sum(axis=0))
        return np.asarray(np.divide(scaled, norms, out=np.zeros_like(scaled), where=norms > 0))

    return np.asarray(np.abs(standardised(columns).T @ standardised(values)))
