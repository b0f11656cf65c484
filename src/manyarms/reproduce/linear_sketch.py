"""BKB with a linear kernel against linear sketches of a size fixed in advance (BKB §5, and its slides).

The claim: SOFUL (frequent directions) and CBRAP (random projections) fix their size m in advance and suffer
linear regret when it is too small for the spectrum; BKB adapts its size to its pulls and has the regret of
exact OFUL. The papers have no figure of this. Chosen here: normal arms in d = 100 dimensions, scaled into
the unit ball, with all eigenvalues equal ("flat") or deviations falling as 0.9ʲ ("decaying"); θ uniform on
a sphere, rewards scaled to [−1, 1], noise of standard deviation 0.1, λ = 0.01, m = 20 and 60. The width is
varied once: one posterior standard deviation for all, or the theoretical width of each algorithm with F = 10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import manyarms as ma
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
from manyarms.reproduce.summaries import final_rows, grouped, panel_of, regret_panel
from manyarms.support.validation import Floats

METHODS: dict[
    str, tuple[Callable[..., ma.Policy], str, str]
] = {  # policy, theoretical width, name of its size
    "OFUL": (ma.OFUL, "exact", ""),
    "BKB": (lambda **given: ma.BKB(kernel=ma.Linear(), **given), "bkb", ""),
    "SOFUL, small m": (ma.SOFUL, "soful", "small"),
    "SOFUL, large m": (ma.SOFUL, "soful", "large"),
    "CBRAP, small m": (ma.CBRAP, "exact", "small"),
    "CBRAP, large m": (ma.CBRAP, "exact", "large"),
}


def linear_problem(n_arms: int, d: int, decay: float, seed: int) -> tuple[Floats, Floats]:
    """Arms in the unit ball with standard deviation ∝ decayʲ in feature j, and rewards xᵀθ in [−1, 1]."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_arms, d)) * decay ** np.arange(d)
    features /= np.linalg.norm(features, axis=1).max()
    truth = features @ rng.standard_normal(d)
    return features, truth / np.abs(truth).max()


def policy_of(method: str, settings: Settings) -> ma.Policy:
    """The policy of a method, with its size and width."""
    make, theory, size = METHODS[method]
    width = theory if settings["width"] == "theory" else settings["width"]
    given = {name: settings[name] for name in ("noise_std", "ridge", "norm_bound")}
    sized = {"size": settings[size]} if size else {}
    return make(**given, **sized, width=width, delta=1.0 / settings["horizon"])


def run_one(job: Job, data_home: Path | None) -> JobOutcome:
    """One run; the seed determines arms, θ and noise."""
    settings = job.settings
    features, truth = linear_problem(settings["arms"], settings["d"], settings["decay"], job.seed)
    opt = ma.Optimizer(
        ma.Pool(features), policy_of(job.method, settings), seed=job.seed, budget=settings["horizon"]
    )
    outcome = simulate(opt, truth, PullNoise(settings["noise_std"], job.seed))
    return _with_size(outcome, settings, METHODS[job.method][2])


def _with_size(outcome: JobOutcome, settings: Settings, size: str) -> JobOutcome:
    """Report m as the size of a fixed sketch (SOFUL sketches V and keeps all d columns of z)."""
    if not size:
        return outcome
    m = np.full(len(outcome.numbers["t"]), float(settings[size]))
    return replace(outcome, numbers=outcome.numbers | {"dictionary": m})


def panels(results: Sequence[ExperimentResult]) -> Grid:
    """One row per case: regret, CPU seconds and model size against t."""
    return tuple(
        (
            regret_panel(case, methods),
            panel_of(case, "CPU seconds", "seconds", methods, log_y=True),
            panel_of(case, "size of the model", "dictionary", methods),
        )
        for case, methods in grouped(results).items()
    )


def _plan(seeds: int, arms: int, d: int, sizes: tuple[int, int], horizon: int) -> ExperimentPlan:
    settings: Settings = {
        "arms": arms, "d": d, "small": sizes[0], "large": sizes[1], "horizon": horizon, "noise_std": 0.1,
        "ridge": 0.01, "norm_bound": 10.0,
    }  # fmt: skip
    cases: dict[str, Settings] = {
        "flat, β = 1": {"decay": 1.0, "width": 1.0},
        "decaying, β = 1": {"decay": 0.9, "width": 1.0},
        "flat, β of theory": {"decay": 1.0, "width": "theory"},
        "decaying, β of theory": {"decay": 0.9, "width": "theory"},
    }
    return ExperimentPlan(tuple(METHODS), seeds, settings, cases)


EXPERIMENT = Experiment(
    name="bkb-vs-linear-sketch",
    shows="BKB §5: sketches of a fixed size suffer linear regret when it is too small; BKB's adapts",
    band="mean ± one standard deviation over seeds",
    plans={
        "smoke": _plan(1, 60, 8, (2, 5), 25),
        "default": _plan(5, 2_000, 100, (20, 60), 2_000),
        "full": _plan(10, 2_000, 100, (20, 60), 10_000),
    },
    run_one=run_one,
    panels=panels,
    summary=final_rows,
)
