"""A small experiment whose jobs leave a trace of having run."""

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


def run_one(job: Job, data_home: Path | None) -> JobOutcome:
    log = job.settings.get("log")
    if log:
        with Path(log).open("a") as stream:
            stream.write(f"{job.key} {os.getpid()}\n")
    time.sleep(job.settings.get("nap", 0.0))
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


if __name__ == "__main__":  # what the test of killing runs: `python -m tests.reproduce.toy OUT LOG NAP`
    import sys

    from manyarms.reproduce.runner import reproduce

    reproduce(toy(3, log=sys.argv[2], nap=float(sys.argv[3])), "smoke", Path(sys.argv[1]), workers=1)
