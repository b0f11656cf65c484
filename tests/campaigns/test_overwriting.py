"""No command overwrites the table of candidates, a database, or a file that it was not told to replace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import ticket_counts
from manyarms.support.output_files import OutputFile, check_writable, replacing
from tests.campaigns.support import cli, made, step

BAD_CAMPAIGN = 4
WRITERS = {
    "ask": ["ask", "-n", "2", "--out"],
    "again": ["ask", "--again", "--out"],
    "export": ["export"],
    "report": ["report", "--html"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with made(tmp_path, "c.db") as campaign:
        step(campaign, 5)
        campaign.ask(2)
    made(tmp_path, "other.db").close()
    (tmp_path / "filled.csv").write_text("ticket,value\n5-k3f5m,1.25\n")
    os.link(tmp_path / "pool.csv", tmp_path / "same.csv")
    (tmp_path / "link.csv").symlink_to("pool.csv")
    return tmp_path


def written(folder: Path, writer: str, target: str, *options: str) -> object:
    command, *rest = WRITERS[writer]
    return cli(command, folder / "c.db", *rest, folder / target, *options)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))
    }


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("filled.csv", (), "already exists; use --force"),
        ("pool.csv", ("--force",), "is the table of candidates"),
        ("same.csv", ("--force",), "is the table of candidates"),
        ("link.csv", ("--force",), "is the table of candidates"),
        ("c.db", ("--force",), "is a database"),
        ("c.db-wal", ("--force",), "is a database"),
        ("other.db", ("--force",), "is a database"),
    ],
)
def test_every_writer_refuses_before_it_does_anything(folder, writer, target, options, words):
    before = contents(folder)
    done = written(folder, writer, target, *options)
    assert (done.code, done.err.count("\n")) == (BAD_CAMPAIGN, 1), (done.out, done.err)
    assert words in done.err
    assert contents(folder) == before
    with Campaign(folder / "c.db") as campaign:
        assert ticket_counts(campaign)["open"] == 2


@pytest.mark.parametrize("writer", WRITERS)
def test_force_replaces_an_ordinary_file(folder, writer):
    done = written(folder, writer, "filled.csv", "--force")
    assert done.code == 0, done.err
    assert b"5-k3f5m,1.25" not in (folder / "filled.csv").read_bytes()
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_a_moved_table_is_protected_too(folder):
    (folder / "pool.csv").rename(folder / "moved.csv")
    done = cli(
        "report", folder / "c.db", "--pool", folder / "moved.csv", "--html", folder / "moved.csv", "--force"
    )
    assert (done.code, "is the table of candidates" in done.err) == (BAD_CAMPAIGN, True)


def test_a_file_that_appears_while_another_is_written_is_not_overwritten(tmp_path):
    path = tmp_path / "b.csv"

    def overtaken():
        with replacing(path, force=False) as stream:
            stream.write("mine")
            path.write_text("somebody else's")

    with pytest.raises(errors.OutputError, match="already exists"):
        overtaken()
    assert path.read_text() == "somebody else's"
    assert [each.name for each in tmp_path.iterdir()] == ["b.csv"]


def test_a_withdrawn_file_leaves_what_was_there(tmp_path):
    path = tmp_path / "b.csv"
    for before in (None, "old"):
        if before is not None:
            path.write_text(before)
        file = OutputFile(path, force=before is not None)
        with file.writing() as stream:
            stream.write("new")
        assert path.read_text() == "new"
        file.withdraw()
        assert (path.read_text() if path.exists() else None) == before
    file = OutputFile(path, force=True)
    with file.writing() as stream:
        stream.write("new")
    path.unlink()
    path.write_text("somebody else's")
    file.withdraw()
    assert path.read_text() == "somebody else's"


def test_a_dangling_link_counts_as_a_file(tmp_path):
    (tmp_path / "b.csv").symlink_to("nowhere")
    with pytest.raises(errors.OutputError, match="already exists"):
        check_writable(tmp_path / "b.csv")
