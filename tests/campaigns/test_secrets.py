"""Passwords are never printed, and cells that a spreadsheet would run are written as text."""

from __future__ import annotations

import csv
import io

import pytest

from manyarms import errors
from manyarms.campaigns.batch_file import write_batch
from manyarms.campaigns.campaign import Issued
from manyarms.campaigns.results_file import read_results
from manyarms.campaigns.spreadsheet_cells import as_text_cell, from_text_cell
from manyarms.campaigns.store.database import address
from manyarms.campaigns.text import masked
from tests.campaigns.server import fresh_database
from tests.campaigns.support import cli, write_pool

ADDRESSES = [
    "postgresql://ann:s3cret@127.0.0.1:1/lab#x",
    "postgresql://ann:s3cr@t/s3cret@127.0.0.1:1/lab",
    "postgresql://ann@127.0.0.1:1/lab?password=s3cret#x",
    "postgresql://127.0.0.1:1/lab?user=ann&password=s3cret",
    "postgresql://127.0.0.1:1/lab?sslpassword=s3cret",
    "postgresql+psycopg://ann:s3cret@127.0.0.1:1/lab",
    "postgrsql://ann:s3cret@127.0.0.1:1/lab",
    "postgresql:/ann:s3cret@127.0.0.1:1/lab",
    "postgres:ann:s3cret@127.0.0.1/lab",
    "postgresql://ann:s3cret@host:port/lab",
    "postgresql://ann:1#s3cret@127.0.0.1:1/lab",
    "mysql://ann:s3cret@127.0.0.1/lab",
]


@pytest.mark.parametrize("given", ADDRESSES)
def test_no_command_shows_a_password(tmp_path, given):
    pool = write_pool(tmp_path)
    new = ["new", given, "--pool", pool, "--id", "name", "--features", "x1"]
    for arguments in (new, ["status", given], ["ask", given], ["report", given], [*new, "--json"]):
        done = cli(*arguments)
        assert done.code == 4, (done.out, done.err)
        assert "s3c" not in done.out + done.err, done.err
    try:
        shown = str(address(given))
    except errors.DatabaseError as problem:
        shown = str(problem)
    assert "s3c" not in shown


def test_a_mistyped_address_is_not_taken_for_a_file():
    with pytest.raises(
        errors.DatabaseError, match=r"not a file and not an address of PostgreSQL.*postgresql://user@"
    ):
        address("postgrsql://ann@host/lab")
    assert address("a:b@c.db").file is not None


@pytest.mark.slow
def test_no_command_shows_the_password_of_a_campaign_that_works(tmp_path, server):
    """The server trusts everyone, so that any password is accepted."""
    pool = write_pool(tmp_path)
    given = (
        fresh_database(server).replace("tests@", "tests:s3cret@") + "?application_name=x&password=s3cret#one"
    )
    options = ["--pool", pool, "--id", "name", "--features", "x1,x2"]
    commands = [
        ["new", given, *options], ["ask", given, "-n", 2, "--out", tmp_path / "b.csv"], ["status", given],
        ["status", given, "--json"], ["history", given], ["report", given, "--html", tmp_path / "r.html"],
        ["new", given, *options],
    ]  # fmt: skip
    for arguments in commands:
        done = cli(*arguments)
        assert done.code in (0, 4), done.err
        assert "s3cret" not in done.out + done.err
    assert "s3cret" not in (tmp_path / "r.html").read_text()


def test_masking_leaves_other_text_alone():
    for text in (
        "r.csv: line 3: 'arm@home' is unknown",
        "postgresql://ann@host:5433/lab#x",
        "12:30 at a@b.c",
    ):
        assert masked(text) == text


CELLS = [
    "=1+1",
    "+1+1",
    "-a",
    "@home",
    "'=1",
    "''@x",
    "\t=1",
    "\r=1",
    "'",
    "a=1",
    " =1",
    "",
    "-",
    "--1",
    "=",
    "'a",
]
NUMBERS = ["-1.5", "+3", "-1e-7", "-1,5", "-.5"]


def test_cells_that_a_spreadsheet_would_run_are_text_and_come_back_unchanged():
    for cell in CELLS:
        written = as_text_cell(cell)
        assert not written.startswith(("=", "+", "-", "@", "\t", "\r"))
        assert from_text_cell(written) == cell
    assert [as_text_cell(cell) for cell in NUMBERS] == NUMBERS
    assert as_text_cell(-1.5) == -1.5


def test_a_batch_file_with_formulas_is_safe_and_can_be_told():
    issued = [
        Issued(i, 1, i, name, {"=note": name}, -0.5, 1.0, "why", lower=-2.1, upper=1.1, code=f"{i}-k3f5m")
        for i, name in enumerate(CELLS)
    ]
    stream = io.StringIO(newline="")
    stream.fileno = lambda: 0  # a terminal or a pipe, which is not flushed to a disk
    write_batch(stream, issued, "=id")
    rows = list(csv.reader(io.StringIO(stream.getvalue(), newline="")))
    assert rows[0][:3] == ["ticket", "'=id", "'=note"]
    assert not [cell for row in rows for cell in row[1:3] if cell.startswith(("=", "+", "-", "@"))]
    assert {row[3] for row in rows[1:]} == {"-0.5"}
    filled = [[*row[:-1], "1"] if number else row for number, row in enumerate(rows)]
    told = io.StringIO(newline="")
    csv.writer(told).writerows(filled)
    found = read_results(told.getvalue().encode(), "b.csv", "=id")
    assert [row.name or "" for row in found] == CELLS
