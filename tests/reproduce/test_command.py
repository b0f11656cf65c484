"""The command `manyarms reproduce`, run in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from manyarms.reproduce.registry import EXPERIMENTS

QUICK = {"bkb-variance-starvation"}
NAMES = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in EXPERIMENTS]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a new process without a data folder."""
    inherited = {name: value for name, value in os.environ.items() if name != "MANYARMS_DATA"}
    return subprocess.run(
        [sys.executable, "-m", "manyarms", "reproduce", *arguments],
        capture_output=True, text=True, check=False, env=inherited | {"COLUMNS": "200"},
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_name_in_smoke_mode(name: str, tmp_path: Path) -> None:
    done = command(name, "--smoke", "--out", str(tmp_path), "--workers", "1")
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["digest"] in done.stdout
    assert manifest["generated_stand_in"] == (EXPERIMENTS[name].pool is not None)
    assert ("stand-in" in done.stdout) == manifest["generated_stand_in"]
    svg = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
    assert f"band: {EXPERIMENTS[name].band}" in svg
    assert ("stand-in" in svg) == manifest["generated_stand_in"]
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "raw").iterdir())) == len(EXPERIMENTS[name].plan("smoke").jobs())


@pytest.mark.slow
def test_the_same_command_twice_gives_the_same_numbers(tmp_path: Path) -> None:
    digests = []
    for folder, workers in (("a", "1"), ("b", "2")):
        out = tmp_path / folder
        done = command("bbkb-abalone", "--smoke", "--out", str(out), "--workers", workers)
        assert done.returncode == 0, done.stderr
        digests.append(json.loads((out / "manifest.json").read_text(encoding="utf-8"))["raw"])
    assert digests[0] == digests[1]


def test_an_unknown_name_is_one_line_that_lists_the_names(tmp_path: Path) -> None:
    done = command("bbkb-mars", "--smoke", "--out", str(tmp_path / "none"))
    assert done.returncode == 3
    (line,) = done.stderr.strip().splitlines()
    assert "'bbkb-mars'" in line
    assert "bbkb-abalone" in line
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("bbkb-abalone", "archive.ics.uci.edu"),
        pytest.param("bbkb-cadata", "fetch_california_housing", marks=pytest.mark.slow),
    ],
)
def test_a_missing_file_is_one_line_that_says_where_to_get_it(name: str, source: str, tmp_path: Path) -> None:
    done = command(name, "--out", str(tmp_path / "none"), "--data-home", str(tmp_path))
    assert done.returncode == 3
    (line,) = done.stderr.strip().splitlines()
    assert str(tmp_path) in line
    assert source in line
    assert not (tmp_path / "none").exists()


def test_smoke_and_full_cannot_be_combined() -> None:
    done = command("bbkb-abalone", "--smoke", "--full")
    assert done.returncode == 2
    assert "cannot be combined" in done.stderr
