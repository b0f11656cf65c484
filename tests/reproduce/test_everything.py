"""All experiments in one command: what has its data runs, the rest is named, and a second call continues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from manyarms.cli import reproduce as command
from manyarms.cli.main import app
from manyarms.reproduce.everything import missing_data, reproduce_all
from manyarms.reproduce.registry import EXPERIMENTS
from tests.reproduce.toy import toy


def test_every_experiment_on_real_data_is_named_when_there_is_none(tmp_path: Path) -> None:
    missing = missing_data(EXPERIMENTS, "default", tmp_path)
    assert set(missing) == {name for name, experiment in EXPERIMENTS.items() if experiment.pool}
    assert "archive.ics.uci.edu" in missing["bbkb-abalone"]
    assert "fetch_california_housing" in missing["bbkb-cadata"]
    assert "coleygroup/molpal" in missing["sgpts-screening"]
    assert missing_data(EXPERIMENTS, "smoke", None) == {}


def test_what_has_its_data_runs_and_the_rest_is_reported(tmp_path: Path) -> None:
    experiments = {"bbkb-abalone": EXPERIMENTS["bbkb-abalone"], "toy": toy()}
    told: list[tuple[str, int, int, str]] = []
    report = reproduce_all(
        experiments, "default", tmp_path, data_home=tmp_path, workers=1,
        progress=lambda *seen: told.append(seen),
    )  # fmt: skip
    assert set(report.reports) == {"toy"}
    assert set(report.missing) == {"bbkb-abalone"}
    assert not (tmp_path / "bbkb-abalone").exists()
    assert (tmp_path / "toy" / "toy.png").exists()
    written = json.loads((tmp_path / "digests.json").read_text())
    assert written["mode"] == "default"
    assert written["experiments"]["toy"]["digest"] == report.reports["toy"].digest
    assert written["experiments"]["toy"]["runs"] == 4
    assert [(name, done) for name, done, _, _ in told] == [("toy", done) for done in range(5)]
    again = reproduce_all({"toy": toy()}, "default", tmp_path, data_home=tmp_path, workers=1)
    assert (again.reports["toy"].ran, again.reports["toy"].reused) == (0, 4)


def test_the_command_says_what_is_missing_before_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {"toy": toy(), "bbkb-abalone": EXPERIMENTS["bbkb-abalone"]}
    monkeypatch.setattr(command, "EXPERIMENTS", chosen)
    given = [
        "reproduce",
        "all",
        "--out",
        str(tmp_path / "out"),
        "--data-home",
        str(tmp_path),
        "--workers",
        "1",
    ]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 3
    errors = done.stderr.strip().splitlines()
    assert errors[0].startswith("bbkb-abalone is left out: abalone.csv")
    assert "bbkb-abalone did not run" in errors[-1]
    assert (
        json.loads((tmp_path / "out" / "digests.json").read_text())["experiments"]["toy"]["digest"]
        in done.stdout
    )
    monkeypatch.setattr(command, "EXPERIMENTS", {"toy": toy()})
    assert CliRunner().invoke(app, given).exit_code == 0
