"""S-GP-TS in batches of 10 to 500 on a library of molecules, as in a high-throughput screening.

The later, published version of S-GP-TS (NeurIPS 2021) screens molecules in large batches. Its library is
replaced by the Enamine library with docking scores: 49 706 molecules, Morgan fingerprints of 1 024 bits, and
the Tanimoto kernel. Chosen here: minus the docking score, standardised, as reward; noise of 0.3 standard
deviations; λ = 0.09; 2 000 evaluations; α = 1; M = 1 000; inducing molecules by a k-DPP of 100 (in the full
mode also by leverage scores, which keep most of the molecules evaluated and take several times longer). What
counts is the recall, the fraction of the best 1 % of the molecules that have been evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import manyarms as ma
from manyarms.reproduce.curves import Curve, Grid, Panel, averaged, mean_and_sd
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
from manyarms.reproduce.pools import load
from manyarms.reproduce.simulation import simulate
from manyarms.reproduce.summaries import by_case_and_method, panel_of
from manyarms.support.validation import Floats, Ints

SHARE = 0.01  # of the library that counts as best
METHODS: dict[str, dict[str, Any]] = {"k-DPP": {"inducing": "kdpp"}, "leverage": {}}


def policy_of(method: str, settings: Settings) -> ma.SGPTS:
    """S-GP-TS with decomposed draws at inducing molecules."""
    return ma.SGPTS(
        kernel=ma.Tanimoto(), noise_std=settings["noise_std"], width=1.0, batch_size=settings["batch"],
        distinct=True, size=settings["m"], prior_size=settings["M"], **METHODS[method],
    )  # fmt: skip


def recall(truth: Floats, arms: Ints, at: Floats) -> Floats:
    """The fraction of the best 1 % of the library among the first t arms, at the steps `at`."""
    best = np.argsort(-truth, kind="stable")[: max(1, round(SHARE * len(truth)))]
    first = np.sort(np.unique(arms, return_index=True)[1])
    found = np.zeros(len(arms))
    found[first] = np.isin(arms[first], best)
    return np.cumsum(found)[at.astype(np.int64) - 1] / len(best)


def run_one(job: Job, data_home: Path | None) -> JobOutcome:
    """One campaign."""
    settings = job.settings
    pool = load(settings["pool"], data_home).scaled("own", "standardised")
    opt = ma.Optimizer(
        ma.Pool(pool.features), policy_of(job.method, settings), seed=job.seed, budget=settings["horizon"],
        storage="float32",
    )  # fmt: skip
    outcome = simulate(opt, pool.truth, PullNoise(settings["noise_std"], job.seed))
    arms = np.concatenate([record.arms for record in opt.trace])
    found = recall(pool.truth, arms, outcome.numbers["t"])
    return replace(outcome, numbers=outcome.numbers | {"recall": found})


def panels(results: Sequence[ExperimentResult]) -> Grid:
    """Recall, CPU seconds and sketch against evaluations: one row per method, one curve per batch size."""
    by_method: dict[str, dict[str, list[ExperimentResult]]] = {}
    for case, method, runs in by_case_and_method(results):
        by_method.setdefault(method, {})[case] = runs
    return tuple(
        (
            _recall_panel(method, cases),
            panel_of(method, "CPU seconds", "seconds", cases, log_y=True),
            panel_of(method, "inducing arms", "dictionary", cases),
        )
        for method, cases in by_method.items()
    )


def _recall_panel(method: str, cases: dict[str, list[ExperimentResult]]) -> Panel:
    curves = [
        averaged(case, runs[0].numbers["t"], [run.numbers["recall"] for run in runs])
        for case, runs in cases.items()
    ]
    (job, t) = next((runs[0].job, runs[0].numbers["t"]) for runs in cases.values())
    chance = Curve("uniform choice", t, t / job.settings["pool_arms"], kind="reference")
    return Panel(f"{method}: recall of the best 1 %", "t", "recall", (*curves, chance))


def summary(results: Sequence[ExperimentResult]) -> list[SummaryRow]:
    """Recall, sketch and time at the last evaluation."""
    return [_summary_row(case, method, runs) for case, method, runs in by_case_and_method(results)]


def _summary_row(case: str, method: str, runs: list[ExperimentResult]) -> SummaryRow:
    last = {name: np.array([run.numbers[name][-1] for run in runs]) for name in runs[0].numbers}
    found, sd = mean_and_sd(last["recall"])
    return {
        "case": case,
        "method": method,
        "seeds": len(runs),
        "t": int(last["t"][0]),
        "recall": float(found),
        "recall sd": float(sd),
        "by chance": float(last["t"][0] / runs[0].job.settings["pool_arms"]),
        "batches": float(last["batches"].mean()),
        "inducing arms": float(last["dictionary"].mean()),
        "CPU s": float(np.mean([run.timings["seconds"][-1] for run in runs])),
    }


def _plan(
    pool: str,
    seeds: int,
    horizon: int,
    batches: Sequence[int],
    m: int,
    M: int,
    methods: Sequence[str] = tuple(METHODS),
) -> ExperimentPlan:
    settings: Settings = {"pool": pool, "horizon": horizon, "noise_std": 0.3, "m": m, "M": M}
    cases: dict[str, Settings] = {f"B = {batch}": {"batch": batch} for batch in batches}
    return ExperimentPlan(tuple(methods), seeds, settings, cases)


BATCHES = (10, 50, 100, 500)
EXPERIMENT = Experiment(
    name="sgpts-screening",
    shows="S-GP-TS, published version: batches of up to 500 find about as much as small ones",
    band="mean ± one standard deviation over seeds",
    plans={
        "smoke": _plan("generated-bits:200", 1, 40, (5, 20), 10, 40),
        "default": _plan("enamine", 3, 2_000, BATCHES, 100, 1_000, ("k-DPP",)),
        "full": _plan("enamine", 10, 5_000, BATCHES, 500, 2_000),
    },
    run_one=run_one,
    panels=panels,
    summary=summary,
    pool="enamine",
)
