"""Pools of pandas, polars and Arrow frames."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import narwhals  # noqa: F401  loaded here, so that tests of its absence need not load it again
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from manyarms.errors import (
    InvalidFeaturesError,
    MissingExtraError,
)
from manyarms.pool.pool import Pool

A = np.arange(6.0).reshape(3, 2)

FRAMES = pytest.mark.parametrize(
    "frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"]
)


@FRAMES
def test_a_frame_is_read_with_names_and_ids(frame: Any) -> None:
    pool = Pool(frame({"a": [1.0, 2.0], "key": ["x", "y"], "b": [3, 4]}), ids="key")
    assert pool.features.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert (pool.names, pool.ids) == (["a", "b"], ["x", "y"])
    assert Pool(frame({"a": [1.0, 2.0]}), ids=["p", "q"]).ids == ["p", "q"]


@FRAMES
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1", "?"])
def test_a_frame_keeps_the_narrowest_common_type(frame: Any, dtype: str) -> None:
    column = np.array([0, 1], dtype=dtype)
    assert Pool(frame({"a": column, "b": column})).features.dtype == np.dtype(dtype)


@FRAMES
@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"a": ["x", "y"]}, "column 'a' holds .*String.*make it a categorical column"),
        ({"a": [1.0, 2.0], "b": [1.0, None]}, "row 1, column 'b' is missing"),
        ({"a": [1.0, float("inf")]}, "inf in row 1, column 'a'"),
        ({"a": np.array(["2020-01-01"], dtype="M8[ns]")}, "column 'a' holds Datetime"),
        ({"key": ["x"]}, "no feature column"),
        ({"a": [2**60 + 1], "b": [0.5]}, "1152921504606846977 in column 'a'"),
    ],
    ids=["text", "missing", "infinite", "dates", "no features", "large integer"],
)
def test_a_frame_with_a_bad_column_is_refused_by_name(frame: Any, columns: Any, says: str) -> None:
    with pytest.raises(InvalidFeaturesError, match=says):
        Pool(frame(columns), ids="key" if "key" in columns else None)


@pytest.mark.parametrize(
    "kinds",
    [
        pd.Categorical(["x", "y"]),
        pl.Series(["x", "y"], dtype=pl.Categorical),
        pl.Series(["x", "y"], dtype=pl.Enum(["y", "x"])),
    ],
    ids=["pandas", "polars", "enum"],
)
def test_categorical_columns_are_texts_beside_numbers(kinds: Any) -> None:
    frame = pl.DataFrame if isinstance(kinds, pl.Series) else pd.DataFrame
    mixed = Pool(frame({"a": [1.5, 2.5], "kind": kinds}))
    assert (mixed.features.tolist(), mixed.names) == ([[1.5, "x"], [2.5, "y"]], ["a", "kind"])
    assert Pool(frame({"kind": kinds})).features.tolist() == [["x"], ["y"]]
    more = mixed.extended(frame({"a": [3.5, 4.5], "kind": kinds}))
    assert more.features[2:].tolist() == [[3.5, "x"], [4.5, "y"]]


def test_numbers_that_name_kinds_are_texts() -> None:
    assert Pool(pd.DataFrame({"a": pd.Categorical([1, 2])})).features.tolist() == [["1"], ["2"]]


@FRAMES
def test_a_frame_without_the_id_column_says_what_it_has(frame: Any) -> None:
    with pytest.raises(InvalidFeaturesError, match=r"no column 'key'.*\['a'\]"):
        Pool(frame({"a": [1.0]}), ids="key")


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (pd.array([1, None], dtype="Int64"), "row 1, column 'a' is missing"),
        (pd.array([True, None], dtype="boolean"), "row 1, column 'a' is missing"),
        (pd.array([1.5, None], dtype="double[pyarrow]"), "row 1, column 'a' is missing"),
        (pd.Categorical(["x", None]), "row 1, column 'a' is missing"),
        (np.array([1, "x"], dtype=object), "Object"),
        ([1j, 2j], "column 'a'"),
    ],
    ids=["Int64", "boolean", "arrow", "category", "mixed", "complex"],
)
def test_odd_pandas_columns_are_refused(column: Any, says: str) -> None:
    with pytest.raises(InvalidFeaturesError, match=says):
        Pool(pd.DataFrame({"a": column}))


@pytest.mark.parametrize(
    "column",
    [
        pd.array([1, 2], dtype="Int64"),
        pd.array([1, 2], dtype="int64[pyarrow]"),
        pl.Series([Decimal(1), Decimal(2)]),
        pl.Series([1, 2], dtype=pl.Int128),
    ],
    ids=["Int64", "arrow", "decimal", "Int128"],
)
def test_unusual_numeric_columns_are_read(column: Any) -> None:
    frame = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    assert Pool(frame({"a": column})).features.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    "frame",
    [
        pl.LazyFrame({"a": [1.0]}),
        pd.DataFrame(A, columns=["a", "a"]),
        pd.DataFrame(index=range(3)),
        pd.DataFrame(),
    ],
    ids=["lazy", "repeated names", "no columns", "empty"],
)
def test_unusable_frames_are_refused(frame: Any) -> None:
    with pytest.raises(InvalidFeaturesError):
        Pool(frame)


def test_a_frame_without_narwhals_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(MissingExtraError, match=r"manyarms\[frames\]"):
        Pool(pd.DataFrame({"a": [1.0]}))
    assert Pool(A).n_arms == 3


@FRAMES
def test_frames_extend_frames_of_the_same_columns(frame: Any) -> None:
    pool = Pool(frame({"key": ["x"], "a": [1.0], "b": [2.0]}), ids="key")
    grown = pool.extended(frame({"a": [3.0], "b": [4.0], "key": ["y"]}), ids="key")
    assert (grown.features.tolist(), grown.ids) == ([[1.0, 2.0], [3.0, 4.0]], ["x", "y"])
    with pytest.raises(InvalidFeaturesError, match="columns"):
        pool.extended(frame({"key": ["y"], "b": [3.0], "a": [4.0]}), ids="key")
