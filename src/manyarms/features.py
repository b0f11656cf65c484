"""Turn whatever describes the arms (numbers, bits, strings, objects) into one array a kernel can slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import EmptyPoolError, InvalidFeaturesError, MissingExtraError

_CHECK_ROWS = 1 << 16  # rows looked at together, so that a memory-mapped table is never loaded whole


def is_frame(features: Any) -> bool:
    """True for pandas and polars frames (anything with named columns that is no array)."""
    return hasattr(features, "columns") and not isinstance(features, np.ndarray)


def from_frame(frame: Any, id_column: str | None) -> tuple[NDArray[Any], Any, list[str]]:
    """Features, ids (or None) and feature names of a pandas or polars frame."""
    try:
        import narwhals as nw
    except ImportError:
        raise MissingExtraError("narwhals", "frames", "a data frame as a pool") from None
    table = nw.from_native(frame, eager_only=True)
    if id_column is not None and id_column not in table.columns:
        raise InvalidFeaturesError(
            f"the frame has no column {id_column!r} for the ids; it has {table.columns}"
        )
    ids = None if id_column is None else table[id_column].to_list()
    names = [name for name in table.columns if name != id_column]
    if not names:
        raise InvalidFeaturesError("the frame has no feature column left")
    columns = []
    for name in names:
        if not (table[name].dtype.is_numeric() or table[name].dtype == nw.Boolean):
            raise InvalidFeaturesError(
                f"column {name!r} holds {table[name].dtype}, a feature must be numeric"
            )
        columns.append(np.asarray(table[name].cast(nw.Float64).to_numpy(), dtype=np.float64))
    return np.column_stack(columns), ids, [str(name) for name in names]


def as_features(features: Any) -> NDArray[Any]:
    """An array with one entry or row per arm, read-only, checked to be finite where it holds numbers.

    Floats keep their type (float32 stays float32) and memory-mapped arrays stay on disk. Booleans are
    packed eight to a byte. Strings become one fixed-width array, other objects an object array.
    """
    if isinstance(features, np.ndarray) and features.dtype != object:
        array = features
    else:
        array = _from_sequence(features)
    if array.ndim == 0:
        raise InvalidFeaturesError(f"one row per arm is needed, got the single value {features!r}")
    if len(array) == 0:
        raise EmptyPoolError("a pool needs at least one arm")
    if array.dtype == np.dtype(bool) and array.ndim == 2:
        array = np.packbits(array, axis=1)
    if array.dtype.kind in "fiub":
        array = _checked_numbers(array)
    view = array.view()
    view.flags.writeable = False
    return view


def _from_sequence(features: Any) -> NDArray[Any]:
    if isinstance(features, str | bytes) or not (
        isinstance(features, Sequence | np.ndarray) or hasattr(features, "__array__")
    ):
        raise InvalidFeaturesError(
            f"features must be an array, a data frame or a sequence, got {type(features).__name__}"
        )
    if len(features) == 0:
        raise EmptyPoolError("a pool needs at least one arm")
    if all(isinstance(item, str) for item in features):
        return np.asarray(features, dtype=np.str_)
    try:
        array = np.asarray(features)
        if array.dtype.kind in "fiub":
            return array
    except ValueError:  # ragged rows: objects, unless they are rows of numbers of unequal length
        pass
    if all(
        isinstance(item, list | tuple) and all(np.isscalar(x) and not isinstance(x, str) for x in item)
        for item in features
    ):
        lengths = sorted({len(item) for item in features})
        if len(lengths) > 1:
            raise InvalidFeaturesError(f"rows of numbers must have one length, found lengths {lengths[:5]}")
    objects = np.empty(len(features), dtype=object)
    objects[:] = list(features)
    return objects


def _checked_numbers(array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidFeaturesError(f"features must be a matrix with one row per arm, got shape {array.shape}")
    if array.dtype.kind == "f":
        for start, block in row_blocks(array, _CHECK_ROWS):
            wrong = ~np.isfinite(block)
            if wrong.any():
                row, column = (int(i) for i in np.argwhere(wrong)[0])
                raise InvalidFeaturesError(
                    f"feature {block[row, column]} in row {start + row}, column {column} is not finite"
                )
    return array


def row_blocks(array: NDArray[Any], rows: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """(first row, slice) pairs that walk over the array."""
    for start in range(0, len(array), rows):
        yield start, array[start : start + rows]
