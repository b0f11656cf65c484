"""The runner: files, manifests, reproducible numbers, and continuing after being killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from manyarms.errors import InvalidParameterError
from manyarms.reproduce.runner import ReproductionReport, planned_jobs, reproduce
from tests.reproduce.toy import RUN_BEFORE_GATE, toy

ROOT = Path(__file__).resolve().parents[2]


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ReproductionReport]:
    """A finished run on two workers, which the tests only read."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, reproduce(toy(), "smoke", folder, workers=2)


def test_a_run_leaves_raw_data_figures_summary_and_manifest(whole: tuple[Path, ReproductionReport]) -> None:
    folder, report = whole
    keys = ["one--seed0", "one--seed1", "three--seed0", "three--seed1"]
    expected = {f"{kind}/{key}.csv.gz" for kind in ("raw", "timings") for key in keys}
    assert files(folder) == expected | {"toy.png", "toy.svg", "summary.csv", "summary.md", "manifest.json"}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {"commit", "versions", "machine", "when", "paper", "band"} <= set(manifest)
    assert manifest["seeds"] == [0, 1]
    assert manifest["digest"] == report.digest
    assert set(manifest["raw"]) == {f"{key}.csv.gz" for key in keys}
    assert set(manifest["settings"]) == {"one", "three"}
    assert "mean ± sd" in (folder / "toy.svg").read_text()


def test_the_same_numbers_twice_whatever_the_timings_and_the_workers(
    whole: tuple[Path, ReproductionReport], tmp_path: Path
) -> None:
    folder, first = whole
    second = reproduce(toy(), "smoke", tmp_path, workers=1)
    assert first.digest == second.digest
    assert first.rows == second.rows
    timing = "timings/one--seed0.csv.gz"
    assert (folder / timing).read_bytes() != (tmp_path / timing).read_bytes()


def test_results_of_the_same_settings_are_reused_and_others_are_not(tmp_path: Path) -> None:
    assert reproduce(toy(), "smoke", tmp_path, workers=1).ran == 4
    again = reproduce(toy(), "smoke", tmp_path, workers=1)
    assert (again.ran, again.reused) == (0, 4)
    told: list[tuple[int, int, str]] = []
    more = reproduce(toy(3), "smoke", tmp_path, workers=1, progress=lambda *seen: told.append(seen))
    assert (more.ran, more.reused) == (2, 4)
    assert [(done, total) for done, total, _ in told] == [(4, 6), (5, 6), (6, 6)], "found results count"
    assert reproduce(toy(other=1), "smoke", tmp_path, workers=1).ran == 4
    damaged = tmp_path / "raw" / "one--seed0.csv.gz"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert reproduce(toy(other=1), "smoke", tmp_path, workers=1).ran == 1


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_with_the_rest(tmp_path: Path) -> None:
    """The first process finishes two of six jobs, and is killed while the third waits for the gate."""
    out, log, gate = tmp_path / "out", tmp_path / "log", tmp_path / "gate"
    command = [sys.executable, "-m", "tests.reproduce.toy", str(out), str(log), str(gate)]
    running = subprocess.Popen(command, cwd=ROOT)
    deadline = time.monotonic() + 240
    while not log.exists() or len(log.read_text().splitlines()) <= RUN_BEFORE_GATE:
        assert time.monotonic() < deadline
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.wait()
    done = {path.name.removesuffix(".csv.gz") for path in out.glob("raw/*.gz")}
    started = [line.split() for line in log.read_text().splitlines()]
    assert_gone(int(started[0][1]), deadline)
    assert done == {key for key, _ in started[:RUN_BEFORE_GATE]}

    log.unlink()
    gate.touch()
    experiment = toy(3, log=str(log), gate=str(gate))
    report = reproduce(experiment, "smoke", out, workers=1)
    rest = {line.split()[0] for line in log.read_text().splitlines()}
    assert not rest & done, "finished jobs must not run again"
    assert len(rest | done) == 6
    assert report.reused == len(done)
    assert report.digest == reproduce(experiment, "smoke", tmp_path / "whole", workers=1).digest


def assert_gone(pid: int, deadline: float) -> None:
    """Wait until a worker has ended after the process that started it."""
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        assert time.monotonic() < deadline, f"worker {pid} is still running"
        time.sleep(0.05)


def test_an_unknown_mode_is_named() -> None:
    with pytest.raises(InvalidParameterError, match="'full'"):
        planned_jobs(toy(), "full", None)
