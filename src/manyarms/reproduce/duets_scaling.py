"""Regret and communication of DUETS against T.

DUETS Theorem 4.1 promises regret Õ(√(γ_NT·NT)) and communication Õ(γ_NT) for long horizons, whereas the
paper's figure has T = 50. Here N = 10 and T = 50 … 3 200 with the other settings of `duets`, and DisKernelUCB
up to T = 800 for comparison, because every pull updates its exact posterior. Each algorithm has the best β of
a short grid at each T.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from manyarms.problems import PROBLEMS
from manyarms.reproduce.curves import Curve, Grid, Panel, fitted_slope, mean_and_sd
from manyarms.reproduce.duets import PAPER, TITLES, one_width
from manyarms.reproduce.experiment import (
    Experiment,
    ExperimentPlan,
    ExperimentResult,
    Job,
    JobOutcome,
    Settings,
    SummaryRow,
)
from manyarms.reproduce.summaries import by_case_and_method, grouped
from manyarms.support.validation import Floats

METHODS = ("DUETS", "DisKernelUCB")
COLUMNS = ("regret", "communication")


def run_one(job: Job, data_home: Path | None) -> JobOutcome:
    """Runs of all horizons and widths; one row each, at its last step."""
    started, rows = time.process_time(), []
    problem = PROBLEMS[job.settings["problem"]]()
    for horizon in job.settings["horizons"]:
        for width in job.settings["widths"]:
            settings = job.settings | {"horizon": horizon}
            _, regret, sent, _ = one_width(job.method, problem, settings, width, job.seed)
            rows.append([horizon, width, regret[-1], sent[-1]])
    columns = np.array(rows).T
    numbers = dict(zip(("T", "width", *COLUMNS), columns, strict=True))
    return JobOutcome(numbers, {"seconds": np.array([time.process_time() - started])})


def at_best_width(runs: Sequence[ExperimentResult]) -> dict[str, Floats]:
    """The runs at the β with the lowest mean regret at each T: "T", "width", and run × T for each column."""
    table = {name: np.array([run.numbers[name] for run in runs]) for name in ("T", "width", *COLUMNS)}
    horizons = np.unique(table["T"][0])
    rows = [
        min(np.flatnonzero(table["T"][0] == T), key=lambda row: float(table["regret"][:, row].mean()))
        for T in horizons
    ]
    best = {name: table[name][:, rows] for name in COLUMNS}
    return {"T": horizons, "width": table["width"][0, rows], **best}


def panels(results: Sequence[ExperimentResult]) -> Grid:
    """Regret above communication against T, one column per function."""
    cases = grouped(results)
    return tuple(
        tuple(_panel(case, methods, column, label) for case, methods in cases.items())
        for column, label in (("regret", "cumulative regret at T"), ("communication", "reals sent until T"))
    )


def _panel(case: str, methods: dict[str, list[ExperimentResult]], column: str, label: str) -> Panel:
    curves = []
    for method, runs in methods.items():
        best = at_best_width(runs)
        mean, spread = mean_and_sd(best[column])
        curves.append(Curve(method, best["T"], mean, spread))
    if column == "regret":
        T, first = curves[0].x, curves[0].y[0]
        curves.append(Curve("∝ √T", T, first * np.sqrt(T / T[0]), kind="reference"))
    return Panel(case, "T", label, tuple(curves), log_x=True, log_y=True)


def summary(results: Sequence[ExperimentResult]) -> list[SummaryRow]:
    """The largest T, and the exponents fitted to the larger half of the horizons."""
    return [_summary_row(case, method, runs) for case, method, runs in by_case_and_method(results)]


def _summary_row(case: str, method: str, runs: list[ExperimentResult]) -> SummaryRow:
    best = at_best_width(runs)
    larger = slice(len(best["T"]) // 2, None) if len(best["T"]) > 3 else slice(None)
    row: SummaryRow = {"case": case, "method": method, "runs": len(runs), "T": int(best["T"][-1])}
    for column in COLUMNS:
        mean, sd = mean_and_sd(best[column])
        exponent = fitted_slope(best["T"][larger], mean[larger])
        row |= {column: float(mean[-1]), f"{column} sd": float(sd[-1]), f"{column} exponent": exponent}
    return row | {"regret per pull": float(best["regret"].mean(axis=0)[-1] / (10 * best["T"][-1]))}


def _plan(
    problems: Sequence[str],
    runs: int,
    arms: int,
    widths: Sequence[float],
    horizons: Sequence[int],
    longest: int,
) -> ExperimentPlan:
    """`longest` is the largest T of DisKernelUCB."""
    settings: Settings = PAPER | {
        "agents": 10, "arms": arms, "noise_std": 0.2, "widths": list(widths), "ridge": 0.2,
        "horizons": list(horizons),
    }  # fmt: skip
    cases: dict[str, Settings] = {TITLES.get(name, name): {"problem": name} for name in problems}
    shorter = {"horizons": [horizon for horizon in horizons if horizon <= longest]}
    overrides = {(case, "DisKernelUCB"): shorter for case in cases}
    return ExperimentPlan(METHODS, runs, settings, cases, overrides)


HORIZONS = (50, 100, 200, 400, 800, 1_600, 3_200)
EXPERIMENT = Experiment(
    name="duets-scaling",
    shows="DUETS Theorem 4.1: regret of the order √T and communication of the order of the information gain",
    band="mean ± one standard deviation over runs",
    plans={
        "smoke": _plan(("Branin",), 2, 100, (0.5,), (8, 16), 16),
        "default": _plan(tuple(PROBLEMS), 5, 2_000, (0.2, 0.5, 1.0), HORIZONS, 800),
        "full": _plan(tuple(PROBLEMS), 20, 2_000, (0.2, 0.5, 1.0, 2.0), HORIZONS, 3_200),
    },
    run_one=run_one,
    panels=panels,
    summary=summary,
)
