"""Pools: what they are made from, how arms are named, blocks, growth, and the digest."""

from __future__ import annotations

import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import narwhals  # noqa: F401  loaded here, so that tests of its absence need not load it again
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import manyarms as ma
from manyarms.errors import (
    DuplicateIdError,
    EmptyPoolError,
    InvalidFeaturesError,
    InvalidIdError,
    InvalidParameterError,
    MissingExtraError,
    UnknownArmError,
)
from manyarms.pool.pool import Pool

A = np.arange(6.0).reshape(3, 2)
IDS = ["a", "b", "c"]


class Opaque:
    """An object that says nothing about itself."""


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
    [[], (), np.zeros((0, 3)), pd.DataFrame({"a": np.zeros(0)}), pl.DataFrame({"a": []})],
    ids=repr,
)
def test_a_pool_needs_an_arm(features: Any) -> None:
    with pytest.raises((EmptyPoolError, InvalidFeaturesError)):
        Pool(features)


def test_a_nan_far_down_is_found_and_named() -> None:
    features = np.zeros((70_000, 2), dtype=np.float32)
    features[69_999, 1] = np.nan
    with pytest.raises(InvalidFeaturesError, match="row 69999, column 'mass'"):
        Pool(features, names=["size", "mass"])


@pytest.mark.parametrize("names", ["ab", ["a"], [], 5])
def test_names_must_fit_the_features(names: Any) -> None:
    with pytest.raises(InvalidFeaturesError, match="do not fit 2 features"):
        Pool(A, names=names)


# ---------------------------------------------------------------------- data frames

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


# ---------------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (None, [0, 1, 2]),
        (IDS, IDS),
        (iter(IDS), IDS),
        (np.array(IDS), IDS),
        (pd.Series(IDS), IDS),
        (np.arange(10, 13, dtype=np.uint8), [10, 11, 12]),
        ([np.int64(1), np.str_("x"), (2, "y")], [1, "x", (2, "y")]),
        (["", 0, b"x"], ["", 0, b"x"]),
    ],
    ids=["default", "strings", "iterator", "array", "series", "integers", "mixed", "falsy"],
)
def test_ids_name_the_arms(ids: Any, expected: list[Any]) -> None:
    pool = Pool(A, ids=ids)
    assert pool.ids == expected
    assert [type(id) for id in pool.ids] == [type(id) for id in expected]
    assert pool.has_ids == (ids is not None)
    for arm, id in enumerate(expected):
        assert pool.id_of(arm) == id
        assert pool.index_of(id) == arm
    assert pool.ids_of([2, 0, 2]) == [expected[2], expected[0], expected[2]]


def test_numpy_scalars_find_their_arm() -> None:
    assert Pool(A, ids=IDS).index_of(np.str_("b")) == 1
    assert Pool(A, ids=[5, 6, 7]).index_of(np.int32(7)) == 2
    assert Pool(A).index_of(np.uint8(2)) == 2


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        (["a", "b"], "2 ids for 3 arms"),
        ("abc", "'abc' names a column"),
        (5, "5"),
        ({"a"}, "sequence"),
        ({"a": 1, "b": 2, "c": 3}, "sequence"),
        (b"abc", "sequence"),
        (np.array(3), "sequence"),
        (["a", None, "c"], "arm 1 cannot have the id None"),
        ([1.0, 2.0, np.nan], "arm 2 cannot have the id nan"),
        ([pd.NA, 1, 2], "<NA>"),
        ([pd.NaT, 1, 2], "NaT"),
        ([np.datetime64("NaT"), 1, 2], "NaT"),
        ([Decimal("NaN"), 1, 2], "NaN"),
        ([[1], [2], [3]], r"arm 0 cannot have the id \[1\]"),
        ([1, (2, [3]), 4], "arm 1"),
        ([True, 2, 3], "True"),
        (np.ma.masked_array([1, 2, 3], mask=[False, True, False]), "arm 1"),
        (np.zeros((3, 2)), "arm 0"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_ids_that_cannot_name_arms_are_refused(ids: Any, says: str) -> None:
    with pytest.raises(InvalidIdError, match=says):
        Pool(A, ids=ids)


@pytest.mark.parametrize(
    "ids", [["x", "y", "x"], [1, 2, 1.0], np.array([1, 2, 1]), [(1,), 2, (1,)]], ids=repr
)
def test_an_id_names_one_arm_only(ids: Any) -> None:
    with pytest.raises(DuplicateIdError, match="arms 0 and 2"):
        Pool(A, ids=ids)


@pytest.mark.parametrize(
    "id", ["z", 0, None, np.nan, [1], {}, np.array(["a"]), pd.NA, True, ("a",)], ids=repr
)
def test_an_unknown_id_is_named(id: Any) -> None:
    with pytest.raises(UnknownArmError, match="no arm has the id"):
        Pool(A, ids=IDS).index_of(id)


@pytest.mark.parametrize("id", ["a", -1, 3, 1.0, None, True, [0], 10**30], ids=repr)
def test_without_ids_only_an_index_names_an_arm(id: Any) -> None:
    with pytest.raises(UnknownArmError):
        Pool(A).index_of(id)


@pytest.mark.parametrize("arms", [3, -1, [0, 3], 1.0, "0", None, [True, False, True], [[0]], {0}], ids=repr)
def test_arms_outside_the_pool_are_refused(arms: Any) -> None:
    pool = Pool(A, ids=IDS)
    for call in (pool.take, pool.ids_of, pool.id_of):
        with pytest.raises(UnknownArmError):
            call(arms)


# ---------------------------------------------------------------------- blocks


@pytest.mark.parametrize("bytes_per_arm", [1, 100, 10_000, 10**9])
def test_blocks_cover_the_pool_once_and_honour_max_memory(bytes_per_arm: int) -> None:
    pool = Pool(np.arange(5000.0).reshape(1000, 5), max_memory=2**16)
    blocks = list(pool.blocks(bytes_per_arm))
    assert np.concatenate([block for _, block in blocks]).tolist() == pool.features.tolist()
    assert [where.start for where, _ in blocks] == [0, *(where.stop for where, _ in blocks[:-1])]
    for where, block in blocks:
        np.testing.assert_array_equal(block, pool.features[where])
        assert len(block) == 1 or len(block) * bytes_per_arm <= pool.max_memory


def test_blocks_can_start_in_the_middle() -> None:
    pool = Pool(np.arange(3000.0), max_memory=2**16)
    blocks = list(pool.blocks(100, first=1234))
    assert blocks[0][0].start == 1234
    assert np.concatenate([block for _, block in blocks])[:, 0].tolist() == list(range(1234, 3000))


@pytest.mark.parametrize("value", [0, -1, 2**16 - 1, 1e9, None, "1 GB", True])
def test_max_memory_is_a_sensible_number_of_bytes(value: Any) -> None:
    with pytest.raises(InvalidParameterError, match="max_memory"):
        Pool(A, max_memory=value)


# ---------------------------------------------------------------------- more arms


def test_an_extended_pool_keeps_indices_names_and_limits() -> None:
    pool = Pool(A, ids=IDS, names=["u", "v"], max_memory=2**20)
    more = pool.extended([[7, 8]], ids=["d"])
    assert more.features.tolist() == [*A.tolist(), [7.0, 8.0]]
    assert (more.ids, more.names, more.max_memory) == ([*IDS, "d"], ["u", "v"], 2**20)
    assert (pool.n_arms, pool.ids) == (3, IDS)


@pytest.mark.parametrize(
    ("present", "more", "expected"),
    [
        (A.astype("f4"), [[0.1, 2]], np.array([[0.1, 2]], dtype="f4")),
        (A.astype("i4"), [[2.0, 3.0]], np.array([[2, 3]], dtype="i4")),
        (A.astype("u1"), [[255, 0]], np.array([[255, 0]], dtype="u1")),
        (A > 2, [[1, 0]], np.array([[True, False]])),
        (["ab"], ["abc"], np.array(["abc"])),
        ([1.0, 2.0], [3.0], np.array([[3.0]])),
    ],
    ids=["float32", "integers", "bytes", "booleans", "longer strings", "vector"],
)
def test_new_arms_take_the_type_of_the_pool(present: Any, more: Any, expected: Any) -> None:
    grown = Pool(present).extended(more)
    assert grown.features.dtype == expected.dtype
    assert grown.features[-1:].tolist() == expected.tolist()


def test_objects_can_join_objects() -> None:
    grown = Pool([{"x": 1}]).extended([{"y": 2}, "z"])
    assert grown.features.tolist() == [{"x": 1}, {"y": 2}, "z"]


@pytest.mark.parametrize(
    ("present", "more", "says"),
    [
        (A, A[:, :1], r"\(1,\) each"),
        (A, [1.0, 2.0], r"\(1,\) each"),
        (A, [[np.nan, 1.0]], "nan"),
        (A, [[2**60 + 1, 2]], "1152921504606846977"),
        (A, 3.0, "float"),
        (A.astype("f4"), [[1e300, 0.0]], r"1e\+300.*float32"),
        (A.astype("i8"), [[0.5, 1.0]], "0.5.*int64"),
        (A.astype("u1"), [[300, 1]], "300.*uint8"),
        (A.astype("u1"), [[-1, 1]], "-1.*uint8"),
        (A.astype("i8"), np.array([[2**63 + 5, 1]], dtype="u8"), "9223372036854775813"),
        (A > 2, [[2, 1]], "2.*bool"),
        (["ab"], [1.0], "pool"),
        (A[:, :1], ["ab"], "pool"),
    ],
    ids=lambda value: repr(value)[:25],
)
def test_new_arms_that_do_not_fit_are_refused(present: Any, more: Any, says: str) -> None:
    pool = Pool(present)
    digest = pool.digest
    with pytest.raises(InvalidFeaturesError, match=says):
        pool.extended(more)
    assert pool.digest == digest


def test_new_ids_must_be_new_and_there_exactly_when_the_pool_has_some() -> None:
    named, plain = Pool(A, ids=IDS), Pool(A)
    with pytest.raises(DuplicateIdError, match="arms 1 and 3"):
        named.extended(A[:1], ids=["b"])
    for pool, ids in ((named, None), (plain, ["d"]), (named, ["d", "e"])):
        with pytest.raises(InvalidIdError):
            pool.extended(A[:1], ids=ids)


@FRAMES
def test_frames_extend_frames_of_the_same_columns(frame: Any) -> None:
    pool = Pool(frame({"key": ["x"], "a": [1.0], "b": [2.0]}), ids="key")
    grown = pool.extended(frame({"a": [3.0], "b": [4.0], "key": ["y"]}), ids="key")
    assert (grown.features.tolist(), grown.ids) == ([[1.0, 2.0], [3.0, 4.0]], ["x", "y"])
    with pytest.raises(InvalidFeaturesError, match="columns"):
        pool.extended(frame({"key": ["y"], "b": [3.0], "a": [4.0]}), ids="key")


# ---------------------------------------------------------------------- the digest


def changed_cell() -> Any:
    features = A.copy()
    features[2, 1] = np.nextafter(features[2, 1], 9.0)
    return features


def test_the_digest_changes_when_anything_changes() -> None:
    pools = {
        "plain": Pool(A),
        "one bit": Pool(changed_cell()),
        "order": Pool(A[::-1]),
        "shape": Pool(A.reshape(2, 3)),
        "float32": Pool(A.astype("f4")),
        "integers": Pool(A.astype("i8")),
        "more arms": Pool(A).extended(A[:1]),
        "ids": Pool(A, ids=IDS),
        "other ids": Pool(A, ids=["a", "b", "d"]),
        "order of ids": Pool(A, ids=["b", "a", "c"]),
        "type of ids": Pool(A, ids=["0", "1", "2"]),
        "ids as by default": Pool(A, ids=[0, 1, 2]),
        "strings": Pool(["ab", "c"]),
        "other strings": Pool(["a", "bc"]),
        "objects": Pool([{"x": 1}, {"x": 2}]),
        "other objects": Pool([{"x": 1}, {"x": 3}]),
        "arrays": Pool([np.zeros(2), np.zeros(3)]),
        "other arrays": Pool([np.zeros(2), np.full(3, 1e-12)]),
        "lists": Pool([[["a"], []], [[], ["b"]]]),
        "other lists": Pool([[["a"], []], [["b"], []]]),
    }
    seen: dict[str, str] = {}
    for name, pool in pools.items():
        assert seen.setdefault(pool.digest, name) == name, f"{name} has the digest of {seen[pool.digest]}"


def test_the_digest_is_a_matter_of_content() -> None:
    assert Pool(A).digest == Pool(A.copy(order="F")).digest == Pool(A, max_memory=2**16).digest
    assert Pool(A, ids=IDS).digest == Pool(A.tolist(), ids=tuple(IDS)).digest
    assert Pool([{"a", "b", "c"}, 1]).digest == Pool([{"c", "b", "a"}, 1]).digest


@pytest.mark.parametrize(
    "thing", [Opaque(), lambda: 0, [Opaque()], {"x": Opaque()}], ids=["object", "lambda", "list", "dict"]
)
def test_objects_known_only_by_their_address_have_no_digest(thing: Any) -> None:
    with pytest.raises(InvalidFeaturesError, match="__repr__"):
        _ = Pool([thing, {}]).digest


def test_repr_is_short() -> None:
    assert repr(Pool(A)) == "Pool(3 arms, features float64 (3, 2))"


def test_booleans_are_not_taken_for_packed_bytes() -> None:
    with pytest.raises(InvalidFeaturesError, match="hold bool, the arms of the pool hold uint8"):
        Pool(np.full((2, 3), 7, dtype=np.uint8)).extended(np.ones((1, 3), dtype=bool))


def test_too_few_names_do_not_hide_a_bad_feature() -> None:
    with pytest.raises(InvalidFeaturesError, match="feature nan in row 0, column 1"):
        Pool([[1.0, np.nan]], names=["a"])
