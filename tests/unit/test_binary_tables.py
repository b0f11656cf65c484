"""Reading pools from Parquet, npy and npz files: their contents, and errors that name row and column."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from manyarms import Pool
from manyarms.errors import InvalidIdError, MissingExtraError
from tests.tables import COLUMNS, TEXT, VALUES, refused, written


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Write text, bytes, a table (dict) or an array to a file of this name."""
    return partial(written, tmp_path)


# ---------------------------------------------------------------------- Parquet


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["float32", "float32"], np.float32),
        (["float32", "float64"], np.float64),
        (["uint8", "uint8"], np.uint8),
        (["int8", "int32"], np.int32),
        (["bool", "bool"], np.bool_),
        (["bool", "float64"], np.float64),
    ],
)
def test_parquet_keeps_the_narrowest_common_type(write: Any, types: list[str], expected: Any) -> None:
    columns = {f"c{i}": pa.array(np.array([0, 1]).astype(kind)) for i, kind in enumerate(types)}
    features = Pool.read(write("p.parquet", columns)).features
    assert features.dtype == expected
    assert features.astype(int).tolist() == [[0, 0], [1, 1]]


def test_parquet_decimals_chunks_and_whole_number_ids(write: Any) -> None:
    chunk = pa.table({"n": [7], "d": pa.array([Decimal("0.25")])})
    pool = Pool.read(write("p.parquet", pa.concat_tables([chunk, chunk.set_column(0, "n", [[8]])])), id="n")
    assert (pool.ids, pool.features.tolist()) == ([7, 8], [[0.25], [0.25]])


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"a": ["red", "blue"]}, "row 0, column 'a': 'red' is not a number"),
        ({"a": pa.array(["x", "y"]).dictionary_encode()}, "row 0, column 'a': 'x' is not a number"),
        ({"a": [[1.0], [2.0]]}, "column 'a'.*list"),
        ({"a": pa.array([0, 1], pa.timestamp("s"))}, "column 'a'.*timestamp"),
        ({"b": [1.0, 2.0], "a": [1, None]}, "row 1, column 'a': the cell is empty"),
        ({"a": pa.nulls(2)}, "row 0, column 'a': the cell is empty"),
        ({"a": [1.0, np.nan]}, "row 1, column 'a': nan is not a finite number"),
        ({"a": pa.array([0.0, np.inf], pa.float32())}, "row 1, column 'a': inf is not a finite number"),
        ({"a": [2**53 + 1, 0], "b": [0.5, 0.5]}, "9007199254740993 in column 'a'"),
        ({"a": pa.array([], pa.float64())}, "no rows"),
        ({"b": [1.0]}, "no column 'a'"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_bad_parquet_is_refused_by_row_and_column(write: Any, columns: Any, says: str) -> None:
    wanted = ["a"] if "no column" in says else None
    refused(write("p.parquet", columns), says, features=wanted)


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[:-6],
        lambda raw: b"text",
        lambda raw: b"",
        lambda raw: raw[:4] + b"\0" * (len(raw) - 12) + raw[-8:],
    ],
)
def test_a_damaged_parquet_is_refused(write: Any, damage: Any) -> None:
    path = write("p.parquet", COLUMNS)
    path.write_bytes(damage(path.read_bytes()))
    refused(path, "not a readable Parquet file", id="name")


def test_parquet_ids_must_be_there(write: Any) -> None:
    refused(write("p.parquet", {"n": ["x", None], "a": [1.0, 2.0]}), "arm 1", InvalidIdError, id="n")


def test_parquet_without_pyarrow_says_what_to_install(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("p.parquet", COLUMNS)
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    refused(path, r"pyarrow: pip install 'manyarms\[parquet\]'", MissingExtraError)
    assert Pool.read(write("p.csv", TEXT), id="name").n_arms == 2


# ---------------------------------------------------------------------- numpy's own files


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8, ">f8", bool])
def test_npy_stays_on_disk(write: Any, dtype: Any) -> None:
    array = np.arange(6).reshape(3, 2).astype(dtype)
    pool = Pool.read(write("p.npy", array))
    assert isinstance(pool.features, np.memmap)
    assert pool.features.dtype == array.dtype
    np.testing.assert_array_equal(pool.features, array)


def test_npz_by_name_and_by_default(tmp_path: Path) -> None:
    path, features, words = tmp_path / "p.npz", np.array(VALUES), np.array(["x", "y"])
    np.savez(path, features=features, word=words, other=features)
    assert Pool.read(path, id="word").ids == ["x", "y"]
    assert Pool.read(path, features="other").features.tolist() == VALUES
    np.savez_compressed(path, matrix=features, word=words)
    assert Pool.read(path, id="word").features.tolist() == VALUES
    np.savez(path, matrix=features, features=words)
    assert Pool.read(path, id="features").ids == ["x", "y"]


@pytest.mark.parametrize(
    ("arrays", "options", "says"),
    [
        ({"a": VALUES, "b": VALUES}, {}, "state which array holds the features"),
        ({"a": VALUES}, {"features": "z"}, "no array 'z'"),
        ({"a": VALUES}, {"id": "z"}, "no array 'z'"),
        ({"a": VALUES, "b": VALUES}, {"features": ["a", "b"]}, "state which array"),
        ({"a": np.array([{}, {}], dtype=object)}, {}, "not a readable npz"),
        ({"a": [[1.0, np.nan]]}, {}, "feature nan in row 0, column 1"),
        ({"a": np.empty((0, 2))}, {}, "at least one arm"),
        ({}, {}, "state which array"),
    ],
    ids=repr,
)
def test_a_bad_npz_is_refused(tmp_path: Path, arrays: Any, options: Any, says: str) -> None:
    path = tmp_path / "p.npz"
    np.savez(path, **arrays)
    refused(path, says, **options)


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.array([[1.0, 2.0], [np.inf, 1.0]]), "feature inf in row 1, column 0"),
        (np.ones((2, 2, 2)), r"\(2, 2, 2\)"),
        (np.ones(2, dtype=complex), "complex128"),
        (np.zeros(2, dtype=[("a", float)]), "fields"),
        (np.empty((0, 2)), "at least one arm"),
        (np.float64(3.0), "single value"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_bad_npy_is_refused(write: Any, array: Any, says: str) -> None:
    refused(write("p.npy", np.asarray(array)), says)


@pytest.mark.parametrize("name", ["p.npy", "p.npz"])
@pytest.mark.parametrize("raw", [b"", b"text", b"\x93NUMPY\x01\x00", b"PK\x03\x04 cut"], ids=repr)
def test_what_is_not_numpy_s_is_refused(write: Any, name: str, raw: bytes) -> None:
    refused(write(name, raw), f"not a readable {name[2:]} file")


def test_damaged_and_misnamed_numpy_files_are_refused(tmp_path: Path) -> None:
    archive, single = tmp_path / "a.npz", tmp_path / "s.npy"
    np.savez_compressed(archive, features=np.arange(600.0).reshape(300, 2))
    np.save(single, np.ones((30, 2)))
    whole = archive.read_bytes()
    for name, raw, says in [
        ("cut.npy", single.read_bytes()[:-8], "not a readable npy"),
        ("cut.npz", whole[:-30], "not a readable npz"),
        ("flipped.npz", whole[:120] + b"\0" * 40 + whole[160:], "not a readable npz"),
        ("zip.npy", whole, "not a readable npy"),
        ("array.npz", single.read_bytes(), "not a readable npz"),
    ]:
        path = tmp_path / name
        path.write_bytes(raw)
        refused(path, says)


def test_an_npy_has_no_names(write: Any) -> None:
    for options in ({"id": "name"}, {"features": ["a"]}):
        refused(write("p.npy", np.ones((2, 2))), "one unnamed array", **options)


def test_a_damaged_header_of_an_npy_is_refused(write: Any) -> None:
    path = write("p.npy", np.ones((3, 2)))
    raw = path.read_bytes()
    for position in range(128):
        path.write_bytes(raw[:position] + bytes([raw[position] ^ 0x15]) + raw[position + 1 :])
        if position == 8:  # the length of the header, which now ends in its padding and is still valid
            assert Pool.read(path).features.shape == (3, 2)
        else:
            refused(path, "not a readable npy file")


def test_npz_dates_as_ids_stay_dates(tmp_path: Path) -> None:
    days = np.array(["2020-01-01", "2020-01-02"], dtype="M8[ns]")
    np.savez(tmp_path / "p.npz", features=np.array(VALUES), day=days)
    pool = Pool.read(tmp_path / "p.npz", id="day")
    assert pool.index_of(days[1]) == 1
