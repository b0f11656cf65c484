"""The benchmark of the search through grids runs in smoke mode."""

from __future__ import annotations

from benchmarks import grid_search


def test_grids() -> None:
    rows = {row.name: row for row in grid_search.grids(True)}
    best = rows["digits, SVC: best score of all 25 candidates"].measured
    assert 0 < rows["digits, SVC: worst seed"].measured <= best
