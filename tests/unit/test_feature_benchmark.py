"""The benchmark of the feature maps runs in smoke mode, and its figure is drawn from what it measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import Row, discover, features
from benchmarks.feature_figure import draw


@pytest.mark.parametrize("benchmark", features.BENCHMARKS)
def test_rows_are_measured(benchmark) -> None:
    rows = benchmark(True)
    assert rows
    assert all(isinstance(row, Row) and row.measured >= 0 for row in rows)
    assert f"features.{benchmark.__name__}" in discover()


def test_figure_shows_every_map_and_panel(tmp_path: Path) -> None:
    points = list(features.kernel_errors(features.SMOKE))
    assert {point.map for point in points} == set(features.MAPS)
    path = tmp_path / "images" / "errors.svg"
    draw(points, path)
    drawn = path.read_text(encoding="utf-8")
    for d, kernel in features.KERNELS:
        assert f"{kernel}, d = {d}" in drawn
    for name in features.MAPS:
        assert name in drawn
