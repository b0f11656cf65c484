"""Convert the description of the arms (numbers, bits, strings, objects) to one array a kernel can slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import EmptyPoolError, InvalidFeaturesError, shown
from manyarms.support.validation import inexact_integer, is_missing, masked_entries

_CHECK_ROWS = 1 << 16  # rows checked at a time, so that a memory-mapped table is never loaded whole
NUMBERS = "biuf"  # numpy's kinds of booleans, integers and floats
_HINTS = {
    "c": "a feature must be a real number",
    "M": "turn dates into numbers first",
    "m": "turn durations into numbers first",
    "V": "turn its fields into columns first (numpy.lib.recfunctions.structured_to_unstructured)",
}


def as_features(features: Any, names: Sequence[str] | None = None) -> NDArray[Any]:
    """A read-only array with one entry or row per arm; numbers are checked to be finite.

    An array keeps its type (float32 stays float32, booleans stay booleans) and a memory-mapped one stays
    on disk. Strings become one fixed-width array, other objects an object array. The column `names` are
    used in error messages.
    """
    array = _plain_array(features) if isinstance(features, np.ndarray) else _from_sequence(features)
    if array.ndim == 0:
        raise InvalidFeaturesError(f"one row per arm is needed, got the single value {shown(features)}")
    if len(array) == 0:
        raise EmptyPoolError("a pool needs at least one arm")
    kind = array.dtype.kind
    if kind in _HINTS:
        raise InvalidFeaturesError(f"features of type {array.dtype} cannot be used: {_HINTS[kind]}")
    if array.ndim > 2:
        raise InvalidFeaturesError(f"features must be a matrix with one row per arm, got shape {array.shape}")
    if kind in NUMBERS:
        array = _checked_numbers(array, names)
    view = array.view()
    view.flags.writeable = False
    return view


def as_objects(features: Any) -> NDArray[np.object_]:
    """One Python object per arm, whatever it is."""
    items = list(features)
    objects = np.empty(len(items), dtype=object)
    for arm, item in enumerate(items):  # a plain assignment would read items of equal length as a matrix
        objects[arm] = item
    return objects


def row_blocks(array: NDArray[Any], rows: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """(first row, slice) pairs that cover the array."""
    for start in range(0, len(array), rows):
        yield start, array[start : start + rows]


def joined_columns(columns: Sequence[NDArray[Any]], names: Sequence[str]) -> NDArray[Any]:
    """Columns of numbers side by side, in the narrowest common type; no integer loses digits."""
    common = np.result_type(*columns)
    for column, name in zip(columns, names, strict=True):
        if common.kind == "f":
            too_large = inexact_integer(column)
            if too_large is not None:
                raise InvalidFeaturesError(
                    f"{too_large} in column {name!r} is too large to be stored exactly as a float"
                )
    return np.column_stack([column.astype(common, copy=False) for column in columns])


def _plain_array(array: NDArray[Any]) -> NDArray[Any]:
    """The array without subclasses and unusual types."""
    hidden = masked_entries(array)
    if hidden is not None:
        raise InvalidFeaturesError(f"the feature at {_position(hidden)} is masked")
    if not isinstance(array, np.memmap):
        array = np.asarray(array)
    if array.dtype.kind in "OT" and array.ndim:  # objects, and numpy strings of variable length
        objects = array.astype(object)
        return _numbers_or_strings(objects, objects)
    if array.dtype == np.dtype(np.longdouble) and array.dtype.itemsize > 8:
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    return array


def _from_sequence(features: Any) -> NDArray[Any]:
    if hasattr(features, "toarray"):
        raise InvalidFeaturesError(f"features are a sparse {type(features).__name__}: pass its toarray()")
    if hasattr(features, "__array__") and not isinstance(features, type):
        return _plain_array(np.asarray(features))
    if isinstance(features, str | bytes) or not isinstance(features, Sequence):
        kind = type(features).__name__
        raise InvalidFeaturesError(f"features must be an array, a data frame or a sequence, got {kind}")
    try:
        array = np.asarray(features)
        if array.dtype.kind in NUMBERS or array.dtype.kind in _HINTS:
            return array
        return _numbers_or_strings(np.asarray(features, dtype=object), as_objects(features))
    except (ValueError, TypeError, OverflowError) as problem:
        if isinstance(problem, InvalidFeaturesError):
            raise
        _check_row_lengths(features)  # numpy cannot make a matrix of rows of unequal length
        return as_objects(features)


def _numbers_or_strings(array: NDArray[np.object_], otherwise: NDArray[np.object_]) -> NDArray[Any]:
    """Python objects as an array of floats or of strings, if all of them are numbers or all are strings."""
    cells = array.ravel().tolist()
    if all(isinstance(cell, str) for cell in cells):
        return array.astype(np.str_)
    numbers = [isinstance(cell, Real | Decimal | np.bool_) for cell in cells]
    missing = [is_missing(cell) for cell in cells]
    if not any(numbers) or not all(a or b for a, b in zip(numbers, missing, strict=True)):
        return otherwise
    if any(missing):
        position = _position(np.reshape(missing, array.shape))
        raise InvalidFeaturesError(f"the feature at {position} is missing ({cells[missing.index(True)]!r})")
    return np.array([_as_float(cell) for cell in cells]).reshape(array.shape)


def _as_float(cell: Any) -> float:
    try:
        return float(cell)
    except OverflowError:
        raise InvalidFeaturesError(f"feature {shown(cell)} is too large for a float") from None


def _check_row_lengths(features: Sequence[Any]) -> None:
    """Refuse rows of numbers of unequal length: they are a mistake, not objects."""
    if all(isinstance(row, list | tuple) and all(isinstance(x, Real) for x in row) for row in features):
        first = len(features[0])
        arm = next((arm for arm, row in enumerate(features) if len(row) != first), None)
        if arm is not None:
            raise InvalidFeaturesError(
                f"rows differ in length: row 0 has {first} numbers, row {arm} has {len(features[arm])}"
            )


def _position(wrong: NDArray[Any]) -> str:
    first = [int(i) for i in np.argwhere(wrong)[0]]
    return f"row {first[0]}" + (f", column {first[1]}" if len(first) > 1 else "")


def _checked_numbers(array: NDArray[Any], names: Sequence[str] | None) -> NDArray[Any]:
    if array.ndim == 1:
        array = array[:, None]
    if array.shape[1] == 0:
        raise InvalidFeaturesError(f"the arms have no features: the array has shape {array.shape}")
    if array.dtype.kind == "f":
        for start, block in row_blocks(array, _CHECK_ROWS):
            wrong = ~np.isfinite(block)
            if wrong.any():
                row, column = (int(i) for i in np.argwhere(wrong)[0])
                named = isinstance(names, Sequence) and len(names) == array.shape[1]
                name = repr(names[column]) if names is not None and named else str(column)
                raise InvalidFeaturesError(
                    f"feature {block[row, column]} in row {start + row}, column {name} is not finite"
                )
    return array
