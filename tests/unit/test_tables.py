"""Reading pools from files: what each format gives, and errors that name file, row and column."""

from __future__ import annotations

import contextlib
import gzip
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyarms import Pool
from manyarms.errors import DuplicateIdError, InvalidIdError, MissingExtraError, TableError
from manyarms.pool.tables import read_table

VALUES = [[1.0, 2.5], [-3.0, 4e-3]]
COLUMNS = {"name": ["x", "y"], "a": [1.0, -3.0], "b": [2.5, 4e-3]}
TEXT = "name,a,b\nx,1,2.5\ny,-3,4e-3\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write text, bytes, a table (dict) or an array to a file of this name."""

    def written(name: str, content: Any) -> Path:
        path = tmp_path / name
        if isinstance(content, str):
            content = content.encode()
        if isinstance(content, dict):
            content = pa.table(content)
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        elif isinstance(content, np.ndarray):
            np.save(path, content)
        else:
            path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return written


def refused(path: Any, says: str, error: type[Exception] = TableError, **options: Any) -> None:
    """Reading must fail, and the message must name the file and match `says`."""
    with pytest.raises(error, match=says) as caught:
        Pool.read(path, **options)
    if error is TableError and isinstance(path, Path):
        assert path.name in str(caught.value)
    assert len(str(caught.value)) < 600


# ---------------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.csv", TEXT),
        ("p.CSV", TEXT),
        ("p.v2.csv", TEXT),
        ("p.csv.gz", TEXT),
        ("p.tsv", TEXT.replace(",", "\t")),
        ("p.tsv.gz", TEXT.replace(",", "\t")),
        ("p.csv", "\ufeff" + TEXT),
        ("p.csv", TEXT.replace("\n", "\r\n")),
        ("p.csv", TEXT.rstrip("\n")),
        ("p.csv", TEXT.replace("\n", "\n\n")),
        ("p.csv", '"name","a","b"\n"x","1"," 2.5 "\ny,-3,4e-3\n'),
        ("p.parquet", COLUMNS),
        ("p.pq", COLUMNS),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_table_gives_features_ids_and_names(write: Any, name: str, content: Any) -> None:
    pool = Pool.read(write(name, content), id="name")
    assert pool.features.tolist() == VALUES
    assert (pool.ids, pool.names) == (["x", "y"], ["a", "b"])


@pytest.mark.parametrize(("name", "content"), [("p.csv", TEXT), ("p.parquet", COLUMNS)])
def test_chosen_columns_in_the_chosen_order(write: Any, name: str, content: Any) -> None:
    path = write(name, content)
    assert Pool.read(path, features=["b", "a"]).features.tolist() == [row[::-1] for row in VALUES]
    only = Pool.read(str(path), features="b")
    assert (only.features.tolist(), only.names, only.has_ids) == ([[2.5], [4e-3]], ["b"], False)
    assert Pool.read(path, id="a", features=["a", "b"]).features.tolist() == VALUES


def test_quoted_commas_and_newlines_belong_to_the_cell(write: Any) -> None:
    path = write("p.csv", 'name,"a, in\nmetres"\n"x, ""the first""\nof two",1\ny,2\n')
    pool = Pool.read(path, id="name")
    assert pool.ids == ['x, "the first"\nof two', "y"]
    assert pool.names == ["a, in\nmetres"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "the file is empty"),
        ("name,a,b\n", "a header but no rows"),
        ("name\nx\n", "no feature column"),
        ("name,b\nx,1\n", "no column 'a'; the file has .*'b'"),
        ("name,a,a\nx,1,2\n", "column 'a' appears more than once"),
        ("name,a,b\nx,1,2\ny,1,red\n", r"row 1 \(line 3\), column 'b': 'red' is not a number"),
        ("name,a,b\nx,,2\n", r"row 0 \(line 2\), column 'a': the cell is empty"),
        ("name,a,b\nx,1, \n", r"row 0 \(line 2\), column 'b': the cell is empty"),
        ("name,a,b\nx,1,NaN\n", r"row 0 \(line 2\), column 'b': 'NaN' is not a finite number"),
        ("name,a,b\nx,1,-inf\n", "column 'b': '-inf' is not a finite number"),
        ("name,a,b\nx,1,1e999\n", "column 'b': '1e999' is not a finite number"),
        ("name,a,b\nx,1,1_000\n", "column 'b': '1_000' is not a number"),
        ('name,a,b\nx,1,"1,5"\n', "column 'b': '1,5' is not a number"),
        ("name,a,b\nx,1,2\n\ny,1\n", r"row 1 \(line 4\) has 2 cells, the header has 3"),
        ("name,a,b\nx,1,2,3\n", r"row 0 \(line 2\) has 4 cells, the header has 3"),
        ('name,a,b\nx,1,"2\n', "not a readable text table"),
        ("name,a,b\n,1,2\n", r"row 0 \(line 2\), column 'name': the id is empty"),
        (b"name,a,b\n\xff\xfe,1,2\n", "not a readable text table"),
        ("\ufeff".encode("utf-16-le") + TEXT.encode("utf-16-le"), "not a readable text table"),
        (f"name,a,b\nx,1,{'y' * 10**5}\n", "is not a number"),
        (f"name,a,b\nx,1,{'y' * 10**6}\n", "not a readable text table"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_bad_text_table_is_refused_by_row_and_column(write: Any, content: Any, says: str) -> None:
    wanted = ["a"] if "no column 'a'" in says else None
    refused(write("p.csv", content), says, id="name", features=wanted)


def test_a_column_without_a_name_is_not_taken_for_a_feature(write: Any) -> None:
    path = write("p.csv", ",a\n0,1.5\n1,2.5\n")  # as pandas writes it, row numbers first
    refused(path, "column 0 has no name")
    assert Pool.read(path, features=["a"]).features.tolist() == [[1.5], [2.5]]


def test_ids_of_a_table_must_differ(write: Any) -> None:
    refused(
        write("p.csv", "name,a\nx,1\nx,2\n"), "arms 0 and 1 have the same id 'x'", DuplicateIdError, id="name"
    )


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-12], lambda raw: raw[:12] + b"\xff" * 8 + raw[20:], lambda _: b""]
)
def test_a_damaged_gz_is_refused(write: Any, damage: Any) -> None:
    path = write("p.csv.gz", "name,a\n" + "\n".join(f"arm{i},{i**0.5!r}" for i in range(200)))
    path.write_bytes(damage(path.read_bytes()))
    refused(path, "not a readable text table|the file is empty", id="name")


def test_text_under_the_name_of_a_gz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.csv.gz"
    path.write_text(TEXT)
    refused(path, "not a readable text table", id="name")


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
        (np.empty((0, 2)), "arm|empty"),
        (np.float64(3.0), "single value|mmap"),
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


# ---------------------------------------------------------------------- any file


@pytest.mark.parametrize("name", ["p.csv", "p.parquet", "p.npy", "p.npz", "p.txt", ""])
def test_a_file_must_be_there(tmp_path: Path, name: str) -> None:
    refused(tmp_path / "nowhere" / name, "no such file")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "p.csv").mkdir()
    refused(tmp_path / "p.csv", "a directory, not a file")


@pytest.mark.parametrize("name", ["p", "p.txt", "p.xlsx", "p.gz", "p.zip", ".csv"])
def test_an_unknown_ending_is_named_with_the_known_ones(write: Any, name: str) -> None:
    refused(write(name, TEXT), r"known extensions are \.csv")


@pytest.mark.parametrize(
    ("path", "options"),
    [(3, {}), (None, {}), (b"p.csv", {}), ("p.csv", {"features": 3})],
    ids=repr,
)
def test_what_is_no_path_and_no_list_of_names_is_refused(path: Any, options: Any) -> None:
    refused(path, "a path and a list of column names", **options)


@pytest.mark.parametrize(("name", "content"), [("p.csv", TEXT), ("p.parquet", COLUMNS)])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"id": "z"}, "no column 'z'"),
        ({"id": 5}, "no column 5"),
        ({"features": ["a", "z"]}, "no column 'z'"),
        ({"features": [0]}, "no column 0"),
        ({"features": ["a", "a"]}, "'a' appears more than once"),
        ({"features": []}, "no feature column"),
    ],
    ids=repr,
)
def test_wrong_column_names_are_named(write: Any, name: str, content: Any, options: Any, says: str) -> None:
    refused(write(name, content), says, **options)


def test_a_file_that_may_not_be_opened_is_refused(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    path = write("p.csv", TEXT)
    monkeypatch.setattr("builtins.open", locked)
    with pytest.raises(TableError, match="Permission denied"):
        read_table(path)


def test_parquet_without_pyarrow_says_what_to_install(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("p.parquet", COLUMNS)
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    refused(path, r"pyarrow: pip install 'manyarms\[parquet\]'", MissingExtraError)
    assert Pool.read(write("p.csv", TEXT), id="name").n_arms == 2


def test_a_million_cells_are_read_in_order(write: Any) -> None:
    values = np.random.default_rng(0).normal(size=(50_000, 4))
    rows = "\n".join(",".join(map(repr, row)) for row in values.tolist())
    np.testing.assert_array_equal(Pool.read(write("p.csv", f"a,b,c,d\n{rows}\n")).features, values)


# ---------------------------------------------------------------------- corners found by trying to break it


def test_a_damaged_header_of_an_npy_gives_no_other_error_than_ours(write: Any) -> None:
    path = write("p.npy", np.ones((3, 2)))
    raw = path.read_bytes()
    for place in range(128):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 0x15]) + raw[place + 1 :])
        with contextlib.suppress(TableError):  # some damage leaves a readable header
            Pool.read(path)


@pytest.mark.parametrize("name", ["p.npy.gz", "p.parquet.gz", "p.csv.bz2"])
def test_only_text_tables_may_be_compressed(write: Any, name: str) -> None:
    refused(write(name, b"anything"), "known extensions")


def test_a_first_line_without_names_is_not_called_an_empty_file(write: Any) -> None:
    refused(write("p.csv", "\n" + TEXT), "the first line is empty")


def test_a_name_no_file_system_allows_is_refused() -> None:
    refused("a" * 5000 + ".csv", "too long")


def test_errors_about_ids_name_the_file(write: Any) -> None:
    refused(write("twice.csv", "name,a\nx,1\nx,2\n"), "twice.csv", DuplicateIdError, id="name")


def test_npz_dates_as_ids_stay_dates(tmp_path: Path) -> None:
    days = np.array(["2020-01-01", "2020-01-02"], dtype="M8[ns]")
    np.savez(tmp_path / "p.npz", features=np.array(VALUES), day=days)
    pool = Pool.read(tmp_path / "p.npz", id="day")
    assert pool.index_of(days[1]) == 1
