"""The functions on boxes have the minima that they claim, and the benchmarks run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import continuous
from manyarms.problems.on_boxes import BOX_PROBLEMS

MINIMISERS = {
    "Branin": [[-math.pi, 12.275], [math.pi, 2.275], [3 * math.pi, 2.475]],
    "Hartmann-4": [[0.18739527, 0.19415152, 0.55791777, 0.26477962]],
    "Hartmann-6": [[0.20168951, 0.15001069, 0.47687398, 0.27533243, 0.31165162, 0.65730053]],
    "Ackley-5": [[0.0] * 5],
    "Levy-8": [[1.0] * 8],
}


@pytest.mark.parametrize("name", BOX_PROBLEMS)
def test_the_minimum_is_attained_and_nothing_is_smaller(name: str) -> None:
    problem, rng = BOX_PROBLEMS[name], np.random.default_rng(0)
    at = np.array(MINIMISERS[name])
    assert problem.regret(at) == pytest.approx(np.zeros(len(at)), abs=1e-9)
    anywhere = rng.uniform(problem.lower, problem.upper, (5000, at.shape[1]))
    near = np.clip(at[0] + 1e-3 * rng.normal(size=(500, at.shape[1])), problem.lower, problem.upper)
    assert problem.regret(np.vstack([anywhere, near])).min() > -1e-9


@pytest.mark.parametrize("benchmark", continuous.BENCHMARKS)
def test_benchmarks_give_rows(benchmark) -> None:
    rows = benchmark(True)
    assert rows
    for row in rows:
        assert math.isfinite(row.measured) or row.note in ("not installed", "not in the record")
