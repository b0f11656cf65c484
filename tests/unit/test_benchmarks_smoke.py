"""Every benchmark runs end to end in smoke mode; the figures mean nothing there and are not checked."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from benchmarks import discover, select
from benchmarks.__main__ import main


def test_smoke_mode_prints_a_table_and_writes_where_it_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["foundation", "--smoke", "--results", str(tmp_path)]) == 0
    (written,) = tmp_path.iterdir()
    record = json.loads(written.read_text())
    assert record["smoke"] is True
    assert {"commit", "versions", "machine", "when"} <= record.keys()
    assert {"python", "numpy", "scipy", "manyarms"} <= record["versions"].keys()
    table = capsys.readouterr().out
    assert record["rows"]
    for row in record["rows"]:
        assert math.isfinite(row["measured"]), row
        assert row["name"] in table


def test_the_three_bars_of_the_foundation_are_there() -> None:
    names = {"foundation.steps_against_scratch", "foundation.step_against_pass", "foundation.memory"}
    assert names <= discover().keys()
    assert select(["foundation"]).keys() >= names
    assert select(["foundation.memory"]).keys() == {"foundation.memory"}


def test_an_unknown_name_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no_such_benchmark"]) == 2
    assert "no_such_benchmark" in capsys.readouterr().err
