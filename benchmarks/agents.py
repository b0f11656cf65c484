"""Many agents and one server: speed of DUETS, growth of its cost, and the comparison of DUETS Figure 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import manyarms as ma
from benchmarks import Row, at_most
from benchmarks.timing import cpu_seconds
from manyarms import agents
from manyarms.problems import PROBLEMS, Noisy, Problem, branin

NOISE, RIDGE, N_ARMS = 0.2, 0.2, 2000  # λ and the pool are not printed in the paper (theory §10.3)
WIDTHS = (0.2, 0.5, 1.0, 2.0, 5.0)  # the paper's grid for β
THRESHOLDS = {"DisKernelUCB": 10.0, "ApproxDisKernelUCB": 20.0}  # D
NAMES = ("DUETS", "DisKernelUCB", "ApproxDisKernelUCB", "NKernelUCB")


def algorithm(name: str, problem: Problem, n_agents: int, horizon: int, width: float) -> Any:
    """One of the four algorithms with the paper's settings; points are sent as d features."""
    common: dict[str, Any] = {"noise_std": NOISE, "width": width, "send": "features"}
    if name in THRESHOLDS:
        common["sync_threshold"] = THRESHOLDS[name]
    if name == "DUETS":
        common |= {"first_epoch": 2, "oversampling": 10.0}
    return getattr(agents, name)(ma.RBF(problem.lengthscale), RIDGE, n_agents, horizon, **common)


@dataclass(frozen=True)
class RunOutcome:
    """The regret summed over agents and steps, and the communication cost of DUETS §2."""

    regret: float
    cost: float


def outcome(name: str, problem: Problem, n_agents: int, horizon: int, width: float, seed: int) -> RunOutcome:
    """One run on a pool of random points; the regret is relative to the best arm of the pool."""
    pool = problem.pool(N_ARMS, seed)
    configured = algorithm(name, problem, n_agents, horizon, width)
    result = agents.run(configured, pool, Noisy(problem, NOISE, seed), seed=seed)
    best = problem(pool.features).max()
    regret = sum(float((best - problem(points)).sum()) for points in result.features)
    return RunOutcome(regret, result.cost.total)


def speed(smoke: bool) -> list[Row]:
    """CPU seconds of a whole DUETS run with N = 10 and T = 1 000 on Branin, on one core."""
    rows = []
    for n_arms, bar in ((200, 1.0),) if smoke else ((2_000, 1.0), (100_000, 60.0)):
        problem, horizon = branin(), 50 if smoke else 1000
        pool = problem.pool(n_arms, 0)
        configured = algorithm("DUETS", problem, 10, horizon, 1.0)
        seconds = cpu_seconds(lambda p=pool, d=configured, f=problem: agents.run(d, p, Noisy(f, NOISE, 0)))  # type: ignore[misc]
        rows.append(at_most(f"DUETS N=10 T={horizon} A={n_arms}", seconds, bar, "s"))
    return rows


def communication(smoke: bool) -> list[Row]:
    """The cost against N and T, and the exponents a, b of the least-squares fit cost ~ N^a T^b."""
    n_agents = (5, 10) if smoke else (5, 10, 20, 40)
    horizons = (20, 50) if smoke else (50, 200, 800)
    rows, logs, costs = [], [], []
    for n in n_agents:
        for horizon in horizons:
            runs = [
                outcome("DUETS", branin(), n, horizon, 1.0, seed).cost for seed in range(1 if smoke else 5)
            ]
            rows.append(
                Row(
                    f"DUETS cost N={n} T={horizon}",
                    float(np.mean(runs)),
                    "reals",
                    note=f"N·T = {n * horizon}",
                )
            )
            logs.append((1.0, np.log(n), np.log(horizon)))
            costs.append(np.log(np.mean(runs)))
    _, in_agents, in_horizon = np.linalg.lstsq(np.array(logs), np.array(costs), rcond=None)[0]
    return [
        *rows,
        at_most("exponent of the cost in N", in_agents, 0.9),
        at_most("exponent of the cost in T", in_horizon, 0.9),
    ]


def figure_1(smoke: bool) -> list[Row]:
    """Regret and cost of the four algorithms with N = 10, T = 50, 5 runs, each at its best β of the grid."""
    horizon, widths, seeds = (8, (1.0,), 1) if smoke else (50, WIDTHS, 5)
    rows = []
    for title in PROBLEMS:
        for name in NAMES:
            runs = {width: _runs(name, title, horizon, width, seeds) for width in widths}
            best = min(runs, key=lambda width: runs[width][0].mean())
            regret, cost = runs[best]
            note = f"sd {regret.std():.1f}, β = {best:g}"
            rows.append(Row(f"{title} {name} regret", regret.mean(), note=note))
            rows.append(Row(f"{title} {name} cost", cost.mean(), "reals"))
    return rows


def narrow_trims(smoke: bool) -> list[Row]:
    """Regret of DUETS with β below the paper's grid, T = 50."""
    horizon, seeds = (8, 1) if smoke else (50, 5)
    rows = []
    for title in PROBLEMS:
        for width in (0.02, 0.05, 0.1, 0.2):
            regret, _ = _runs("DUETS", title, horizon, width, seeds)
            rows.append(
                Row(f"{title} DUETS β={width:g} regret", regret.mean(), note=f"sd {regret.std():.1f}")
            )
    return rows


def _runs(name: str, title: str, horizon: int, width: float, n_seeds: int) -> tuple[Any, Any]:
    runs = [outcome(name, PROBLEMS[title](), 10, horizon, width, seed) for seed in range(n_seeds)]
    return np.array([run.regret for run in runs]), np.array([run.cost for run in runs])


BENCHMARKS = [speed, communication, figure_1, narrow_trims]
