"""A small experiment whose jobs log that they have run, and that can be held for a test."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from manyarms.reproduce.curves import Grid, Panel, averaged
from manyarms.reproduce.experiment import (
    Experiment,
    ExperimentPlan,
    ExperimentResult,
    Job,
    JobOutcome,
    SummaryRow,
)
from manyarms.reproduce.summaries import by_case_and_method

RUN_BEFORE_GATE = 2  # jobs that finish before the gate is needed


def run_one(job: Job, data_home: Path | None) -> JobOutcome:
    log = job.settings.get("log")
    if log:
        with Path(log).open("a") as stream:
            stream.write(f"{job.key} {os.getpid()}\n")
    gate = job.settings.get("gate")
    if gate and len(Path(log).read_text().splitlines()) > RUN_BEFORE_GATE:
        while not Path(gate).exists():  # the test kills this process, or opens the gate
            time.sleep(0.01)
    x = np.arange(4.0)
    y = np.random.default_rng(job.seed).normal(size=4) + len(job.method)
    return JobOutcome({"x": x, "y": y}, {"seconds": np.array([time.perf_counter()])})


def panels(results: Sequence[ExperimentResult]) -> Grid:
    curves = [
        averaged(method, runs[0].numbers["x"], [run.numbers["y"] for run in runs])
        for _, method, runs in by_case_and_method(results)
    ]
    return ((Panel("toy", "x", "y", tuple(curves)),),)


def summary(results: Sequence[ExperimentResult]) -> list[SummaryRow]:
    return [{"key": run.job.key, "y": float(run.numbers["y"].sum())} for run in results]


def toy(seeds: int = 2, **settings: object) -> Experiment:
    plan = ExperimentPlan(("one", "three"), seeds, dict(settings))
    plans = {"smoke": plan, "default": plan}
    return Experiment("toy", "nothing", "mean ± sd", plans, run_one, panels, summary)


if __name__ == "__main__":  # `python -m tests.reproduce.toy OUT LOG GATE`, run by the test that kills it
    import sys

    from manyarms.reproduce.runner import reproduce

    reproduce(toy(3, log=sys.argv[2], gate=sys.argv[3]), "smoke", Path(sys.argv[1]), workers=1)
