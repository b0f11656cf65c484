"""Variance starvation (BKB Fig. 1): the predictive variance of sketches far from the data.

Published: f drawn from a Gaussian process on [0, 1] with a Gaussian kernel "of bandwidth σ² = 100", t ∈ {6,
63, 215} evaluations uniform in [0, 0.5], μ̃ ± 3σ̃. As a squared length-scale 100 would make f constant, so it
is read as a precision: k = exp(−100(x − y)²/2), l = 0.1 (theory §10.1). Not printed, and chosen here: noise
of standard deviation 0.1, q̄ = 2, a grid of 401 points; λ is the noise variance 0.01, varied once to the 0.2
of the other experiments. BKB is updated after every evaluation; SoR uses the inducing points of BKB, and the
random Fourier features have the same dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import manyarms as ma
from manyarms.embeddings.fourier import RandomFourierFeatures
from manyarms.reproduce.curves import Curve, Grid, Panel, mean_and_sd
from manyarms.reproduce.experiment import (
    Experiment,
    ExperimentPlan,
    ExperimentResult,
    Job,
    JobOutcome,
    Settings,
    SummaryRow,
)
from manyarms.reproduce.summaries import by_case_and_method
from manyarms.support.validation import Floats, Ints

METHODS = {"BKB": "BKB: residual kept", "SoR": "SoR: residual dropped", "RFF": "random Fourier features"}
FAR = 0.6  # at least one length-scale from the nearest evaluation


@dataclass(frozen=True)
class Evaluations:
    """The function on the grid, and the grid points evaluated, in order."""

    grid: Floats
    truth: Floats
    arms: Ints
    rewards: Floats


def evaluations(kernel: ma.RBF, n_grid: int, t: int, noise_std: float, seed: int) -> Evaluations:
    """f and t noisy values of it in [0, 0.5]; with the same seed, a larger t extends the same sequence."""
    rngs = [np.random.default_rng([seed, purpose]) for purpose in range(3)]
    grid = np.linspace(0.0, 1.0, n_grid)[:, None]
    values, vectors = np.linalg.eigh(kernel.matrix(grid, grid))
    truth = (vectors * np.sqrt(np.maximum(values, 0.0))) @ rngs[0].standard_normal(n_grid)
    arms = np.array([rngs[1].integers(n_grid // 2 + 1) for _ in range(t)], dtype=np.int64)
    return Evaluations(grid, truth, arms, truth[arms] + noise_std * rngs[2].standard_normal(t))


def bkb_posterior(data: Evaluations, kernel: ma.RBF, settings: Settings, seed: int) -> ma.Posterior:
    """The posterior of BKB after it received the evaluations one by one (BKB Algorithm 1)."""
    policy = ma.BKB(
        kernel=kernel, noise_std=settings["noise_std"], ridge=settings["ridge"],
        oversampling=settings["oversampling"], compaction=1.0,
    )  # fmt: skip
    opt = ma.Optimizer(ma.Pool(data.grid), policy, seed=seed)
    for arm, reward in zip(data.arms.tolist(), data.rewards.tolist(), strict=True):
        opt.tell(arms=[arm], rewards=[reward])
        opt.forget(opt.ask(1))  # `ask` updates the posterior; its choice is not used
    return opt.posterior


def sor_posterior(data: Evaluations, kernel: ma.RBF, sketch: ma.Posterior) -> tuple[Floats, Floats]:
    """The SoR posterior on the same inducing points, without the residual variance."""
    posterior = ma.Posterior(sketch.pool, kernel, sketch.ridge, residual=False)
    posterior.update(sketch.inducing, data.arms, data.rewards)
    return posterior.mean, posterior.variance


def fourier_posterior(
    data: Evaluations, kernel: ma.RBF, ridge: float, dimension: int, seed: int
) -> tuple[Floats, Floats]:
    """The posterior of theory §2.2 in a random feature map of this width, whose residual is 0."""
    pairs = max(1, round(dimension / 2))
    Z = RandomFourierFeatures(kernel, pairs, np.random.default_rng([seed, 3]), 1).matrix(data.grid)
    at = Z[data.arms]
    V = at.T @ at + ridge * np.eye(Z.shape[1])
    mean = Z @ np.linalg.solve(V, at.T @ data.rewards)
    return mean, ridge * np.einsum("ij,ji->i", Z, np.linalg.solve(V, Z.T))


def run_one(job: Job, data_home: Path | None) -> JobOutcome:
    """Mean and standard deviation on the grid. All methods use the same function and evaluations."""
    settings = job.settings
    kernel = ma.RBF(lengthscale=settings["lengthscale"])
    data = evaluations(kernel, settings["grid"], settings["t"], settings["noise_std"], job.seed)
    sketch = bkb_posterior(data, kernel, settings, job.seed)
    methods: dict[str, Callable[[], tuple[Floats, Floats]]] = {
        "BKB": lambda: (sketch.mean, sketch.variance),
        "SoR": lambda: sor_posterior(data, kernel, sketch),
        "RFF": lambda: fourier_posterior(data, kernel, sketch.ridge, len(sketch.inducing), job.seed),
    }
    mean, variance = methods[job.method]()
    pulls = np.bincount(data.arms, minlength=len(data.grid))
    averages = np.bincount(data.arms, data.rewards, len(data.grid)) / np.where(pulls, pulls, np.nan)
    numbers = {
        "x": data.grid[:, 0], "f": data.truth, "mean": mean, "sd": np.sqrt(np.maximum(variance, 0.0)),
        "average": averages, "inducing": np.full(len(mean), float(len(sketch.inducing))),
    }  # fmt: skip
    return JobOutcome(numbers)


def panels(results: Sequence[ExperimentResult]) -> Grid:
    """One row per method and one column per t, for seed 0 and the main λ only."""
    shown = [run for run in results if run.job.seed == 0 and not run.job.settings["varied"]]
    methods = list(dict.fromkeys(run.job.method for run in shown))
    return tuple(tuple(_panel(run) for run in shown if run.job.method == method) for method in methods)


def _panel(run: ExperimentResult) -> Panel:
    numbers, m = run.numbers, int(run.numbers["inducing"][0])
    curves = (
        Curve("f", numbers["x"], numbers["f"], kind="reference"),
        Curve(METHODS[run.job.method], numbers["x"], numbers["mean"], 3.0 * numbers["sd"]),
        Curve("evaluations (averaged)", numbers["x"], numbers["average"], kind="points"),
    )
    title = f"{run.job.method}, t = {run.job.settings['t']}, m = {m}"
    return Panel(title, "x", "reward", curves, y_limits=(-5.0, 5.0))


def summary(results: Sequence[ExperimentResult]) -> list[SummaryRow]:
    """The fraction of f on [0.6, 1] inside μ̃ ± 3σ̃, averaged over seeds."""
    return [_summary_row(case, method, runs) for case, method, runs in by_case_and_method(results)]


def _summary_row(case: str, method: str, runs: list[ExperimentResult]) -> SummaryRow:
    far = runs[0].numbers["x"] >= FAR
    inside, deviation = [], []
    for run in runs:
        error = np.abs(run.numbers["f"] - run.numbers["mean"])[far]
        inside.append(float((error <= 3.0 * run.numbers["sd"][far]).mean()))
        deviation.append(float(run.numbers["sd"][far].mean()))
    covered, spread = mean_and_sd(inside)
    return {
        "case": case,
        "method": method,
        "seeds": len(runs),
        "covered on [0.6, 1]": float(covered),
        "covered sd": float(spread),
        "mean sd on [0.6, 1]": float(np.mean(deviation)),
        "inducing arms": float(np.mean([run.numbers["inducing"][0] for run in runs])),
    }


def _plan(seeds: int, sizes: tuple[int, ...], grid: int) -> ExperimentPlan:
    settings = {"lengthscale": 0.1, "noise_std": 0.1, "oversampling": 2.0, "grid": grid}
    ridges = {"λ = 0.01": (0.01, False), "λ = 0.2": (0.2, True)}
    cases = {
        f"{name}, t = {t}": {"t": t, "ridge": ridge, "varied": varied}
        for name, (ridge, varied) in ridges.items()
        for t in sizes
    }
    return ExperimentPlan(tuple(METHODS), seeds, settings, cases)


EXPERIMENT = Experiment(
    name="bkb-variance-starvation",
    shows="BKB Fig. 1: away from the data BKB's band stays wide; SoR and Fourier features starve",
    band="μ̃ ± 3σ̃ of seed 0",
    plans={
        "smoke": _plan(1, (6, 20), 101),
        "default": _plan(20, (6, 63, 215), 401),
        "full": _plan(100, (6, 63, 215), 401),
    },
    run_one=run_one,
    panels=panels,
    summary=summary,
)
