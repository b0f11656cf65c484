"""The communication of DUETS is sublinear in agents and steps; regret of the four algorithms (slow)."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms import agents
from manyarms.problems import PROBLEMS, Noisy, Problem
from tests.agents.support import KERNEL, NOISE, rewards, small_pool


def cost(n_agents: int, horizon: int, seed: int, n_arms: int = 500) -> float:
    settings = agents.DUETS(KERNEL, 0.2, n_agents, horizon, width=1.0, noise_std=NOISE, send="features")
    return agents.run(settings, small_pool(n_arms, seed), rewards(seed), seed=seed).cost.total


def exponents(
    n_agents: tuple[int, ...], horizons: tuple[int, ...], n_seeds: int
) -> tuple[float, float, dict]:
    """a and b of the least-squares fit cost ~ N^a T^b, and the mean costs behind it."""
    means = {
        (n, t): float(np.mean([cost(n, t, s) for s in range(n_seeds)])) for n in n_agents for t in horizons
    }
    design = np.array([(1.0, np.log(n), np.log(t)) for n, t in means])
    _, a, b = np.linalg.lstsq(design, np.log(list(means.values())), rcond=None)[0]
    return float(a), float(b), means


def test_cost_is_sublinear_in_agents_and_in_steps() -> None:
    a, b, means = exponents((5, 10, 20), (50, 200), 2)
    assert a < 0.6, means
    assert b < 0.6, means


@pytest.mark.slow
def test_cost_is_sublinear_on_the_whole_grid() -> None:
    a, b, means = exponents((5, 10, 20, 40), (50, 200, 800), 3)
    assert a < 0.4, means
    assert b < 0.4, means
    assert means[40, 800] < 0.05 * 40 * 800, means


def regrets(name: str, problem: Problem, width: float, n_runs: int = 5) -> np.ndarray:
    """Regret of N = 10 agents in T = 50 steps on pools of 500 random points."""
    kernel, values = ma.RBF(problem.lengthscale), []
    for seed in range(n_runs):
        pool = problem.pool(500, seed)
        settings = getattr(agents, name)(kernel, 0.2, 10, 50, width=width, noise_std=NOISE)
        result = agents.run(settings, pool, Noisy(problem, NOISE, seed), seed=seed)
        values.append(sum((problem(pool.features).max() - problem(f)).sum() for f in result.features))
    return np.array(values)


@pytest.mark.slow
@pytest.mark.parametrize("title", sorted(PROBLEMS))
def test_every_algorithm_beats_random_pulls_and_sharing_beats_silence(title: str) -> None:
    problem = PROBLEMS[title]()
    pool = problem.pool(500, 0)
    random = 500 * float(problem(pool.features).max() - problem(pool.features).mean())
    names = ("DUETS", "DisKernelUCB", "ApproxDisKernelUCB", "NKernelUCB")
    found = {name: min(regrets(name, problem, w).mean() for w in (0.2, 1.0)) for name in names}
    assert max(found.values()) < random, (found, random)
    assert found["DisKernelUCB"] < found["NKernelUCB"], found
