"""What people get wrong: one clear line each, an exit code, and nothing half-written."""

from __future__ import annotations

import csv
import ctypes
import os
import resource
import sqlite3
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import history, ticket_counts
from manyarms.campaigns.spreadsheet_cells import from_text_cell
from manyarms.support import output_files
from tests.campaigns.support import COMMAND, Done, cli, coded, command, made, results, write_pool

BAD_INPUT, BAD_CAMPAIGN, NOTHING = 3, 4, 5
STRANGE = [
    'quo"te', "com,ma", "two\nlines", "<script>alert(1)</script>", "'; DROP TABLE results; --", "tab\there",
    "; rm -rf /", "ümläut ☃", "[red]markup[/red]", "{0}", "%s", "=1+1", "\\x00", " spaces ", "\x1b[31mred",
]  # fmt: skip


def refused(done: Done, code: int, *words: str) -> None:
    assert done.code == code, (done.out, done.err)
    assert done.err.count("\n") == 1, done.err
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err


def new(folder: Path, *options: object, **changes: str) -> Done:
    return cli("new", folder / "c.db", "--pool", changes.get("pool", folder / "pool.csv"), *options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--id", "nobody"], ["'nobody'", "x1"]),
        (["--id", "name", "--features", "x1,x9"], ["'x9'"]),
        (
            ["--id", "name", "--features", "x1,remark"],
            ["row 0", "'remark'", "'shelf 0' is not a number", "--categories"],
        ),
        (
            ["--id", "x1", "--categories", "name,remark"],
            ["'name' holds 120", "more than the 100", "--features"],
        ),
        (["--id", "name", "--categories", "remark,remark"], ["twice", "remark"]),
        (["--id", "name", "--categories", "name"], ["'name'", "category and also"]),
        (["--id", "name", "--smiles", "remark"], ["row 0", "'remark'", "not a SMILES string"]),
        (["--id", "name", "--bits", "remark"], ["row 0", "'remark'", "0 and 1"]),
        (["--id", "name", "--features", "x1", "--smiles", "remark"], ["only one of"]),
        (["--id", "name", "--features", "x1", "--kernel", "magic"], ["'magic'", "matern"]),
        (["--id", "name", "--features", "x1", "--kernel", "tanimoto"], ["tanimoto"]),
        (["--id", "name", "--features", "x1", "--policy", "magic"], ["'magic'", "BBKB"]),
        (["--id", "name", "--features", "x1", "--option", "magic=1"], ["'magic'", "batch_ratio"]),
        (["--id", "name", "--features", "x1", "--option", "batch_ratio=0"], ["at least 1"]),
        (["--id", "name", "--features", "x1", "--kernel", "rbf", "--noise", "loud"], ["noise", "'loud'"]),
        (["--id", "name", "--features", "x1", "--kernel", "rbf", "--noise", "-1"], ["noise", "positive"]),
        (["--id", "name", "--features", "x1", "--kernel", "rbf", "--mean", "nan"], ["mean", "finite"]),
        (["--id", "name", "--features", "x1", "--kernel", "rbf", "--mean", "-inf"], ["mean", "finite"]),
        (["--id", "name", "--features", "x1", "--kernel", "rbf", "--lengthscale", "1,x"], ["lengthscale"]),
        (
            ["--id", "name", "--features", "x1", "--kernel", "rbf", "--lengthscale", "1,2"],
            ["2 length-scales"],
        ),
        (["--id", "name", "--features", "x1", "--noise", "0.1"], ["noise is learned", "give a kernel"]),
        (["--id", "name", "--features", "x1", "--signal", "2"], ["signal is learned"]),
        (["--id", "name", "--features", "x1", "--mean", "0"], ["mean is learned"]),
        (["--id", "name", "--features", "x1", "--lengthscale", "0.3"], ["lengthscale is learned"]),
        (["--id", "name", "--features", "x1", "--smoothness", "1.5"], ["smoothness is learned"]),
        (["--id", "name", "--features", "x1", "--policy", "oful"], ["Linear kernel"]),
        (["--id", "name", "--features", "x1", "--repeats", "often"], ["repeats", "'often'"]),
        (["--id", "name", "--features", "x1", "--budget", "0"], ["budget"]),
        (["--id", "name", "--features", "x1", "--storage", "float16"], ["float16"]),
        (["--config", "nowhere.toml"], ["nowhere.toml"]),
    ],
)
def test_settings_that_cannot_be(tmp_path, options, words):
    write_pool(tmp_path)
    refused(new(tmp_path, *options), BAD_INPUT, *words)
    assert not list(tmp_path.glob("c.db*"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name,x\na,1\nb,2\na,3\n", ["same id 'a'"]),
        ("name,x\na,1\nb,high\n", ["row 1", "'x'", "'high' is not a number"]),
        ("name,x\na,1\nb\n", ["line 3", "1 cells"]),
        ("name,x\na,1\n,2\n", ["row 1", "the id is empty"]),
        ("name,x\n", ["no rows"]),
        ("", ["empty"]),
        ("name,x\na,nan\n", ["no feature column", "'x': every cell is empty"]),
        ("name,x\na,inf\n", ["row 0", "'inf' is not a finite number"]),
    ],
)
def test_tables_that_cannot_be(tmp_path, text, words):
    (tmp_path / "pool.csv").write_text(text)
    refused(new(tmp_path, "--id", "name"), BAD_INPUT, *words)
    assert not list(tmp_path.glob("c.db*"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name,c = red,c\na,1,red\nb,2,blue\n", ["'c = red'", "rename"]),
    ],
)
def test_categories_that_cannot_be(tmp_path, text, words):
    (tmp_path / "pool.csv").write_text(text)
    refused(new(tmp_path, "--id", "name", "--categories", "c"), BAD_INPUT, *words)


def test_a_parquet_table_with_texts_is_told_of_categories(tmp_path):
    table = pa.table({"name": ["a", "b"], "x": [1.0, 2.0], "c": ["red", "blue"]})
    pq.write_table(table, tmp_path / "pool.parquet")
    pool = tmp_path / "pool.parquet"
    refused(
        new(tmp_path, "--id", "name", "--features", "x,c", pool=pool),
        BAD_INPUT, "'c'", "'red'", "--categories",
    )  # fmt: skip
    assert new(tmp_path, "--id", "name", "--categories", "c", pool=pool).code == 0


def test_files_that_are_not_there_or_of_no_known_kind(tmp_path):
    refused(new(tmp_path, "--id", "name"), BAD_INPUT, "no such file")
    (tmp_path / "pool.xlsx").write_text("x")
    refused(new(tmp_path, pool=str(tmp_path / "pool.xlsx")), BAD_INPUT, "not a readable Excel file")
    (tmp_path / "pool.ods").write_text("x")
    refused(new(tmp_path, pool=str(tmp_path / "pool.ods")), BAD_INPUT, "format")
    (tmp_path / "pool.parquet").write_text("x")
    refused(new(tmp_path, pool=str(tmp_path / "pool.parquet")), BAD_INPUT, "Parquet")
    (tmp_path / "odd.toml").write_text('pool = "pool.csv"\ncolour = "red"\n')
    refused(cli("new", tmp_path / "c.db", "--config", tmp_path / "odd.toml"), BAD_INPUT, "'colour'")
    (tmp_path / "odd.toml").write_text("pool = \n")
    refused(cli("new", tmp_path / "c.db", "--config", tmp_path / "odd.toml"), BAD_INPUT, "TOML")
    write_pool(tmp_path)
    for setting in ("mean = true", "noise = true", "lengthscale = []"):
        (tmp_path / "odd.toml").write_text(f'pool = "pool.csv"\nid = "name"\nfeatures = ["x1"]\n{setting}\n')
        refused(cli("new", tmp_path / "c.db", "--config", tmp_path / "odd.toml"), BAD_INPUT, setting[:4])
    refused(cli("new", tmp_path / "c.db"), BAD_INPUT, "--pool")
    for column in ("ticket", "value", "failed"):
        refused(new(tmp_path, "--id", column), BAD_INPUT, column)


def test_the_wrong_campaign(tmp_path):
    write_pool(tmp_path)
    refused(cli("ask", tmp_path / "nothing.db"), BAD_CAMPAIGN, "no such campaign")
    refused(cli("status", "postgresql://nobody@127.0.0.1:1/none"), BAD_CAMPAIGN, "127.0.0.1")
    made(tmp_path).close()
    refused(new(tmp_path, "--id", "name", "--features", "x1"), BAD_CAMPAIGN, "already")
    refused(cli("best", tmp_path / "c.db"), NOTHING, "no result")
    with sqlite3.connect(tmp_path / "c.db") as connection:
        connection.execute("UPDATE manyarms_schema SET version = 8")
    connection.close()
    for arguments in (["ask"], ["tell", "r.csv"], ["status"], ["forget", "1"], ["report"]):
        name, *rest = arguments
        refused(cli(name, tmp_path / "c.db", *rest), BAD_CAMPAIGN, "schema version 8", "upgrade")


def test_results_that_cannot_be_leave_nothing_behind(tmp_path):
    with made(tmp_path) as campaign:
        campaign.ask(3)
    path = tmp_path / "r.csv"
    for text, words in (
        ("ticket,value\n0,1\n9,1\n", ["ticket 9"]),
        ("name,value\narm 0,1\nnobody,1\n", ["'nobody'"]),
        ("ticket,value\n0,1\n1,x\n", ["line 3", "'x'"]),
    ):
        with Campaign(tmp_path / "c.db") as campaign:
            path.write_text(coded(campaign, text))
        refused(cli("tell", tmp_path / "c.db", path), BAD_INPUT, *words)
    refused(cli("tell", tmp_path / "c.db", tmp_path / "none.csv"), BAD_INPUT, "none.csv")
    path.write_bytes(b"\xff\xfe\x00")
    refused(cli("tell", tmp_path / "c.db", path), BAD_INPUT, "readable")
    done = cli("tell", tmp_path / "c.db", path, "--json")
    assert (done.json["exit_code"], done.json["kind"]) == (BAD_INPUT, "ResultsFileError")
    (tmp_path / "pool.csv").write_text("name,x1,x2\nother,1,2\n")
    path.write_text("name,value\narm 77,1\n")
    refused(cli("tell", tmp_path / "c.db", path), BAD_CAMPAIGN, "changed")
    refused(cli("ask", tmp_path / "c.db"), BAD_CAMPAIGN, "changed")
    with Campaign(tmp_path / "c.db") as campaign:
        assert history(campaign) == []
        assert ticket_counts(campaign)["open"] == 3


def test_usage_errors_have_their_own_code(tmp_path):
    made(tmp_path).close()
    for arguments in (
        ["forget", tmp_path / "c.db"],
        ["run", tmp_path / "c.db"],
        ["run", tmp_path / "c.db", "--command", "true", "--python", "a:b"],
        ["ask", tmp_path / "c.db", "-n", "3", "--at-most", "4"],
        ["ask", tmp_path / "c.db", "--out", "-", "--json"],
        ["ask", tmp_path / "c.db", "--lease", "nan"],
        ["ask", tmp_path / "c.db", "--lease", "-5"],
        ["nonsense"],
    ):
        assert cli(*arguments).code == 2
    refused(cli("run", tmp_path / "c.db", "--command", "echo {colour}"), BAD_INPUT, "{colour}")
    refused(cli("forget", tmp_path / "c.db", "5"), BAD_INPUT, "ticket 5 was never handed out")
    for ticket in ("99999999999999999999999", "seven", "7-"):
        refused(cli("forget", tmp_path / "c.db", ticket), BAD_INPUT, ticket, "is not a ticket")
    refused(
        cli("export", tmp_path / "c.db", tmp_path / "all.ods"),
        BAD_CAMPAIGN,
        f"manyarms: {tmp_path / 'all.ods'}",
        ".parquet",
    )


def test_strange_ids_and_columns_go_in_and_out_unharmed(tmp_path):
    column, remark = 'my "id", <b>\nsecond line', "<img src=x onerror=alert(1)>"
    with open(tmp_path / "pool.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([column, "x'; DROP TABLE arms; --", remark])
        writer.writerows([name, i, name] for i, name in enumerate(STRANGE))
    place = tmp_path / "c.db"
    done = new(tmp_path, "--id", column, "--features", "x'; DROP TABLE arms; --", "--repeats", "forbid")
    assert done.code == 0, done.err
    assert cli("ask", place, "-n", len(STRANGE), "--out", tmp_path / "b.csv").code == 0
    with open(tmp_path / "b.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert sorted(from_text_cell(row[column]) for row in rows) == sorted(STRANGE)
    assert "'=1+1" in {row[column] for row in rows}
    with open(tmp_path / "r.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([column, "value"])
        writer.writerows([row[column], i] for i, row in enumerate(rows))
    assert cli("tell", place, tmp_path / "r.csv", "--json").json["new"] == len(STRANGE)
    assert sorted(each["id"] for each in cli("history", place, "--all", "--json").json["results"]) == sorted(
        STRANGE
    )
    for arguments in (["status"], ["best"], ["history"], ["ask", "--again"]):
        name, *rest = arguments
        assert "\x1b[31m" not in cli(name, place, *rest).out
    assert cli("report", place, "--html", tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    for harm in ("<script>alert", "<img src=x", "<b>"):
        assert harm not in page
    assert cli("export", place, tmp_path / "all.csv").code == 0
    with open(tmp_path / "all.csv", newline="") as stream:
        assert sorted(from_text_cell(row["id"]) for row in csv.DictReader(stream)) == sorted(STRANGE)


# ------------------------------------------------------------------ folders and disks that refuse


def _as_anybody() -> None:
    """Let even the superuser respect permissions: without CAP_DAC_OVERRIDE nobody overrules them."""
    if os.getuid() == 0:
        assert ctypes.CDLL(None).prctl(24, 1, 0, 0, 0) == 0


def _with_little_room() -> None:
    """Files cannot grow beyond 100 kB, as if the disk were full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def test_a_folder_that_cannot_be_written_to(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    write_pool(folder)
    with made(folder) as campaign:
        text = results(campaign.ask(3))
    (tmp_path / "r.csv").write_text(text)
    folder.chmod(0o555)
    (folder / "c.db").chmod(0o444)
    try:
        options = ["--pool", folder / "pool.csv", "--id", "name", "--features", "x1"]
        done = command("new", folder / "new.db", *options, preexec_fn=_as_anybody)
        refused(done, BAD_CAMPAIGN, "new.db")
        refused(
            command("tell", folder / "c.db", tmp_path / "r.csv", preexec_fn=_as_anybody), BAD_CAMPAIGN, "c.db"
        )
        assert sorted(path.name for path in folder.iterdir()) == ["c.db", "pool.csv"]
    finally:
        folder.chmod(0o755)
        (folder / "c.db").chmod(0o644)
    assert cli("tell", folder / "c.db", tmp_path / "r.csv", "--json").json["new"] == 3


def test_a_batch_that_cannot_be_written_is_not_handed_out(tmp_path):
    made(tmp_path).close()
    refused(cli("ask", tmp_path / "c.db", "--out", tmp_path / "nowhere" / "b.csv"), BAD_CAMPAIGN, "b.csv")
    (tmp_path / "folder.csv").mkdir()
    refused(cli("ask", tmp_path / "c.db", "--out", tmp_path / "folder.csv"), BAD_CAMPAIGN, "folder.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    refused(cli("ask", tmp_path / "c.db", "--out", tmp_path / "pipe.csv"), BAD_CAMPAIGN, "pipe.csv")
    refused(cli("report", tmp_path / "c.db", "--html", tmp_path / "folder.csv"), BAD_CAMPAIGN, "folder.csv")
    with Campaign(tmp_path / "c.db") as campaign:
        assert ticket_counts(campaign)["open"] == 0
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_a_batch_that_cannot_take_its_place_is_not_handed_out(tmp_path, monkeypatch):
    """A name that is somebody else's in a shared folder is found out only by the last step of writing."""
    made(tmp_path).close()

    def refuse(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(output_files.os, "link", refuse)
    monkeypatch.setattr(output_files.os, "replace", refuse)
    refused(cli("ask", tmp_path / "c.db", "--out", tmp_path / "b.csv"), BAD_CAMPAIGN, "b.csv")
    with Campaign(tmp_path / "c.db") as campaign:
        assert ticket_counts(campaign)["open"] == 0


@pytest.mark.parametrize("options", [["--out", "-"], ["--json"]])
def test_a_batch_that_cannot_be_printed_is_not_handed_out(tmp_path, options):
    made(tmp_path).close()
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "ask", "c.db", "-n", "2", *options],
            cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    refused(Done(done.returncode, "", done.stderr), BAD_CAMPAIGN, "standard output")
    with Campaign(tmp_path / "c.db") as campaign:
        assert ticket_counts(campaign)["open"] == 0


def test_letters_that_cannot_be_printed_are_spelt_out(tmp_path, monkeypatch):
    write_pool(tmp_path, 20, (f"ärm {i}" for i in range(20)))
    with made(tmp_path) as campaign:
        campaign.tell_bytes("name,value\närm 3,1\n".encode(), "r.csv")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    assert "\\xe4rm 3" in command("history", tmp_path / "c.db").out
    assert command("history", tmp_path / "c.db", "--json").json["results"][0]["id"] == "ärm 3"


def test_a_full_disk(tmp_path):
    with made(tmp_path) as campaign:
        campaign.ask(3)
    rows = "".join(f"arm {i % 120},{i}\n" for i in range(1_500))
    (tmp_path / "r.csv").write_text(f"name,value\n{rows}")
    done = command("tell", tmp_path / "c.db", tmp_path / "r.csv", preexec_fn=_with_little_room)
    refused(done, BAD_CAMPAIGN, "c.db")
    names = sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("c.db-"))
    assert names == ["c.db", "pool.csv", "r.csv"]
    with Campaign(tmp_path / "c.db") as campaign:
        assert history(campaign) == []
        assert campaign.tell_file(tmp_path / "r.csv").new == 1_500
