"""Reading pools from text files: what each format gives, and errors that name file, row and column."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyarms import Pool
from manyarms.errors import DuplicateIdError, TableError
from manyarms.pool.tables import read_table
from tests.tables import COLUMNS, TEXT, VALUES, refused, written


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Write text, bytes, a table (dict) or an array to a file of this name."""
    return partial(written, tmp_path)


# ---------------------------------------------------------------------- text tables


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
        ('name,a,b\nx,1.5,"1,5"\n', "column 'b': '1,5' is not a number"),
        ('name,a,b\nx,1,"1,500"\n', "'1,500' is ambiguous, a decimal comma or thousands"),
        ("name,a,b\nx,1,2\n\ny,1\n", r"row 1 \(line 4\) has 2 cells, the header has 3"),
        ("name,a,b\nx,1,2,3\n", r"row 0 \(line 2\) has 4 cells, the header has 3"),
        ('name,a,b\nx,1,"2\n', "not a readable text table"),
        ("name,a,b\n,1,2\n", r"row 0 \(line 2\), column 'name': the id is empty"),
        (b"name,a,b\n\xff\xfe,1,2\n", "not a readable text table"),
        (b"name,a,b\n\0\0\0,1,2\n", "not a readable text table"),
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
    ("damage", "says"),
    [
        (lambda raw: raw[:-12], "not a readable text table"),
        (lambda raw: raw[:12] + b"\xff" * 8 + raw[20:], "not a readable text table"),
        (lambda raw: b"", "the file is empty"),
    ],
    ids=["truncated", "overwritten", "empty"],
)
def test_a_damaged_gz_is_refused(write: Any, damage: Any, says: str) -> None:
    path = write("p.csv.gz", "name,a\n" + "\n".join(f"arm{i},{i**0.5!r}" for i in range(200)))
    path.write_bytes(damage(path.read_bytes()))
    refused(path, says, id="name")


def test_text_under_the_name_of_a_gz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.csv.gz"
    path.write_text(TEXT)
    refused(path, "not a readable text table", id="name")


def test_empty_lines_before_the_header_are_skipped(write: Any) -> None:
    assert Pool.read(write("p.csv", "\n\n" + TEXT), id="name").features.tolist() == VALUES
    refused(write("p.csv", "\n\n"), "the file is empty")


def test_errors_about_ids_name_the_file(write: Any) -> None:
    refused(write("twice.csv", "name,a\nx,1\nx,2\n"), "twice.csv", DuplicateIdError, id="name")


def test_a_million_cells_are_read_in_order(write: Any) -> None:
    values = np.random.default_rng(0).normal(size=(50_000, 4))
    rows = "\n".join(",".join(map(repr, row)) for row in values.tolist())
    np.testing.assert_array_equal(Pool.read(write("p.csv", f"a,b,c,d\n{rows}\n")).features, values)


# ---------------------------------------------------------------------- any file


@pytest.mark.parametrize("name", ["p.csv", "p.parquet", "p.npy", "p.npz", "p.txt", ""])
def test_a_file_must_be_there(tmp_path: Path, name: str) -> None:
    refused(tmp_path / "nowhere" / name, "no such file")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "p.csv").mkdir()
    refused(tmp_path / "p.csv", "a directory, not a file")


@pytest.mark.parametrize("name", ["p", "p.ods", "p.xls", "p.gz", "p.zip", ".csv"])
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


@pytest.mark.parametrize("name", ["p.npy.gz", "p.parquet.gz", "p.csv.bz2"])
def test_only_text_tables_may_be_compressed(write: Any, name: str) -> None:
    refused(write(name, b"anything"), "known extensions")


def test_a_name_no_file_system_allows_is_refused() -> None:
    refused("a" * 5000 + ".csv", "too long")
