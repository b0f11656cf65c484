"""Settings of a program as features: each arm is a mapping from parameter names to values.

Grids of scikit-learn, search spaces of Optuna and of Kernel Tuner all consist of such rows. A parameter
becomes columns as follows.

* Numbers and booleans: one column of numbers.
* Tuples of numbers that all have the same length: one column for each position.
* Up to `MANY_LABELS` different other values (texts, None, objects): one column of labels, which are modelled
  as categories. With more of them, a column with the order of their first appearance.
* Numbers in some rows and other values in the rest, or parameters that some rows do not have: a column of
  numbers, filled with the median, and a column of labels that says which rows have a number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import EmptyPoolError

MANY_LABELS = 100  # a category with more values than this says little about any of them
_ABSENT = object()


def parameter_features(rows: Sequence[Mapping[str, Any]]) -> tuple[NDArray[Any], list[str]]:
    """The features of an arm for each row, and the names of the columns."""
    if not len(rows):
        raise EmptyPoolError("there are no settings to choose from")
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, list[Any]] = {}
    for name in names:
        columns |= _columns(name, [row.get(name, _ABSENT) for row in rows])
    if not columns:  # one candidate without parameters
        columns = {"": [0.0] * len(rows)}
    if any(isinstance(column[0], str) for column in columns.values()):
        table = np.empty((len(rows), len(columns)), dtype=object)
        for j, column in enumerate(columns.values()):
            table[:, j] = column
        return table, list(columns)
    return np.array(list(columns.values()), dtype=np.float64).T, list(columns)


def _columns(name: str, values: list[Any]) -> dict[str, list[Any]]:
    """The columns of one parameter, by name."""
    numbers = [number_or_none(value) for value in values]
    if all(number is not None for number in numbers):
        return {name: numbers}
    positions = _positions(values)
    if positions is not None:
        return {f"{name}[{i}]": list(column) for i, column in enumerate(positions)}
    if all(number is None for number in numbers):
        return {name: _labelled(values)}
    middle = float(np.median([number for number in numbers if number is not None]))
    filled = [middle if number is None else number for number in numbers]
    kinds = ["number" if number is not None else value for number, value in zip(numbers, values, strict=True)]
    return {name: filled, f"{name} (kind)": _labelled(kinds)}


def number_or_none(value: Any) -> float | None:
    """The value as a finite float; None if it is not a number."""
    if not isinstance(value, Real | np.bool_):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _positions(values: list[Any]) -> list[tuple[float, ...]] | None:
    """Tuples of numbers, transposed; None if the values are anything else."""
    if not all(isinstance(value, tuple | list) and len(value) == len(values[0]) > 0 for value in values):
        return None
    rows = [[number_or_none(item) for item in value] for value in values]
    if any(item is None for row in rows for item in row):
        return None
    return list(zip(*rows, strict=True))


def _labelled(values: list[Any]) -> list[Any]:
    """A label for each different value, in order of first appearance; a number if there are many."""
    place: dict[Any, int] = {}
    places = [place.setdefault(_key(value), len(place)) for value in values]
    if len(place) > MANY_LABELS:
        return [float(number) for number in places]
    return [f"value {number}" for number in places]


def _key(value: Any) -> Any:
    """What two equal values have in common; True and 1 are different values."""
    try:
        hash(value)
    except TypeError:
        return (type(value), id(value))
    return (type(value), value)
