"""Pandas and polars frames as features, read through narwhals, which is imported at the first frame."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError, InvalidParameterError, MissingExtraError, shown
from manyarms.pool.arrays import NUMBERS, joined_columns

FRAME_LIBRARIES = ("pandas", "polars")


def is_frame(features: Any) -> bool:
    """True for pandas and polars frames (anything with named columns that is not an array)."""
    return hasattr(type(features), "columns") and not isinstance(features, np.ndarray)


def library_of(frame: Any) -> str | None:
    """The library that a frame comes from, "pandas" or "polars"; None for any other."""
    name = type(frame).__module__.partition(".")[0]
    return name if name in FRAME_LIBRARIES else None


def to_frame(columns: Mapping[str, Any], library: str | None = None) -> Any:
    """A frame with these columns in "pandas" or "polars"; None is the one that is installed, pandas first."""
    try:
        import narwhals as nw
    except ImportError:
        raise MissingExtraError("narwhals", "frames", "a data frame") from None
    wanted = FRAME_LIBRARIES if library is None else (library,)
    if library is not None and library not in FRAME_LIBRARIES:
        raise InvalidParameterError("library", library, "'pandas' or 'polars'")
    for name in wanted:
        if find_spec(name) is not None:
            return nw.from_dict(dict(columns), backend=import_module(name)).to_native()
    raise MissingExtraError(" or ".join(wanted), "frames", "a data frame")


def from_frame(frame: Any, id_column: str | None) -> tuple[NDArray[Any], Any, list[str]]:
    """Features, ids (or None) and feature names of a pandas or polars frame.

    The matrix has the narrowest type that holds every column: all float32 stays float32, all integers
    stay integers, all booleans stay booleans. Columns of a categorical type become texts, in a matrix of
    objects. Plain text columns are refused: too often they are numbers that were misread.
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
    if all(column.dtype.kind in NUMBERS for column in columns):
        return joined_columns(columns, names), ids, names
    return np.column_stack([column.astype(object) for column in columns]), ids, names


def _frame_column(name: str, column: Any, nw: Any) -> NDArray[Any]:
    dtype = column.dtype
    category = dtype in (nw.Categorical, nw.Enum)
    if not (category or dtype.is_numeric() or dtype == nw.Boolean):
        hint = "; make it a categorical column if it holds categories" if dtype == nw.String else ""
        raise InvalidFeaturesError(f"column {name!r} holds {dtype}, a feature must be numeric{hint}")
    missing = column.is_null()
    if missing.any():
        row = int(np.flatnonzero(missing.to_numpy())[0])
        raise InvalidFeaturesError(f"the feature in row {row}, column {name!r} is missing")
    if category:
        return np.array([str(value) for value in column.to_list()])
    if dtype.is_decimal() or dtype in (nw.Int128, nw.UInt128):  # not supported by numpy
        column = column.cast(nw.Float64)
    values = np.asarray(column.to_numpy())
    return values if values.dtype.kind in NUMBERS else values.astype(np.float64)
