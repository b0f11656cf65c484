"""The experiments behind the defaults run, and go on where they were stopped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks import Row, decisions, learning


@pytest.mark.parametrize("benchmark", learning.BENCHMARKS)
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
    assert "generated b50 T100" in capsys.readouterr().out
