"""The definition of an experiment: what to run, how often, and how to summarise and draw the results.

An experiment consists of independent jobs, one per case (a panel of the figure), method and seed. The numbers
a job returns depend only on its settings and must be the same in every run. Timings are kept separately,
because they vary.
"""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import manyarms
from manyarms.errors import InvalidParameterError
from manyarms.reproduce.curves import Grid
from manyarms.support.validation import Floats

Mode = Literal["smoke", "default", "full"]
Columns = dict[str, Floats]
Settings = dict[str, Any]  # values that JSON can represent
SummaryRow = dict[str, str | int | float]


def file_name(text: str) -> str:
    """Text as part of a file name: "h₁, λ = 0.2" becomes "h1_lambda=0.2"."""
    ascii_text = unicodedata.normalize("NFKD", text.replace("λ", "lambda").replace(" = ", "="))
    return re.sub(r"[^A-Za-z0-9.=+-]+", "_", ascii_text)


@dataclass(frozen=True)
class Job:
    """One method with one seed in one case, and all settings its numbers depend on."""

    case: str
    method: str
    seed: int
    settings: Settings

    @property
    def key(self) -> str:
        """The name of the job's files, without extension."""
        return "--".join(file_name(part) for part in (self.case, self.method, f"seed{self.seed}") if part)

    def described(self, experiment: str) -> str:
        """One line of JSON; a stored result with an equal line may be used for this job."""
        identity = {"experiment": experiment, "version": manyarms.__version__} | asdict(self)
        return json.dumps(identity, sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True)
class JobOutcome:
    """The columns a job returns, `numbers` of equal length and `timings` of equal length."""

    numbers: Columns
    timings: Columns = field(default_factory=dict)


@dataclass(frozen=True)
class ExperimentResult:
    """A job with its numbers and timings."""

    job: Job
    numbers: Columns
    timings: Columns


@dataclass(frozen=True)
class ExperimentPlan:
    """The jobs of one mode: every method with every seed in every case.

    Settings in `overrides[case, method]` take precedence over `cases[case]`, and those over `settings`.
    """

    methods: tuple[str, ...]
    seeds: int
    settings: Settings
    cases: Mapping[str, Settings] = field(default_factory=lambda: {"": {}})
    overrides: Mapping[tuple[str, str], Settings] = field(default_factory=dict)
    left_out: tuple[tuple[str, str], ...] = ()  # (case, method) pairs that are not run

    def jobs(self) -> list[Job]:
        """All jobs, ordered by seed so that an interrupted run has results of all methods."""
        return [
            Job(case, method, seed, self.settings | own | self.overrides.get((case, method), {}))
            for seed, (case, own), method in itertools.product(
                range(self.seeds), self.cases.items(), self.methods
            )
            if (case, method) not in self.left_out
        ]

    def changed(self, **settings: Any) -> ExperimentPlan:
        """The plan with some common settings replaced."""
        return replace(self, settings=self.settings | settings)


@dataclass(frozen=True)
class Experiment:
    """A figure of a paper: the jobs behind it, and how they are summarised and drawn.

    `shows` is the paper's claim. `run_one(job, data_home)` must be a module-level function, so that a worker
    process can import it. `pool` names the real data it needs, if any. `band` describes the shaded bands.
    """

    name: str
    shows: str
    band: str
    plans: Mapping[Mode, ExperimentPlan]
    run_one: Callable[[Job, Path | None], JobOutcome]
    panels: Callable[[Sequence[ExperimentResult]], Grid]
    summary: Callable[[Sequence[ExperimentResult]], list[SummaryRow]]
    pool: str | None = None

    def plan(self, mode: Mode) -> ExperimentPlan:
        """The plan of a mode."""
        if mode not in self.plans:
            raise InvalidParameterError("mode", mode, f"one of {', '.join(self.plans)}")
        return self.plans[mode]
