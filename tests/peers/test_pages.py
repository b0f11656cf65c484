"""The examples of the pages that need Optuna or Kernel Tuner run."""

from __future__ import annotations

import pytest

from tests.docs.pages import run_page


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_optuna() -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = run_page("docs/optuna.md")["study"]
    assert len(study.trials) == 30
    feasible = [trial for trial in study.trials if max(trial.system_attrs["constraints"]) <= 0]
    assert len(feasible) >= 15


def test_coming_from_another_library() -> None:
    names = run_page("docs/coming-from.md")
    assert len(names["study"].trials) == len(names["tried"]) == len(names["result"].arms) == 30
    best = names["value"].max()
    assert names["value"][names["result"].best.arm] == best
    assert max(names["study"].best_value, names["value"][names["tried"]].max()) <= best


def test_kernel_tuner() -> None:
    names = run_page("docs/kernel-tuner.md")
    assert len(names["results"]) == 20
    assert names["best"]["time"] == 10
