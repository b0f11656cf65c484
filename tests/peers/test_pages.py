"""The examples of the pages about Optuna and Kernel Tuner run."""

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


def test_kernel_tuner() -> None:
    names = run_page("docs/kernel-tuner.md")
    assert len(names["results"]) == 20
    assert names["best"]["time"] == 10
