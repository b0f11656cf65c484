"""Turn whatever describes the arms (numbers, bits, strings, objects) into one array a kernel can slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import EmptyPoolError, InvalidFeaturesError, MissingExtraError, shown
from manyarms.validation import inexact_integer, is_missing, masked_entries

_CHECK_ROWS = 1 << 16  # rows looked at together, so that a memory-mapped table is never loaded whole
_NUMBERS = "biuf"
_HINTS = {
    "c": "a feature must be a real number",
    "M": "turn dates into numbers first",
    "m": "turn durations into numbers first",
    "V": "turn its fields into columns first (numpy.lib.recfunctions.structured_to_unstructured)",
}


def as_features(features: Any, names: Sequence[str] | None = None) -> NDArray[Any]:
    """An array with one entry or row per arm, read-only, checked to be finite where it holds numbers.

    An array keeps its type (float32 stays float32, booleans stay booleans) and a memory-mapped one stays
    on disk. Strings become one fixed-width array, other objects an object array. `names` of the columns
    serve the error messages.
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
    if kind in _NUMBERS:
        array = _checked_numbers(array, names)
    view = array.view()
    view.flags.writeable = False
    return view


def as_objects(features: Any) -> NDArray[np.object_]:
    """One Python object per arm, whatever it is."""
    items = list(features)
    objects = np.empty(len(items), dtype=object)
    for arm, item in enumerate(items):  # a plain assignment would take equally long items for a matrix
        objects[arm] = item
    return objects


def row_blocks(array: NDArray[Any], rows: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """(first row, slice) pairs that walk over the array."""
    for start in range(0, len(array), rows):
        yield start, array[start : start + rows]


# ---------------------------------------------------------------------- arrays and sequences


def _plain_array(array: NDArray[Any]) -> NDArray[Any]:
    """Without the surprises of array subclasses and exotic types."""
    hidden = masked_entries(array)
    if hidden is not None:
        raise InvalidFeaturesError(f"the feature at {_place(hidden)} is masked")
    if not isinstance(array, np.memmap):
        array = np.asarray(array)
    if array.dtype.kind == "T":
        return array.astype(np.str_)
    if array.dtype == np.dtype(np.longdouble) and array.dtype.itemsize > 8:
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    return _from_objects(array, array) if array.dtype == object and array.ndim else array


def _from_sequence(features: Any) -> NDArray[Any]:
    if hasattr(features, "toarray"):
        raise InvalidFeaturesError(
            f"features are a sparse {type(features).__name__}: pass features.toarray()"
        )
    if hasattr(features, "__array__") and not isinstance(features, type):
        return _plain_array(np.asarray(features))
    if isinstance(features, str | bytes) or not isinstance(features, Sequence):
        raise InvalidFeaturesError(
            f"features must be an array, a data frame or a sequence, got {type(features).__name__}"
        )
    if len(features) == 0:
        raise EmptyPoolError("a pool needs at least one arm")
    try:
        array = np.asarray(features)
    except (ValueError, TypeError, OverflowError):  # ragged
        _check_row_lengths(features)
        return as_objects(features)
    return (
        array
        if array.dtype.kind in _NUMBERS or array.dtype.kind in _HINTS
        else _from_objects(array, features)
    )


def _from_objects(array: NDArray[Any], features: Any) -> NDArray[Any]:
    """What numpy could not store as numbers: strings, numbers in disguise, or truly objects."""
    cells = list(_cells(features))
    if cells and all(isinstance(cell, str) for cell in cells):
        return np.asarray(array, dtype=np.str_)
    missing = [is_missing(cell) and not isinstance(cell, float) for cell in cells]
    numbers = [isinstance(cell, Real | Decimal | np.bool_) for cell in cells]
    if any(numbers) and all(a or b for a, b in zip(missing, numbers, strict=True)):
        if any(missing):
            place = _place(np.reshape(missing, array.shape))
            raise InvalidFeaturesError(f"the feature at {place} is missing ({cells[missing.index(True)]!r})")
        try:
            return np.array([float(cell) for cell in cells]).reshape(array.shape)
        except OverflowError:
            raise InvalidFeaturesError("a feature is too large for a float") from None
    if array.dtype == object and array.ndim > 1 and isinstance(features, np.ndarray):
        return array
    return as_objects(features)


def _cells(features: Any) -> Iterator[Any]:
    for row in features:
        if isinstance(row, list | tuple | np.ndarray):
            yield from row
        else:
            yield row


def _check_row_lengths(features: Sequence[Any]) -> None:
    """Rows of numbers of unequal length are a slip, not objects."""
    if all(
        isinstance(row, list | tuple) and all(isinstance(x, Real | np.bool_) for x in row) for row in features
    ):
        for arm, row in enumerate(features):
            if len(row) != len(features[0]):
                raise InvalidFeaturesError(
                    f"rows differ in length: row 0 has {len(features[0])} numbers, row {arm} has {len(row)}"
                )


def _place(wrong: NDArray[Any]) -> str:
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
                name = repr(names[column]) if names is not None else str(column)
                raise InvalidFeaturesError(
                    f"feature {block[row, column]} in row {start + row}, column {name} is not finite"
                )
    return array


# ---------------------------------------------------------------------- data frames


def is_frame(features: Any) -> bool:
    """True for pandas and polars frames (anything with named columns that is no array)."""
    return hasattr(features, "columns") and not isinstance(features, np.ndarray)


def from_frame(frame: Any, id_column: str | None) -> tuple[NDArray[Any], Any, list[str]]:
    """Features, ids (or None) and feature names of a pandas or polars frame.

    The matrix has the narrowest type that holds every column: all float32 stays float32, all integers
    stay integers, all booleans stay booleans.
    """
    try:
        import narwhals as nw
    except ImportError:
        raise MissingExtraError("narwhals", "frames", "a data frame as a pool") from None
    try:
        table = nw.from_native(frame, eager_only=True)
    except (TypeError, ValueError) as problem:  # a lazy frame, something else with columns, repeated names
        raise InvalidFeaturesError(f"not a usable data frame: {problem}") from None
    if id_column is not None and id_column not in table.columns:
        raise InvalidFeaturesError(
            f"the frame has no column {id_column!r} for the ids; it has {shown(table.columns)}"
        )
    names: list[str] = []
    ids, columns = None, []
    for name, column in zip(table.columns, table.iter_columns(), strict=True):
        if id_column is not None and name == id_column:
            ids = column.to_list()
        else:
            names.append(str(name))
            columns.append(_frame_column(str(name), column, nw))
    if not columns:
        raise InvalidFeaturesError("the frame has no feature column left")
    return joined_columns(columns, names), ids, names


def joined_columns(columns: Sequence[NDArray[Any]], names: Sequence[str]) -> NDArray[Any]:
    """Columns of numbers side by side, in the narrowest common type; no integer loses its last digits."""
    common = np.result_type(*columns)
    for column, name in zip(columns, names, strict=True):
        if common.kind == "f":
            too_large = inexact_integer(column)
            if too_large is not None:
                raise InvalidFeaturesError(
                    f"{too_large} in column {name!r} is too large to be held as a float"
                )
    return np.column_stack([column.astype(common, copy=False) for column in columns])


def _frame_column(name: str, column: Any, nw: Any) -> NDArray[Any]:
    dtype = column.dtype
    if not (dtype.is_numeric() or dtype == nw.Boolean):
        raise InvalidFeaturesError(f"column {name!r} holds {dtype}, a feature must be numeric")
    missing = column.is_null()
    if missing.any():
        row = int(np.flatnonzero(missing.to_numpy())[0])
        raise InvalidFeaturesError(f"the feature in row {row}, column {name!r} is missing")
    values = np.asarray(column.to_numpy())
    return (
        values
        if values.dtype.kind in _NUMBERS
        else np.asarray(column.cast(nw.Float64).to_numpy(), np.float64)
    )
