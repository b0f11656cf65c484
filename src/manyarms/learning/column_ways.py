"""The ways in which the columns of a pool may be read: whole numbers as names, −1 as missing, logarithms.

Which way is right cannot be seen in the pool. Every column has a usual way, and here its alternatives are
listed; the evidence of the results chooses among them (`way_search.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.kernels import readings as kinds
from manyarms.kernels.readings import Reading
from manyarms.learning.mixed_family import Way
from manyarms.learning.natural_order import ranks
from manyarms.learning.numeric_columns import Column, sampled_rows, skewness
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, Ints

MOST_NAMES = 50  # a column of whole numbers with more different values is not tried as names
LOG_RANGE = 10.0  # highest over lowest value, from which a logarithm is tried
SKEWED = 0.2  # skewness of a column for which a logarithm is a usual guess
LOW = 0.01  # the quantile from which on a logarithm is one; values near zero are not spread out
LEAST_MISSING, MOST_MISSING = (
    0.01,
    0.9,
)  # share of the rows with the lowest value, if it may stand for "missing"
LEAST_CATEGORIES = 3  # of two, the order says nothing

Ways = tuple[Way, ...]  # of one column, the usual one first


def ways_of_names(
    codes: NDArray[Any], labels: Sequence[Sequence[str] | None], names: Sequence[str]
) -> tuple[Ways, ...]:
    """For columns of codes: as names and, where the categories have an order, by their place in it.

    `labels` are the texts of a column's categories; None if it had no texts, so that the place of a code may
    be what it means. `names` are those of the columns.
    """
    return tuple(
        _names_or_order(codes[:, j].astype(np.int64), j, texts, name)
        for j, (texts, name) in enumerate(zip(labels, names, strict=True))
    )


def _names_or_order(codes: NDArray[Any], j: int, texts: Sequence[str] | None, name: str) -> Ways:
    usual = Way((Reading(kinds.NAME, (j,)),))
    n = int(codes.max()) + 1 if texts is None else len(texts)
    order = range(n) if texts is None else ranks(texts)
    if n < LEAST_CATEGORIES or order is None:
        return (usual,)
    values = np.array([*order, 0.5 * (n - 1)], dtype=np.float64)
    scale = float(values[codes].std()) or 1.0
    return usual, Way(
        (Reading(kinds.LEVEL, (j,), tuple(values.tolist()), scale),), f"column {name} in order", 1
    )


def ways_of_numbers(
    pool: Pool,
    columns: Sequence[Column],
    blocks: Sequence[Any],
    named: Callable[[Any], str],
    labels: Sequence[str] | None,
) -> tuple[Ways, ...]:
    """For the columns of a numeric pool, of which those of a block are the one-hot columns of one category.

    `pool` holds the features before they are transformed, the readings are of those after. `named` gives the
    name of a block for the user, `labels` are the names of the columns.
    """
    sample = sampled_rows(pool)
    ways = []
    for block in dict.fromkeys(blocks):
        places = [j for j, each in enumerate(blocks) if each == block and not columns[j].constant]
        if len(places) > 1:
            texts = None if labels is None else [labels[j] for j in places]
            ways.append(_of_indicators(tuple(places), sample[:, places], texts, named(block)))
        elif places:
            j = places[0]
            ways.append(_of_numbers(j, columns[j], sample[:, j], named(block)))
    return tuple(ways)


def _of_indicators(places: tuple[int, ...], sample: Floats, texts: Sequence[str] | None, name: str) -> Ways:
    usual = Way((Reading(kinds.INDICATORS, places),), column=name)
    order = range(len(places)) if texts is None else ranks(texts)
    if len(places) < LEAST_CATEGORIES or order is None:
        return (usual,)
    values = tuple(float(rank) for rank in order)
    scale = float((sample @ np.array(values)).std()) or 1.0
    return usual, Way((Reading(kinds.RANK, places, values, scale),), f"{name} in order", 1)


def _of_numbers(j: int, column: Column, sample: Floats, name: str) -> Ways:
    usual = Way((Reading(kinds.NUMBER, (j,), scale=column.spread),), spacing=column.spacing / column.spread)
    if column.binary:
        return (usual,)
    values, counts = np.unique(sample, return_counts=True)
    ways = [usual]
    if LEAST_CATEGORIES <= len(values) <= MOST_NAMES and (column.integral or column.levels):
        ways.append(Way((Reading(kinds.NAME, (j,)),), f"{name} as names", 1, name))
    ways += _with_missing(j, column, sample, (values, counts), name)
    if column.logarithmic:
        raw = column.scale * np.sinh(column.transform(sample))
        power = Reading(kinds.POWER, (j,), (column.scale,), float(raw.std()) or 1.0)
        ways.append(Way((power,), f"{name} without logarithm", 1))
    elif not column.is_transformed and not column.few_levels:
        ways += _logarithm(j, kinds.LOGARITHM, (), sample, name)
    return tuple(ways)


def _with_missing(
    j: int, column: Column, sample: Floats, values: tuple[Floats, Ints], name: str
) -> list[Way]:
    """A negative lowest value of many rows, below values that are not negative, may stand for "missing"."""
    found, counts = values
    share = counts[0] / len(sample)
    if column.levels or len(found) <= LEAST_CATEGORIES or not LEAST_MISSING <= share <= MOST_MISSING:
        return []
    if not (found[0] < 0 <= found[1] and found[0] == column.lowest and found[0] == np.floor(found[0])):
        return []
    lowest, next_lowest = column.transform(found[:2])
    limit = 0.5 * float(lowest + next_lowest)
    present = sample[sample > found[0]]
    middle = float(column.transform(np.array([np.median(present)]))[0])
    scale = float(column.transform(present).std()) or 1.0
    mark = Reading(kinds.MISSING, (j,), (limit,))
    words = f"{name} with {found[0]:g} for missing"
    spacing = column.spacing / scale
    ways = [Way((Reading(kinds.PRESENT, (j,), (limit, middle), scale), mark), words, 1, spacing=spacing)]
    if not column.is_transformed:
        logarithms = _logarithm(j, kinds.PRESENT_LOGARITHM, (limit, middle), present, words)
        ways += [Way((*way.readings, mark), way.words, 1 + way.cost) for way in logarithms]
    return ways


def _logarithm(j: int, kind: str, values: tuple[float, ...], numbers: Floats, name: str) -> list[Way]:
    """The logarithm of a column without negative values, if they span an order of magnitude.

    It is less likely for a column that was drawn evenly.
    """
    positive = numbers[numbers > 0]
    if not len(positive) or numbers.min() < 0 or 2 * len(positive) < len(numbers):
        return []
    lowest, highest = float(np.quantile(positive, LOW)), float(positive.max())
    if highest / LOG_RANGE < lowest or len(np.unique(numbers)) <= LEAST_CATEGORIES:
        return []
    below = lowest / 2
    spread = float(np.arcsinh(numbers / below).std()) if below > 0 and np.isfinite(highest / below) else 0.0
    if not spread > 0:
        return []
    cost = 1 if skewness(numbers / highest) > SKEWED else 2
    return [Way((Reading(kind, (j,), (*values, below), spread),), f"{name} as a logarithm", cost)]
