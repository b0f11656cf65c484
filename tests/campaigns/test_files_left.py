"""Folders that cannot be written, empty files, and what a killed `new` leaves behind."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.store.database import is_read_only
from tests.campaigns.support import ROOT, cli, command, made, results, step
from tests.campaigns.test_older_versions import restore


def _as_anybody() -> None:
    """Let even the superuser respect permissions: without CAP_DAC_OVERRIDE nobody overrules them."""
    if os.getuid() == 0:
        assert ctypes.CDLL(None).prctl(24, 1, 0, 0, 0) == 0


@pytest.fixture
def locked(tmp_path: Path):
    """A folder that becomes read-only, as on a read-only mount."""
    folder = tmp_path / "lo cked#1"
    folder.mkdir()
    yield folder
    folder.chmod(0o755)


def lock(folder: Path) -> None:
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)


COMMANDS = """
import json, sys
from tests.campaigns.support import cli
done = [cli(*arguments) for arguments in json.loads(sys.argv[1])]
print(json.dumps([(each.code, each.err) for each in done]))
"""


def ended_as_anybody(*commands: list[object]) -> list[tuple[int, str]]:
    """The exit codes and messages of these commands, in one process that overrules no permissions."""
    texts = json.dumps([[str(each) for each in arguments] for arguments in commands])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", COMMANDS, texts], cwd=ROOT, capture_output=True, text=True,
        check=False, timeout=120, preexec_fn=_as_anybody,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [tuple(each) for each in json.loads(done.stdout)]


def test_a_read_only_folder_can_be_read(locked, tmp_path):
    with made(locked) as campaign:
        step(campaign, 6)
        text = results(campaign.ask(2))
    (tmp_path / "r.csv").write_text(text)
    lock(locked)
    before = sorted(path.name for path in locked.iterdir())
    place = locked / "c.db"
    readers = [
        ["status", place], ["history", place], ["best", place], ["ask", place, "--again"],
        ["export", place, tmp_path / "all.csv"], ["report", place, "--html", tmp_path / "r.html"],
    ]  # fmt: skip
    writers = [["ask", place], ["tell", place, tmp_path / "r.csv"], ["forget", place, "--all-open"]]
    ended = ended_as_anybody(*readers, *writers)
    assert [code for code, _ in ended[:6]] == [0] * 6, ended
    for code, said in ended[6:]:
        assert (code, said.count("\n"), "readonly" in said) == (4, 1, True), said
    assert sorted(path.name for path in locked.iterdir()) == before


def test_results_in_the_log_of_a_read_only_folder_are_not_overlooked(locked):
    """A process that was killed has left results in the write-ahead log; they are read or it is an error."""
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom tests.campaigns.support import made, step\n"
        "campaign = made(Path(sys.argv[1]))\nstep(campaign, 6)\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(locked)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert (locked / "c.db-wal").stat().st_size > 0
    lock(locked)
    done = command("status", locked / "c.db", "--json", preexec_fn=_as_anybody)
    assert done.code == 4 or done.json["results"]["values"] == 6


def test_an_old_campaign_in_a_read_only_folder_says_what_it_needs(locked):
    restore(locked, "given", version=3)
    lock(locked)
    done = command("status", locked / "c.db", preexec_fn=_as_anybody)
    assert (done.code, "schema version 3 and must be upgraded" in done.err) == (4, True), done.err


def test_a_folder_that_can_be_written_is_not_read_only(tmp_path):
    made(tmp_path).close()
    assert not is_read_only(tmp_path / "c.db")
    assert not is_read_only(tmp_path / "none.db")
    assert not is_read_only(None)


def test_an_empty_file_gets_messages_that_agree(tmp_path):
    with made(tmp_path, "other.db"):
        pass
    place = tmp_path / "c.db"
    place.touch()
    new = ["new", place, "--pool", tmp_path / "pool.csv", "--id", "name", "--features", "x1"]
    for arguments in (new, ["status", place], ["ask", place]):
        done = cli(*arguments)
        assert (done.code, done.err.count("\n")) == (4, 1)
        assert "empty" in done.err
        assert "delete it" in done.err
    place.unlink()
    assert cli(*new).code == 0


MOMENTS = [
    ("manyarms.campaigns.store.creation", "write_new"),
    ("manyarms.support.output_files", "flush_to_disk"),
    ("os", "link"),
]
# A child for each line "module name before|after folder", which is killed before or after that call.
KILLED_NEW = """
import importlib, os, sys
from pathlib import Path
from tests.campaigns.support import made

def begin(module, name, when, folder):
    module = importlib.import_module(module)
    original = getattr(module, name)
    def killed(*arguments, **options):
        if when == "before":
            os.kill(os.getpid(), 9)
        original(*arguments, **options)
        os.kill(os.getpid(), 9)
    setattr(module, name, killed)
    made(Path(folder))

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        begin(*line.rstrip("\\n").split("\\t"))
        os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_killed_new_leaves_nothing_or_a_whole_campaign(tmp_path):
    cases = [(*moment, when) for moment in MOMENTS for when in ("before", "after")]
    folders = [tmp_path / str(number) for number in range(len(cases))]
    for folder in folders:
        folder.mkdir()
    orders = "".join("\t".join([*case, str(at)]) + "\n" for case, at in zip(cases, folders, strict=True))
    done = subprocess.run(
        [sys.executable, "-c", KILLED_NEW],
        input=orders,
        cwd=ROOT,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    assert done.stdout.split() == [str(-signal.SIGKILL)] * len(cases)
    for case, folder in zip(cases, folders, strict=True):
        names = sorted(path.name for path in folder.iterdir())
        assert names in (["pool.csv"], ["c.db", "pool.csv"]), case
        if "c.db" in names:
            with Campaign(folder / "c.db") as campaign:
                step(campaign, 2)
        else:
            made(folder).close()
