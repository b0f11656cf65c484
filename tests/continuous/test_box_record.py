"""The record of runs on boxes: pieces add up, and the page shows what it holds."""

from __future__ import annotations

import math
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from benchmarks import box_runs
from benchmarks.box_record import RECORD, Run, add, ratio, runs, tables
from manyarms.problems.on_boxes import BoxProblem

PAGE = Path(__file__).parents[2] / "docs" / "measurements.md"


def run(seed: int = 0, regret: float = 0.5, library: str = "manyarms", function: str = "Branin") -> Run:
    return Run(function, library, seed, regret, 10.0, "version 1, of a test")


def test_runs_are_read_back_in_order_and_a_repeated_one_replaces_the_first(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "box.csv"
    add([run(1, 0.25), run(0, 0.5, "BoTorch")], path)
    add([run(1, 0.125), run(0, 1e-9)], path)
    assert runs(path) == [run(0, 1e-9), run(1, 0.125), run(0, 0.5, "BoTorch")]
    assert [entry.name for entry in path.parent.iterdir()] == ["box.csv"]


def _add_some(path: Path, library: str) -> None:
    for seed in range(20):
        add([run(seed, library=library)], path)


def test_two_processes_that_add_runs_at_a_time_lose_none(tmp_path: Path) -> None:
    path, context = tmp_path / "box.csv", get_context("spawn")
    both = [context.Process(target=_add_some, args=(path, library)) for library in ("manyarms", "BoTorch")]
    for process in both:
        process.start()
    for process in both:
        process.join()
        assert process.exitcode == 0
    assert len(runs(path)) == 40


def test_the_ratio_compares_the_medians_of_all_runs() -> None:
    ours = [run(seed, regret) for seed, regret in enumerate([1.0, 2.0, 1000.0])]
    theirs = [run(seed, regret, "BoTorch") for seed, regret in enumerate([0.25, 0.75])]
    others = [run(seed, 7.0, function="Levy-8") for seed in range(9)]
    assert ratio([*ours, *theirs, *others], "Branin", "BoTorch") == (4.0, 2)
    value, n_runs = ratio(ours, "Branin", "BoTorch")
    assert math.isnan(value)
    assert n_runs == 0


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of random points, which take no time."""

    def values(problem: BoxProblem, evaluations: int, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return problem(rng.uniform(problem.lower, problem.upper, (evaluations, len(problem.lower))))

    monkeypatch.setattr(box_runs, "METHODS", {"manyarms": values})


@pytest.mark.usefixtures("quick")
def test_pieces_make_the_runs_that_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "box.csv"
    command = ["manyarms", "--functions", "Levy-8", "Branin", "--record", str(path), "--seeds"]
    box_runs.main([*command, "1"])
    box_runs.main([*command, "2"])
    done = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    first, second = ["manyarms Levy-8 0", "manyarms Branin 0"], ["manyarms Levy-8 1", "manyarms Branin 1"]
    assert done == [*first, "finished", *second, "finished"]
    monkeypatch.setattr(box_runs, "versions", lambda library: "another version")
    box_runs.main([*command, "2"])
    assert capsys.readouterr().out == "finished\n"
    box_runs.main([*command, "1", "--again"])
    assert [found.versions == "another version" for found in runs(path)] == [True, False, True, False]


def test_the_page_shows_the_record() -> None:
    """After new runs, replace the page's tables by those that `python -m benchmarks.box_record` prints."""
    page, found = PAGE.read_text(encoding="utf-8"), runs()
    assert RECORD.exists()
    for table in tables(found).split("\n\n"):
        assert table in page
