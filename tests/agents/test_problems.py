"""The four test functions have their documented maxima."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from manyarms import problems
from manyarms.agents import Pulls

MAXIMA = {"h1": 1.0, "h2": 4.0, "Branin": 1.0474, "Hartmann-4": 3.7298}


@pytest.mark.parametrize("name", sorted(MAXIMA))
def test_maximum(name: str) -> None:
    problem = problems.PROBLEMS[name]()
    assert problem.maximum == pytest.approx(MAXIMA[name], abs=5e-4)
    assert problem(problem.maximisers) == pytest.approx(problem.maximum, abs=1e-6)
    points = problem.points(20_000, seed=1)
    assert points.shape == (20_000, problem.n_features)
    assert problem(points).max() <= problem.maximum + 1e-9
    if problem.shape == "ball":
        assert (np.linalg.norm(points, axis=1) <= 1).all()
        return
    for start in points[np.argsort(problem(points))[-5:]]:  # a local search finds nothing higher
        found = minimize(lambda x: -problem(x)[0], start, bounds=[(0, 1)] * problem.n_features)
        assert -found.fun <= problem.maximum + 1e-6


def test_branin_has_three_maxima_and_hartmann_one() -> None:
    assert len(problems.branin().maximisers) == 3
    assert len(problems.hartmann4().maximisers) == 1


def test_the_wave_and_the_cubic_depend_on_one_direction_of_length_one() -> None:
    for make in (problems.wave_ridge, problems.polynomial_ridge):
        assert make(3)(np.zeros(10)) == make(4)(np.zeros(10))
        x = np.random.default_rng(0).random(10) / 10
        assert make(3)(x) != make(4)(x)
        assert make(3)(x) == make(3)(x)


def test_noise_belongs_to_the_agent_and_not_to_the_order_of_calls() -> None:
    problem = problems.branin()
    points = problem.points(4, 0)
    one, other = problems.Noisy(problem, 0.2, 5), problems.Noisy(problem, 0.2, 5)
    first = [one(Pulls(n, np.arange(len(points)), None, points)) for n in (0, 1)]
    second = [other(Pulls(n, np.arange(len(points)), None, points)) for n in (1, 0)]
    assert np.array_equal(first[0], second[1])
    assert np.array_equal(first[1], second[0])
    assert not np.array_equal(first[0], first[1])
    noise = np.concatenate(
        [problems.Noisy(problem, 0.2, s)(Pulls(0, np.arange(len(points)), None, points)) for s in range(500)]
    )
    residual = noise - np.tile(problem(points), 500)
    assert np.std(residual) == pytest.approx(0.2, rel=0.1)
