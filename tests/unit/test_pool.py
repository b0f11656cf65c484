"""Pools: the features they accept, and the features they refuse."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import manyarms as ma
from manyarms.errors import (
    EmptyPoolError,
    InvalidFeaturesError,
)
from manyarms.pool.pool import Pool

A = np.arange(6.0).reshape(3, 2)
IDS = ["a", "b", "c"]


class Opaque:
    """An object with the default repr."""


# ---------------------------------------------------------------------- arrays


@pytest.mark.parametrize(
    "dtype", ["f8", "f4", "f2", ">f8", ">f4", "i8", "i4", "i1", "u1", "u8", ">i4", "?"], ids=str
)
def test_an_array_keeps_its_type_and_values(dtype: str) -> None:
    features = A.astype(dtype)
    pool = Pool(features)
    assert pool.features.dtype == np.dtype(dtype)
    assert pool.features.tolist() == features.tolist()
    assert (pool.n_arms, pool.n_features, len(pool)) == (3, 2, 3)


@pytest.mark.parametrize(
    "features",
    [np.asfortranarray(A), np.repeat(A, 2, axis=0)[::2], np.repeat(A, 2, axis=1)[:, ::2], A[::-1][::-1]],
    ids=["fortran", "strided rows", "strided columns", "negative strides"],
)
def test_memory_layout_does_not_matter(features: Any) -> None:
    pool = Pool(features)
    assert pool.take([2, 0]).tolist() == [[4.0, 5.0], [0.0, 1.0]]
    assert pool.digest == Pool(A).digest
    assert np.concatenate([block for _, block in pool.blocks(8)]).tolist() == A.tolist()


def test_the_array_is_kept_not_copied_and_cannot_be_written_through_the_pool() -> None:
    mine = A.copy()
    pool = Pool(mine)
    assert np.shares_memory(pool.features, mine)
    assert mine.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        pool.features[0, 0] = 9.0
    pool.take([0])[:] = 9.0
    assert mine[0, 0] == 0.0


def test_a_memory_mapped_array_stays_on_disk(tmp_path: Any) -> None:
    np.save(tmp_path / "a.npy", A)
    pool = Pool(np.load(tmp_path / "a.npy", mmap_mode="r"))
    assert isinstance(pool.features, np.memmap)
    assert pool.take([1]).tolist() == [[2.0, 3.0]]
    assert not isinstance(pool.take([1]), np.memmap)
    assert pool.digest == Pool(A).digest


def test_a_vector_is_one_feature_per_arm() -> None:
    assert Pool(np.arange(3.0)).features.shape == (3, 1)
    assert Pool(range(4)).n_features == 1


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        (((1.5, 2), (3, 4)), [[1.5, 2.0], [3.0, 4.0]]),
        ([[Decimal("0.5")], [Fraction(1, 4)]], [[0.5], [0.25]]),
        ([[2**70, 1]], [[2.0**70, 1.0]]),
        (np.array([[1, 2.5], [True, np.float32(3)]], dtype=object), [[1.0, 2.5], [1.0, 3.0]]),
        (A.astype(np.longdouble), A.tolist()),
        (np.ma.masked_array(A), A.tolist()),
        (pd.Series([1.0, 2.0]), [[1.0], [2.0]]),
        (pl.Series([1, 2]), [[1], [2]]),
        (pa.array([1.0, 2.0]), [[1.0], [2.0]]),
    ],
    ids=[
        "lists", "tuples", "decimals", "huge", "objects", "extended", "mask", "pandas", "polars", "arrow",
    ],
)  # fmt: skip
def test_numbers_in_any_dress_are_read_as_numbers(features: Any, expected: Any) -> None:
    pool = Pool(features)
    assert pool.features.tolist() == expected
    assert type(pool.features) is np.ndarray
    assert pool.features.dtype.kind in "if"


def test_equal_rows_are_different_arms() -> None:
    pool = Pool(np.zeros((3, 2)), ids=IDS)
    assert pool.n_arms == 3
    assert [pool.index_of(id) for id in IDS] == [0, 1, 2]


# ---------------------------------------------------------------------- bits, strings, objects


def test_bits_serve_packed_and_as_booleans() -> None:
    bits = np.random.default_rng(0).random((5, 75)) < 0.3
    packed, plain = Pool(np.packbits(bits, axis=1)), Pool(bits)
    assert packed.features.dtype == np.uint8
    assert plain.features.dtype == bool
    np.testing.assert_array_equal(
        ma.Tanimoto().matrix(packed.features, packed.features), ma.Tanimoto().matrix(bits, bits)
    )


def test_small_integers_serve_the_rbf_though_they_could_be_packed_bits() -> None:
    small = A.astype(np.uint8)
    np.testing.assert_array_equal(ma.RBF().matrix(Pool(small).features, small), ma.RBF().matrix(A, A))


@pytest.mark.parametrize(
    "words",
    [
        ["abc", "abd"],
        ("abc", "abd"),
        np.array(["abc", "abd"]),
        np.array(["abc", "abd"], dtype=object),
        np.array(["abc", "abd"], dtype=np.dtypes.StringDType()),
        pd.Series(["abc", "abd"]),
        pl.Series(["abc", "abd"]),
    ],
    ids=["list", "tuple", "array", "object array", "StringDType", "pandas", "polars"],
)
def test_strings_become_one_array_of_strings(words: Any) -> None:
    pool = Pool(words)
    assert pool.features.dtype == np.dtype("U3")
    assert pool.features.tolist() == ["abc", "abd"]
    assert ma.Hamming().matrix(pool.features, pool.features)[0, 1] == pytest.approx(np.exp(-1 / 3))


@pytest.mark.parametrize(
    "items",
    [
        [{"x": 1}, {"y": 2}],
        [("C", 1), ("O", 2)],
        [("C",), ("O", "N")],
        [np.zeros(2), np.zeros(3)],
        [{1, 2}, {3}],
        [b"ab", b"c"],
        [Opaque(), Opaque()],
    ],
    ids=["dicts", "equal tuples", "tuples", "arrays", "sets", "bytes", "opaque"],
)
def test_other_objects_are_kept_as_they_are(items: list[Any]) -> None:
    pool = Pool(items)
    assert pool.features.shape == (2,)
    assert all(kept is given for kept, given in zip(pool.features, items, strict=True))
    assert pool.take([1])[0] is items[1]
    assert pool.n_features == 1


def test_an_object_array_of_arrays_is_kept() -> None:
    ragged = np.empty(2, dtype=object)
    ragged[0], ragged[1] = np.zeros(2), np.zeros(3)
    assert Pool(ragged).features[1] is ragged[1]


# ---------------------------------------------------------------------- what is refused


BAD_FEATURES = {
    "3-d": (np.zeros((2, 2, 2)), r"\(2, 2, 2\)"),
    "0-d": (np.array(1.5), "1.5"),
    "no columns": (np.zeros((3, 0)), r"\(3, 0\)"),
    "empty rows": ([[], []], "no features"),
    "number": (3.0, "float"),
    "None": (None, "NoneType"),
    "string": ("abc", "str"),
    "bytes": (b"abc", "bytes"),
    "set": ({1, 2}, "set"),
    "dict": ({"a": [1.0]}, "dict"),
    "generator": ((i for i in range(3)), "generator"),
    "complex": (A + 1j, "complex128"),
    "complex list": ([[1j]], "complex128"),
    "dates": (np.array(["2020-01-01"], dtype="M8[D]"), "dates"),
    "durations": (np.array([1], dtype="m8[s]"), "durations"),
    "structured": (np.zeros(2, dtype=[("a", float)]), "structured_to_unstructured"),
    "nan": ([[0.0, 1.0], [2.0, np.nan]], "nan in row 1, column 1"),
    "infinity": (np.array([[0.0], [-np.inf]], dtype="f4"), "-inf in row 1, column 0"),
    "half infinity": (np.array([[np.inf]], dtype="f2"), "inf in row 0"),
    "beyond double": (np.array([[np.longdouble("1e4000")]]), "inf"),
    "masked": (np.ma.masked_array(A, mask=A > 4), "row 2, column 1 is masked"),
    "sparse matrix": (scipy.sparse.csr_matrix(A), "toarray"),
    "sparse array": (scipy.sparse.coo_array(A), "toarray"),
    "None cell": ([[1.0, None], [2.0, 3.0]], r"row 0, column 1 is missing \(None\)"),
    "NA": ([1, pd.NA], r"row 1 is missing \(<NA>\)"),
    "nan object": (np.array([[1, np.nan]], dtype=object), "row 0, column 1"),
    "decimal NaN": ([[Decimal("sNaN")]], "missing"),
    "huge": ([[10**400]], "10000.*too large"),
    "unshowably huge": ([[10**5000]], "too large"),
    "ragged": ([[1, 2], [3, 4], [5]], "row 0 has 2 numbers, row 2 has 1"),
    "nullable integers": (pd.Series([1, None], dtype="Int64"), "row 1"),
}


@pytest.mark.parametrize(("features", "says"), BAD_FEATURES.values(), ids=BAD_FEATURES.keys())
def test_features_no_kernel_could_use_are_refused_with_the_reason(features: Any, says: str) -> None:
    with pytest.raises(InvalidFeaturesError, match=says) as caught:
        Pool(features)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "features",
    [
        [],
        (),
        np.zeros((0, 3)),
        pd.DataFrame({"a": np.zeros(0)}),
        pl.DataFrame({"a": []}, schema={"a": pl.Float64}),
    ],
    ids=["list", "tuple", "array", "pandas", "polars"],
)
def test_a_pool_needs_an_arm(features: Any) -> None:
    with pytest.raises(EmptyPoolError, match="at least one arm"):
        Pool(features)


def test_an_empty_column_without_a_type_is_refused() -> None:
    with pytest.raises(InvalidFeaturesError, match="column 'a' holds Unknown"):
        Pool(pl.DataFrame({"a": []}))


def test_a_nan_far_down_is_found_and_named() -> None:
    features = np.zeros((70_000, 2), dtype=np.float32)
    features[69_999, 1] = np.nan
    with pytest.raises(InvalidFeaturesError, match="row 69999, column 'mass'"):
        Pool(features, names=["size", "mass"])


@pytest.mark.parametrize("names", ["ab", ["a"], [], 5])
def test_names_must_fit_the_features(names: Any) -> None:
    with pytest.raises(InvalidFeaturesError, match="do not fit 2 features"):
        Pool(A, names=names)


def test_too_few_names_do_not_hide_a_bad_feature() -> None:
    with pytest.raises(InvalidFeaturesError, match="feature nan in row 0, column 1"):
        Pool([[1.0, np.nan]], names=["a"])


def test_repr_is_short() -> None:
    assert repr(Pool(A)) == "Pool(3 arms, features float64 (3, 2))"
