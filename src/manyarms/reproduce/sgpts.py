"""The cost of a Thompson sampling step against t and A, and the effect of sparsity on regret (S-GP-TS §4).

The paper has no experiments, but states costs. Exact GP-TS needs O(t³) for the posterior and O(A³) for a
joint draw at A points in every step ("textbook" below). Decomposed draws with m inducing points, rule (6), or
m inducing features, rule (7), need O(t·m² + A·M). The exact GP-TS of this package factorises the joint prior
once and updates the posterior incrementally; it is measured too. Chosen here: points uniform in the unit
square, Matérn ν = 2.5 with length-scale 0.2, noise of standard deviation 0.1, λ = 0.01, m = 100 (a k-DPP for
rule (6)), M = 500, α = 1.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import manyarms as ma
from manyarms.problems import branin
from manyarms.reproduce.curves import Grid, Panel, averaged, fitted_slope, mean_and_sd
from manyarms.reproduce.experiment import (
    Experiment,
    ExperimentPlan,
    ExperimentResult,
    Job,
    JobOutcome,
    Settings,
    SummaryRow,
)
from manyarms.reproduce.noise import PullNoise
from manyarms.reproduce.simulation import simulate
from manyarms.reproduce.summaries import by_case_and_method, grouped, regret_panel
from manyarms.support.validation import Floats, Ints

TEXTBOOK, EXACT = "GP-TS, textbook", "GP-TS, incremental"
POINTS, FEATURES = "S-GP-TS, rule (6)", "S-GP-TS, rule (7)"
METHODS = (TEXTBOOK, EXACT, POINTS, FEATURES)
JITTER = 1e-8  # the joint covariance of many close points is numerically singular
Step = Callable[[], tuple[int, int]]  # makes one pull and returns the arm and m


def policy_of(method: str, settings: Settings) -> ma.Policy:
    """The policy of a method; the textbook form is not a policy."""
    kernel = ma.Matern(nu=settings["nu"], lengthscale=settings["lengthscale"])
    given: dict[str, Any] = {
        "kernel": kernel, "noise_std": settings["noise_std"], "ridge": settings["ridge"], "width": 1.0,
    }  # fmt: skip
    if method == EXACT:
        return ma.GPTS(**given)
    sizes = {"size": settings["m"], "prior_size": settings["M"]}
    if method == POINTS:
        return ma.SGPTS(**given, **sizes, rule="points", inducing="kdpp")
    return ma.SGPTS(**given, **sizes, rule="features")


def policy_steps(method: str, settings: Settings, n_arms: int, t: int, seed: int) -> Step:
    """Steps of a run that starts with t results."""
    features, truth, arms, rewards = history(n_arms, t, settings["noise_std"], seed)
    opt = ma.Optimizer(ma.Pool(features), policy_of(method, settings), seed=seed)
    opt.tell(arms=arms, rewards=rewards)

    def step() -> tuple[int, int]:
        batch = opt.ask()
        opt.tell(batch, truth[batch.arms])
        return int(batch.arms[0]), opt.posterior.state.sketch_size

    return step


def textbook_posterior(
    prior: Floats, pulled: list[int], rewards: list[float], ridge: float
) -> tuple[Floats, Floats]:
    """Mean and joint covariance of all arms, recomputed from their prior covariance in O(t³ + A²t)."""
    from scipy.linalg import cho_solve, cholesky

    factor = cholesky(prior[np.ix_(pulled, pulled)] + ridge * np.eye(len(pulled)), lower=True)
    gain = cho_solve((factor, True), prior[pulled])
    return np.array(rewards) @ gain, prior - prior[:, pulled] @ gain


def textbook_steps(settings: Settings, n_arms: int, t: int, seed: int) -> Step:
    """Steps that recompute the posterior and a joint draw (O(A³)); only the prior covariance is kept."""
    from scipy.linalg import cholesky

    kernel = ma.Matern(nu=settings["nu"], lengthscale=settings["lengthscale"])
    features, truth, arms, rewards = history(n_arms, t, settings["noise_std"], seed)
    prior, rng = kernel.matrix(features, features), np.random.default_rng([seed, 1])
    pulled, seen = arms.tolist(), rewards.tolist()

    def step() -> tuple[int, int]:
        mean, covariance = textbook_posterior(prior, pulled, seen, settings["ridge"])
        root = cholesky(covariance + JITTER * np.eye(n_arms), lower=True)
        arm = int(np.argmax(mean + root @ rng.standard_normal(n_arms)))
        pulled.append(arm)
        seen.append(float(truth[arm]))
        return arm, len(pulled)

    return step


def history(n_arms: int, t: int, noise_std: float, seed: int) -> tuple[Floats, Floats, Ints, Floats]:
    """A pool in the unit square, its values, and t random pulls with rewards."""
    problem, rng = branin(), np.random.default_rng([seed, 2])
    features = problem.points(n_arms, seed)
    truth, arms = problem(features), rng.integers(n_arms, size=t)
    return features, truth, arms, truth[arms] + noise_std * rng.standard_normal(t)


def timed_step(method: str, settings: Settings, n_arms: int, t: int, seed: int) -> dict[str, float]:
    """Median CPU seconds of a step after t pulls; the first step, which fits the t results, is in `setup`."""
    started = time.process_time()
    textbook = method == TEXTBOOK
    step = (
        textbook_steps(settings, n_arms, t, seed)
        if textbook
        else policy_steps(method, settings, n_arms, t, seed)
    )
    step()
    fitted = time.process_time()
    seconds = []
    for _ in range(settings["steps"]):
        before = time.process_time()
        arm, m = step()
        seconds.append(time.process_time() - before)
    return {"arm": arm, "m": m, "seconds": statistics.median(seconds), "setup": fitted - started}


def run_one(job: Job, data_home: Path | None) -> JobOutcome:
    """A sweep over t or A, or one run that measures regret."""
    settings = job.settings
    if settings["sweep"] == "regret":
        return _regret(job)
    sizes = [size for size in settings["sizes"] if settings["sweep"] == "t" or size <= settings["most_arms"]]
    rows = [
        timed_step(job.method, settings, settings["arms"], size, job.seed)
        if settings["sweep"] == "t"
        else timed_step(job.method, settings, size, settings["t"], job.seed)
        for size in sizes
    ]
    at = np.array(sizes, dtype=np.float64)
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    numbers = {"size": at, "m": columns["m"], "arm": columns["arm"]}
    return JobOutcome(numbers, {"size": at, "seconds": columns["seconds"], "setup": columns["setup"]})


def _regret(job: Job) -> JobOutcome:
    settings, problem = job.settings, branin()
    pool = problem.pool(settings["arms"], job.seed)
    opt = ma.Optimizer(pool, policy_of(job.method, settings), seed=job.seed, budget=settings["horizon"])
    return simulate(opt, problem(pool.features), PullNoise(settings["noise_std"], job.seed))


def panels(results: Sequence[ExperimentResult]) -> Grid:
    """CPU seconds of a step against t and against A, and regret against t."""
    return (tuple(_panel(case, methods) for case, methods in grouped(results).items()),)


def _panel(case: str, methods: dict[str, list[ExperimentResult]]) -> Panel:
    if case == "regret":
        return regret_panel("Branin", methods)
    curves = tuple(
        averaged(name, own[0].timings["size"], [run.timings["seconds"] for run in own])
        for name, own in methods.items()
    )
    settings = next(iter(methods.values()))[0].job.settings
    fixed = f"A = {settings['arms']}" if settings["sweep"] == "t" else f"t = {settings['t']}"
    label = f"CPU seconds of a step, {fixed}"
    return Panel(case, settings["sweep"], label, curves, log_x=True, log_y=True)


def summary(results: Sequence[ExperimentResult]) -> list[SummaryRow]:
    """CPU seconds at the largest size, the exponent fitted to the larger sizes, and the final regret."""
    return [_summary_row(case, method, runs) for case, method, runs in by_case_and_method(results)]


def _summary_row(case: str, method: str, runs: list[ExperimentResult]) -> SummaryRow:
    blank: SummaryRow = {"case": case, "method": method, "seeds": len(runs)}
    if case == "regret":
        regret, sd = mean_and_sd([run.numbers["regret"][-1] for run in runs])
        seconds = float(np.mean([run.timings["seconds"][-1] for run in runs]))
        found = {"largest": int(runs[0].numbers["t"][-1]), "CPU s": seconds, "exponent": float("nan")}
        return (
            blank | found | {"m": runs[0].numbers["dictionary"][-1], "regret": float(regret), "sd": float(sd)}
        )
    at = runs[0].timings["size"]
    steps, _ = mean_and_sd([run.timings["seconds"] for run in runs])
    upper = slice(len(at) // 2, None) if len(at) > 3 else slice(None)
    found = {
        "largest": int(at[-1]),
        "CPU s": float(steps[-1]),
        "exponent": fitted_slope(at[upper], steps[upper]),
    }
    m = float(np.mean([run.numbers["m"][-1] for run in runs]))
    return blank | found | {"m": m, "regret": float("nan"), "sd": float("nan")}


def _plan(
    seeds: int, t_sizes: Sequence[int], a_sizes: Sequence[int], arms: int, t: int, horizon: int,
    most: tuple[int, int], sketch: tuple[int, int], steps: int,
) -> ExperimentPlan:  # fmt: skip
    settings: Settings = {
        "nu": 2.5, "lengthscale": 0.2, "noise_std": 0.1, "ridge": 0.01, "m": sketch[0], "M": sketch[1],
        "steps": steps, "arms": arms, "t": t, "most_arms": max(a_sizes), "horizon": horizon,
    }  # fmt: skip
    cases: dict[str, Settings] = {
        "against t": {"sweep": "t", "sizes": list(t_sizes)},
        "against A": {"sweep": "A", "sizes": list(a_sizes)},
        "regret": {"sweep": "regret"},
    }
    largest = {TEXTBOOK: most[0], EXACT: most[1]}
    limits = {(case, name): {"most_arms": size} for name, size in largest.items() for case in cases}
    return ExperimentPlan(METHODS, seeds, settings, cases, limits, left_out=(("regret", TEXTBOOK),))


EXPERIMENT = Experiment(
    name="sgpts-scaling",
    shows="S-GP-TS §4, Table 1: a step of exact GP-TS costs O(t³ + A³), decomposed draws O(t·m² + A·M)",
    band="mean ± one standard deviation over seeds",
    plans={
        "smoke": _plan(
            seeds=1,
            t_sizes=(10, 20),
            a_sizes=(60, 120),
            arms=60,
            t=10,
            horizon=15,
            most=(120, 120),
            sketch=(10, 30),
            steps=2,
        ),
        "default": _plan(
            seeds=3,
            t_sizes=(100, 200, 400, 800, 1_600, 3_200),
            a_sizes=(500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000),
            arms=1_000,
            t=200,
            horizon=500,
            most=(4_000, 8_000),
            sketch=(100, 500),
            steps=9,
        ),
        "full": _plan(
            seeds=10,
            t_sizes=(100, 200, 400, 800, 1_600, 3_200, 6_400),
            a_sizes=(500, 1_000, 2_000, 4_000, 8_000, 16_000, 64_000),
            arms=1_000,
            t=200,
            horizon=2_000,
            most=(8_000, 16_000),
            sketch=(100, 500),
            steps=9,
        ),
    },
    run_one=run_one,
    panels=panels,
    summary=summary,
)
