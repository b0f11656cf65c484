"""Regret and time on Abalone and Cadata (BBKB Fig. 1 and 2; experiments of the BKB slides).

Published (theory §10.2): Gaussian kernel with σ² = 5 (l = √5), F = 20, δ = 1/T, q̄ = 2, λ = 0.2, T = 10⁴.
Not published, and chosen here: C̃ = 2 and the confidence width of the authors' code, ε = 0.1 for EpsGreedy.
The papers print neither the scale of the features, nor that of the rewards, nor the noise, and these decide
the order of the methods, so the set-up is read in three ways (`CASES`):

(a) standardised features, rewards in [0, 1], noise of standard deviation 0.1, with F = 20 and with F = 1;
(b) every column scaled to [0, 1], rewards in [0, 1], noise 0.1, F = 1;
(c) every column scaled to [0, 1], rewards in their own units, noise √λ, F = 20.

BKB keeps the inducing arms of earlier draws (`manyarms.BKB`, `compaction`); "BKB, fresh" keeps those of the
last draw only, as the papers' algorithm does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from manyarms.reproduce.summaries import final_rows, grouped, panel_of, regret_panel, relative_regret_panel

FRESH = "BKB, fresh"
POLICIES: dict[str, Callable[..., ma.Policy]] = {
    "EpsGreedy": ma.EpsGreedy,
    "GP-UCB": ma.GPUCB,
    "BKB": ma.BKB,
    FRESH: lambda **given: ma.BKB(compaction=1.0, **given),
    "BBKB": ma.BBKB,
    "BBKB-local": lambda **given: ma.BBKB(local=True, **given),
}
_STANDARDISED: Settings = {"features": "standardised", "rewards": "unit", "noise_std": 0.1}
A20, A1, B, C = "(a) F = 20", "(a) F = 1", "(b) F = 1", "(c) F = 20"
CASES: dict[str, Settings] = {
    A20: _STANDARDISED | {"norm_bound": 20.0},
    A1: _STANDARDISED | {"norm_bound": 1.0},
    B: {"features": "unit", "rewards": "unit", "noise_std": 0.1, "norm_bound": 1.0},
    C: {"features": "unit", "rewards": "own", "noise_std": 0.2**0.5, "norm_bound": 20.0},
}
PUBLISHED: Settings = {
    "lengthscale": 5**0.5,
    "ridge": 0.2,
    "oversampling": 2.0,
    "batch_ratio": 2.0,
    "explore": 0.1,
    "width": "authors",
    "storage": "float32",
}
WITHOUT_F = "EpsGreedy"  # does not depend on F, so it is run once for the two cases of (a)
BATCHED, SKETCHED = ("BBKB", "BBKB-local"), ("BKB", FRESH, "BBKB", "BBKB-local")


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
    pool = load(settings["pool"], data_home).scaled(settings["features"], settings["rewards"])
    opt = ma.Optimizer(
        ma.Pool(pool.features),
        policy_of(job.method, settings),
        seed=job.seed,
        budget=settings["horizon"],
        storage=settings["storage"],
    )
    return simulate(opt, pool.truth, PullNoise(settings["noise_std"], job.seed))


def panels(results: Sequence[ExperimentResult]) -> Grid:
    """One row per case: regret, also relative to a uniform choice, CPU seconds, batch size (if any exceeds 1)
    and inducing arms against t.

    EpsGreedy, which does not depend on F, is drawn in both rows of reading (a).
    """
    cases = grouped(results)
    batched = any(run.numbers["batch_size"].max() > 1 for run in results)
    greedy = cases.get(A20, {}).get(WITHOUT_F)
    if greedy and A1 in cases:
        cases[A1] = {WITHOUT_F: greedy} | cases[A1]
    return tuple(
        (
            regret_panel(case, methods),
            relative_regret_panel(case, methods),
            panel_of(case, "CPU seconds", "seconds", methods, log_y=True),
            *((panel_of(case, "batch size", "batch_size", methods, log_y=True),) if batched else ()),
            panel_of(case, "inducing arms", "dictionary", methods),
        )
        for case, methods in cases.items()
    )


def _plan(
    pool: str,
    horizon: int,
    seeds: int,
    methods: tuple[str, ...],
    cases: Sequence[str] = (A20, A1),
    budgets: Mapping[tuple[str, str], int] | None = None,
) -> ExperimentPlan:
    """`budgets` are shorter horizons of (case, method) pairs; 0 leaves a pair out."""
    settings = PUBLISHED | {"pool": pool, "horizon": horizon, "planned": horizon}
    budgets = budgets or {}
    overrides: dict[tuple[str, str], Settings] = {pair: {"horizon": n} for pair, n in budgets.items() if n}
    left_out = ((A1, WITHOUT_F), *(pair for pair, steps in budgets.items() if not steps))
    return ExperimentPlan(
        methods, seeds, settings, {case: CASES[case] for case in cases}, overrides, left_out
    )


ALL = tuple(POLICIES)
SEQUENTIAL = ("EpsGreedy", "GP-UCB", "BKB")
READINGS = tuple(CASES)
ABALONE_BUDGETS = {(case, FRESH): 1_000 for case in READINGS}
CADATA_BUDGETS = {
    **{(case, method): 2_000 for case in (A20, A1) for method in ("GP-UCB", "BKB")},
    **{(case, FRESH): 0 for case in (A20, A1)},
    **{(case, FRESH): 1_000 for case in (B, C)},
}
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
        "smoke": _plan("generated:200", 40, 2, ALL, READINGS),
        "default": _plan("abalone", 10_000, 10, ALL, READINGS, ABALONE_BUDGETS),
        "full": _plan("abalone", 10_000, 20, ALL, READINGS),
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
        "smoke": _plan("generated:300", 40, 2, ALL, READINGS),
        "default": _plan("housing", 10_000, 10, ALL, READINGS, CADATA_BUDGETS),
        "full": _plan("housing", 10_000, 10, ALL, READINGS),
    },
    run_one=run_one,
    panels=panels,
    summary=final_rows,
    pool="housing",
)
EXPERIMENTS = (BKB_CADATA, BBKB_ABALONE, BBKB_CADATA)
