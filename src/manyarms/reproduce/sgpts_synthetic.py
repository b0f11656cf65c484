"""S-GP-TS in batches against exact GP-TS on functions drawn from the prior.

The later, published version of S-GP-TS (NeurIPS 2021) adds experiments: synthetic functions with Matérn and
squared exponential (SE) kernels, and a molecular screening (`sgpts_screening`). Here functions are drawn from
a Gaussian process on random points of the unit square, and every method knows its kernel. Chosen here:
length-scale 0.2, noise of standard deviation 0.1, λ = 0.01, A = 1 000, T = 1 000 in batches of 10 and of 100,
α = 1, m = 100 for the k-DPP and for the eigenfunctions, M = 500.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import manyarms as ma
from manyarms.kernels import KernelLike
from manyarms.reproduce.curves import Grid
from manyarms.reproduce.experiment import (
    Experiment,
    ExperimentPlan,
    ExperimentResult,
    Job,
    JobOutcome,
    Settings,
)
from manyarms.reproduce.noise import PullNoise
from manyarms.reproduce.simulation import simulate
from manyarms.reproduce.summaries import final_rows, grouped, panel_of
from manyarms.support.validation import Floats

EXACT = "GP-TS"
POINTS: dict[str, dict[str, Any]] = {
    "S-GP-TS, leverage": {"rule": "points"},
    "S-GP-TS, k-DPP": {"rule": "points", "inducing": "kdpp"},
    "S-GP-TS, features": {"rule": "features"},
}
METHODS = (EXACT, *POINTS)
JITTER = 1e-10  # the covariance of close points is numerically singular


def kernel_of(settings: Settings) -> KernelLike:
    """SE or Matérn 5/2."""
    return (
        ma.RBF(settings["lengthscale"])
        if settings["kernel"] == "SE"
        else ma.Matern(nu=2.5, lengthscale=settings["lengthscale"])
    )


def drawn_function(kernel: KernelLike, n_arms: int, seed: int) -> tuple[Floats, Floats]:
    """Random points of the unit square, and the values there of a function drawn from the prior."""
    rng = np.random.default_rng([seed, 5])
    features = rng.random((n_arms, 2))
    covariance = kernel.matrix(features, features) + JITTER * np.eye(n_arms)
    return features, np.linalg.cholesky(covariance) @ rng.standard_normal(n_arms)


def policy_of(method: str, settings: Settings) -> ma.Policy:
    """The policy of a method, which knows kernel and noise."""
    given: dict[str, Any] = {
        "kernel": kernel_of(settings), "noise_std": settings["noise_std"], "width": 1.0,
        "batch_size": settings["batch"],
    }  # fmt: skip
    if method == EXACT:
        return ma.GPTS(**given)
    return ma.SGPTS(**given, **POINTS[method], size=settings["m"], prior_size=settings["M"])


def run_one(job: Job, data_home: Path | None) -> JobOutcome:
    """One run; the seed determines points, function and noise."""
    settings = job.settings
    features, truth = drawn_function(kernel_of(settings), settings["arms"], job.seed)
    opt = ma.Optimizer(
        ma.Pool(features), policy_of(job.method, settings), seed=job.seed, budget=settings["horizon"]
    )
    return simulate(opt, truth, PullNoise(settings["noise_std"], job.seed))


def panels(results: Sequence[ExperimentResult]) -> Grid:
    """Regret above CPU seconds, one column per case; a uniform choice, far above all, is left out."""
    cases = grouped(results)
    return (
        tuple(panel_of(case, "cumulative regret", "regret", methods) for case, methods in cases.items()),
        tuple(
            panel_of(case, "CPU seconds", "seconds", methods, log_y=True) for case, methods in cases.items()
        ),
    )


def _plan(seeds: int, arms: int, horizon: int, batches: Sequence[int], m: int, M: int) -> ExperimentPlan:
    settings: Settings = {
        "lengthscale": 0.2, "noise_std": 0.1, "arms": arms, "horizon": horizon, "m": m, "M": M,
    }  # fmt: skip
    cases: dict[str, Settings] = {
        f"{kernel}, B = {batch}": {"kernel": kernel, "batch": batch}
        for kernel in ("Matérn 5/2", "SE")
        for batch in batches
    }
    return ExperimentPlan(METHODS, seeds, settings, cases)


EXPERIMENT = Experiment(
    name="sgpts-synthetic",
    shows="S-GP-TS, published version: sparse draws lose little regret against exact ones, also in batches",
    band="mean ± one standard deviation over seeds",
    plans={
        "smoke": _plan(1, 60, 20, (5,), 10, 30),
        "default": _plan(10, 1_000, 1_000, (10, 100), 100, 500),
        "full": _plan(20, 2_000, 5_000, (10, 100, 500), 200, 1_000),
    },
    run_one=run_one,
    panels=panels,
    summary=final_rows,
)
