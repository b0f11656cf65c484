"""Regret and time on Abalone and Cadata (BBKB Fig. 1 and 2; experiments of the BKB slides).

Published (theory §10.2): Gaussian kernel with σ² = 5 (l = √5), F = 20, δ = 1/T, q̄ = 2, λ = 0.2, T = 10⁴.
Not published, and chosen here: noise of standard deviation 0.1 on rewards in [0, 1], standardised features,
C̃ = 2 and the confidence width of the authors' code, ε = 0.1 for EpsGreedy. One choice is varied: with F = 20
the exploration bonus exceeds the range of the rewards and all methods mostly explore, so F = 1 is run too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
from manyarms.reproduce.pools import load
from manyarms.reproduce.simulation import simulate
from manyarms.reproduce.summaries import final_rows, grouped, panel_of, regret_panel

POLICIES: dict[str, Callable[..., ma.Policy]] = {
    "EpsGreedy": ma.EpsGreedy,
    "GP-UCB": ma.GPUCB,
    "BKB": ma.BKB,
    "BBKB": ma.BBKB,
    "BBKB-local": lambda **given: ma.BBKB(local=True, **given),
}
CASES: dict[str, Settings] = {"F = 20": {"norm_bound": 20.0}, "F = 1": {"norm_bound": 1.0}}
PUBLISHED: Settings = {
    "lengthscale": 5**0.5,
    "ridge": 0.2,
    "oversampling": 2.0,
    "batch_ratio": 2.0,
    "noise_std": 0.1,
    "explore": 0.1,
    "width": "authors",
    "storage": "float32",
}
WITHOUT_F = ("EpsGreedy",)  # does not depend on F, so it is run in the first case only
BATCHED, SKETCHED = ("BBKB", "BBKB-local"), ("BKB", "BBKB", "BBKB-local")


def policy_of(method: str, settings: Settings) -> ma.Policy:
    """The policy of a method, with the settings that apply to it."""
    given: dict[str, Any] = {name: settings[name] for name in ("ridge", "noise_std", "norm_bound", "width")}
    if method in SKETCHED:
        given["oversampling"] = settings["oversampling"]
    if method in BATCHED:
        given["batch_ratio"] = settings["batch_ratio"]
    if method == "EpsGreedy":
        given["explore"] = settings["explore"]
    kernel = ma.RBF(lengthscale=settings["lengthscale"])
    return POLICIES[method](kernel=kernel, delta=1.0 / settings["planned"], **given)


def run_one(job: Job, data_home: Path | None) -> JobOutcome:
    """One run; δ is 1/T for the planned horizon T, even if a smaller budget ends the run earlier."""
    settings = job.settings
    pool = load(settings["pool"], data_home)
    opt = ma.Optimizer(
        ma.Pool(pool.features),
        policy_of(job.method, settings),
        seed=job.seed,
        budget=settings["horizon"],
        storage=settings["storage"],
    )
    return simulate(opt, pool.truth, PullNoise(settings["noise_std"], job.seed))


def panels(results: Sequence[ExperimentResult]) -> Grid:
    """One row per case: regret, CPU seconds, batch size (if any exceeds 1) and inducing arms against t.

    EpsGreedy, which does not depend on F, is drawn in every row.
    """
    cases = grouped(results)
    batched = any(run.numbers["batch_size"].max() > 1 for run in results)
    without_f = {
        method: runs for methods in cases.values() for method, runs in methods.items() if method in WITHOUT_F
    }
    return tuple(
        (
            regret_panel(case, methods),
            panel_of(case, "CPU seconds", "seconds", methods, log_y=True),
            *((panel_of(case, "batch size", "batch_size", methods, log_y=True),) if batched else ()),
            panel_of(case, "inducing arms", "dictionary", methods),
        )
        for case, methods in ((case, without_f | own) for case, own in cases.items())
    )


def _plan(
    pool: str,
    horizon: int,
    seeds: int,
    methods: tuple[str, ...],
    budgets: dict[str, int] | None = None,
) -> ExperimentPlan:
    """`budgets` are the horizons of methods whose full run would take too long."""
    settings = PUBLISHED | {"pool": pool, "horizon": horizon, "planned": horizon}
    overrides = {method: {"horizon": steps} for method, steps in (budgets or {}).items()}
    left_out = tuple((case, method) for case in list(CASES)[1:] for method in WITHOUT_F)
    return ExperimentPlan(methods, seeds, settings, CASES, overrides, left_out)


ALL = ("EpsGreedy", "GP-UCB", "BKB", "BBKB", "BBKB-local")
SEQUENTIAL = ("EpsGreedy", "GP-UCB", "BKB")
BAND = "mean ± one standard deviation over seeds"

BKB_CADATA = Experiment(
    name="bkb-cadata",
    shows="BKB slides: on Cadata, BKB has the regret of GP-UCB in a fraction of the time",
    band=BAND,
    plans={
        "smoke": _plan("generated:300", 40, 2, SEQUENTIAL),
        "default": _plan("housing", 1_000, 5, SEQUENTIAL),
        "full": _plan("housing", 10_000, 10, SEQUENTIAL),
    },
    run_one=run_one,
    panels=panels,
    summary=final_rows,
    pool="housing",
)
BBKB_ABALONE = Experiment(
    name="bbkb-abalone",
    shows="BBKB Fig. 1, 2, Abalone: sublinear regret in a fraction of the others' time, batches up to 3700",
    band=BAND,
    plans={
        "smoke": _plan("generated:200", 40, 2, ALL),
        "default": _plan("abalone", 10_000, 5, ALL),
        "full": _plan("abalone", 10_000, 10, ALL),
    },
    run_one=run_one,
    panels=panels,
    summary=final_rows,
    pool="abalone",
)
BBKB_CADATA = Experiment(
    name="bbkb-cadata",
    shows="BBKB Fig. 1, 2, Cadata: sublinear regret in a fraction of the others' time, batches up to 3900",
    band=BAND,
    plans={
        "smoke": _plan("generated:300", 40, 2, ALL),
        "default": _plan("housing", 10_000, 3, ALL, {"GP-UCB": 2_000, "BKB": 2_000}),
        "full": _plan("housing", 10_000, 10, ALL),
    },
    run_one=run_one,
    panels=panels,
    summary=final_rows,
    pool="housing",
)
EXPERIMENTS = (BKB_CADATA, BBKB_ABALONE, BBKB_CADATA)
