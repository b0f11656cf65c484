"""The benchmarks against other libraries and of scaling exponents run and compare equal answers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import discover, peers, slopes
from manyarms.reproduce.curves import labels


def test_peers_are_measured_on_the_same_answer() -> None:
    rows = {row.name.split(": ")[1]: row for row in peers.one_step(True)}
    assert rows["manyarms"].measured > 0
    assert rows["scikit-learn"].measured > 0
    assert rows["largest difference from scikit-learn"].measured < 1e-9
    if np.isnan(rows["BoTorch"].measured):
        assert rows["BoTorch"].note == "not installed"
    else:
        assert rows["largest difference from BoTorch"].measured < 1e-6


def test_slopes_are_fitted_for_each_size() -> None:
    rows = slopes.exponents(True)
    assert [row.name.split(",")[0] for row in rows] == [f"exponent of a step in {size}" for size in "tAm"]
    assert {"peers.one_step", "slopes.exponents"} <= set(discover())


def test_the_figure_shows_points_and_their_fitted_power() -> None:
    sweep = slopes.sweeps(smoke=True)[1]
    sizes = np.array(sweep.sizes, dtype=float)
    ((panel,),) = slopes.figure_data([(sweep, 2e-6 * sizes**1.5)])
    assert panel.title.startswith("A^1.50")
    assert labels(((panel,),)) == ["measured", "fitted power"]
    measured, fit = panel.curves
    assert fit.y == pytest.approx(measured.y)
