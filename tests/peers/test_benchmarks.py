"""The benchmarks of the plug-ins run in smoke mode."""

from __future__ import annotations

import math

import pytest

from benchmarks import kernel_tuning, samplers


def test_samplers() -> None:
    rows = {row.name: row for row in samplers.enumerated(True)}
    for name in ("ManyArmsSampler", "random", "TPE"):
        assert rows[f"mixed, {name}: best − optimum, mean"].measured >= 0


def test_kernel_tuning_without_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MANYARMS_DATA", raising=False)
    (row,) = kernel_tuning.dedispersion(True)
    assert math.isnan(row.measured)
    assert "MANYARMS_DATA" in row.note
