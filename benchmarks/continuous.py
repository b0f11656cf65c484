"""Boxes: the best value found against BoTorch and Optuna, the regret against a fine grid, the time per step.

The runs of BoTorch and Optuna, which take hours, are those of the record (`benchmarks.box_record`); those of
manyarms are made here, with the same seeds. `MANYARMS_SEEDS` limits the number of seeds (10).
"""

from __future__ import annotations

import os
import time
from functools import partial

import numpy as np

import manyarms as ma
from benchmarks import Row, at_most
from benchmarks.box_record import PEERS, Run, ratio, runs
from benchmarks.box_runs import EVALUATIONS, manyarms_values
from manyarms.problems.on_boxes import BOX_PROBLEMS, BoxProblem

BAR = 1.5  # times the peer's simple regret


def seeds(smoke: bool) -> range:
    return range(1 if smoke else int(os.environ.get("MANYARMS_SEEDS", "10")))


def best_values(smoke: bool) -> list[Row]:
    """The median over the seeds of the simple regret after 200 evaluations, here and in the peers."""
    names = ["Branin"] if smoke else list(BOX_PROBLEMS)
    peers, rows = [run for run in runs() if run.library in PEERS], []
    for name in names:
        ours = [_made(name, 12 if smoke else EVALUATIONS, seed) for seed in seeds(smoke)]
        rows.append(Row(f"{name}: regret of manyarms", float(np.median([run.regret for run in ours]))))
        rows += [_compared([*ours, *peers], name, peer) for peer in PEERS]
    return rows


def _made(name: str, evaluations: int, seed: int) -> Run:
    started = time.process_time()
    best = manyarms_values(BOX_PROBLEMS[name], evaluations, seed).min()
    return Run(
        name, "manyarms", seed, float(best - BOX_PROBLEMS[name].minimum), time.process_time() - started, ""
    )


def _compared(found: list[Run], name: str, peer: str) -> Row:
    quotient, n_runs = ratio(found, name, peer)
    if not n_runs:
        return Row(f"{name}: manyarms / {peer}", float("nan"), note="not in the record")
    return at_most(
        f"{name}: manyarms / {peer}", quotient, BAR, "times", note=f"medians; {peer}: {n_runs} runs"
    )


def _uniform(problem: BoxProblem, n: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(problem.lower, problem.upper, (n, len(problem.lower)))


def against_a_fine_grid(smoke: bool) -> list[Row]:
    """Cumulative regret of Ada-BKB over that of BKB on a grid of 101 × 101 points, with the same policy."""
    problem, pulls = ma.problems.branin(), 30 if smoke else 500
    side = np.linspace(0.0, 1.0, 11 if smoke else 101)
    grid = ma.Pool(np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2))
    rows = []
    for width in ("auto", 2.0):
        policy = ma.BKB(kernel=ma.RBF(0.2), noise_std=0.05, norm_bound=5.0, width=width)
        found: dict[str, list[float]] = {"box": [], "grid": []}
        for seed in range(1 if smoke else 5):
            for name, domain in (("box", ma.Box([0.0, 0.0], [1.0, 1.0])), ("grid", grid)):
                noise = np.random.default_rng(seed)

                def f(arm: ma.Arm, noise: np.random.Generator = noise) -> float:
                    return float(problem(arm.features)[0] + 0.05 * noise.normal())

                result = ma.maximize(f, domain, pulls, policy, seed=seed)
                tried = result.optimizer.pool.take(result.arms)
                found[name].append(float((problem.maximum - problem(tried)).sum()))
        box, on_grid = np.mean(found["box"]), np.mean(found["grid"])
        rows += [
            Row(f"width {width}: regret on the grid", on_grid),
            Row(f"width {width}: regret of Ada-BKB", box),
            Row(f"width {width}: Ada-BKB / grid", box / on_grid, "times"),
        ]
    return rows


def time_per_step(smoke: bool) -> list[Row]:
    """One ask after T noisy results of Hartmann-6, against fit and choice by BoTorch on the same results."""
    results, problem = 60 if smoke else 5_000, BOX_PROBLEMS["Hartmann-6"]
    X = _uniform(problem, results)
    y = -problem(X) + 0.1 * np.random.default_rng(1).normal(size=results)
    run = ma.Optimizer(ma.Box(problem.lower, problem.upper))
    run.tell(points=X, rewards=y)
    started = time.process_time()
    batch = run.ask(1)
    first = time.process_time() - started
    steps = []
    for _ in range(2 if smoke else 5):
        run.tell(batch, -problem(run.points(batch)))
        started = time.process_time()
        batch = run.ask(1)
        steps.append(time.process_time() - started)
    ours = float(np.median(steps))
    rows = [Row("first ask, with learning", first, "s CPU"), Row("every further ask", ours, "s CPU")]
    try:
        theirs = _botorch_step(X, y, 20 if smoke else None)
    except ImportError:
        return [*rows, Row("BoTorch: one step", float("nan"), note="not installed")]
    note = "fit and log expected improvement"
    bar = at_most("manyarms / BoTorch", ours / theirs, 0.01, "times")
    return [*rows, Row("BoTorch: one step", theirs, "s CPU", note=note), bar]


def _botorch_step(X: np.ndarray, y: np.ndarray, maxiter: int | None) -> float:
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    inputs, outputs = torch.tensor(X), torch.tensor(y)[:, None]
    started = time.process_time()
    model = SingleTaskGP(inputs, outputs, outcome_transform=Standardize(1))
    options = {} if maxiter is None else {"optimizer_kwargs": {"options": {"maxiter": maxiter}}}
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model), **options)
    bounds = torch.stack([torch.zeros(X.shape[1]), torch.ones(X.shape[1])]).double()
    optimize = partial(optimize_acqf, bounds=bounds, q=1, num_restarts=10, raw_samples=512)
    optimize(LogExpectedImprovement(model, outputs.max()))
    return time.process_time() - started


BENCHMARKS = [best_values, against_a_fine_grid, time_per_step]
