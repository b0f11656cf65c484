"""The benchmarks run, in smoke mode, and say what they measured; never how fast this machine is."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks import Row, at_least, at_most, discover, foundation, guarantees, passes, select
from benchmarks.__main__ import main, table


@pytest.mark.parametrize("benchmark", [*foundation.BENCHMARKS, *passes.BENCHMARKS])
def test_foundation_and_passes_give_rows(benchmark) -> None:
    rows = benchmark(True)
    assert rows
    for row in rows:
        assert isinstance(row, Row)
        assert row.measured >= 0
        assert (row.ok is None) == (row.bar == ""), "a bar and a verdict come together"


@pytest.mark.parametrize("benchmark", guarantees.BENCHMARKS)
def test_guarantees_gives_rows(benchmark) -> None:
    rows = {row.name: row for row in benchmark(True)}
    assert all(math.isfinite(row.measured) for row in rows.values())
    if benchmark is guarantees.widths:
        assert rows["arms outside the certified band"].measured == 0


def test_both_versions_compute_the_same() -> None:
    """The textbook version that the speed is compared with gives the same numbers."""
    rows = {row.name.split(": ")[1]: row for row in foundation.steps_against_scratch(True)}
    assert rows["largest difference of the two"].ok


def test_command_line_prints_a_table_and_writes_a_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["foundation.step_against_pass", "--smoke", "--results", str(tmp_path)]) == 0
    assert "matrix–vector product" in capsys.readouterr().out
    (written,) = tmp_path.glob("*.json")
    record = json.loads(written.read_text())
    assert record["smoke"]
    assert {"commit", "versions", "machine", "when", "rows"} <= set(record)
    assert {"python", "numpy", "scipy", "manyarms"} <= set(record["versions"])
    assert record["rows"]
    assert all(math.isfinite(row["measured"]) for row in record["rows"])


def test_modules_are_found_and_named() -> None:
    assert {"foundation.steps_against_scratch", "foundation.memory"} <= set(discover())
    assert set(select(["memory"])) == {"foundation.memory"}
    assert all(name.startswith("foundation.") for name in select(["foundation"]))
    assert select([]) == discover()


def test_an_unknown_name_is_an_error_that_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonsense"]) == 2
    assert "'nonsense'" in capsys.readouterr().err


def test_a_missed_bar_shows() -> None:
    rows = [at_least("speed", 3, 20, "times"), at_most("size", 2, 3, "GB"), Row("plain", 1.0)]
    lines = table(rows).splitlines()
    assert "MISSED" in lines[1]
    assert lines[2].endswith("ok")
    assert "MISSED" not in table(rows, enforced=False)
