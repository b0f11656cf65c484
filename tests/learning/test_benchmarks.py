"""The experiments behind the defaults run, and continue where they were interrupted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import Row, decisions, encodings, further, learning, uneven_noise
from manyarms import Pool
from manyarms.errors import MissingDataError


@pytest.mark.parametrize("benchmark", [*learning.BENCHMARKS, *uneven_noise.BENCHMARKS])
def test_learning_gives_rows(benchmark) -> None:
    rows = benchmark(True)
    assert rows
    assert all(isinstance(row, Row) and np.isfinite(row.measured) for row in rows)


def test_a_decision_experiment_is_resumed_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--pools", "generated", "--settings", "random", "default", "--budget", "100", "--batches", "50"]
    assert decisions.main(["--out", str(tmp_path), *few, "--seeds", "1"]) == 0
    first = (tmp_path / "runs.csv").read_text()
    assert first.count("\n") == 3
    assert decisions.main(["--out", str(tmp_path), *few, "--seeds", "2"]) == 0
    both = (tmp_path / "runs.csv").read_text()
    assert both.startswith(first)
    assert both.count("\n") == 5
    assert "| 100 of 100 evaluations, batches of 50 | generated |" in capsys.readouterr().out


def test_the_table_pairs_runs_by_seed(tmp_path: Path) -> None:
    runs = [("a", 0, 0.5, 3), ("a", 1, 0.75, 1), ("b", 1, 0.25, 9), ("b", 2, 0.75, 9)]
    lines = [f"pool,{name},50,200,{seed},100,{share},{better},0,0" for name, seed, share, better in runs]
    path = tmp_path / "runs.csv"
    path.write_text(
        "\n".join(["pool,setting,batch,budget,seed,evaluations,share,better,best,seconds", *lines])
    )
    shown = decisions.table(path, against="b")
    assert "| a | 62.5 ± 12.5, 2 (2) |" in shown
    assert "| a − b | 50.0 ± nan (1) |" in shown, "only one seed was run by both"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in ("anisotropic", "bumps") else name
        for name in sorted(further.FUNCTIONS)
    ],
)
def test_functions_need_no_files_and_are_always_the_same(name: str) -> None:
    (features, results), (again, _) = further.load(name), further.load(name)
    np.testing.assert_array_equal(features, again)
    assert len(features) == len(results)
    assert np.isfinite(results).all()


def test_a_missing_table_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MANYARMS_FURTHER", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"Wage\.csv was not found"):
        further.load("wages")


def test_texts_of_a_table_become_categories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "Ecdat").mkdir()
    (tmp_path / "Ecdat" / "BudgetFood.csv").write_text(
        '"","wfood","age","sex"\n1,0.5,40,"man"\n2,0.25,,"man"\n3,0.75,50,\n'
    )
    monkeypatch.setenv("MANYARMS_FURTHER", str(tmp_path))
    features, target = further.load("food")
    assert target.tolist() == [0.5, 0.75]
    assert Pool(features).features.tolist() == [[40.0, "man"], [50.0, "none"]]


def test_tables_to_be_read_in_several_ways_hold_the_same_candidates_in_every_form() -> None:
    numbers, values = encodings.tiles_numbers()
    for form in ("tiles", "tiles_frame", "tiles_words"):
        features, same = encodings.TABLES[form]()
        assert len(Pool(features)) == len(numbers) == 20_736
        np.testing.assert_array_equal(same, values)
    one_hot, _ = encodings.tiles()
    assert (one_hot.sum(axis=1) == numbers.shape[1]).all()
    np.testing.assert_array_equal(one_hot[:, :6].argmax(axis=1), np.log2(numbers[:, 0]) - 4)
    for form in ("architecture", "dna", "ids", "missing", "logarithms", "dummies", "plain"):
        features, values = encodings.TABLES[form]()
        assert len(Pool(features)) == len(values)
        assert np.isfinite(values).all()
