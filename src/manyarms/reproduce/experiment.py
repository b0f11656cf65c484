"""What an experiment is: a frozen value that says what to run, how often, and how to read the results.

An experiment consists of independent jobs, one per case (a panel of the figure), method and seed. A job is
a pure function of its settings: numbers that must come out the same at every run, and timings, kept apart
because they never do.
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
MODES: tuple[Mode, ...] = ("smoke", "default", "full")
Columns = dict[str, Floats]
Settings = dict[str, Any]  # plain data, as JSON carries it
SummaryRow = dict[str, str | int | float]


def plain(words: str) -> str:
    """Words as part of a file name: "h₁, λ = 0.2" is "h1_lambda=0.2"."""
    spelled = unicodedata.normalize("NFKD", words.replace("λ", "lambda").replace(" = ", "="))
    return re.sub(r"[^A-Za-z0-9.=+-]+", "_", spelled)


@dataclass(frozen=True)
class Job:
    """One method with one seed in one case, and every setting its numbers depend on."""

    case: str
    method: str
    seed: int
    settings: Settings

    @property
    def key(self) -> str:
        """The job's name as a file name."""
        return "--".join(plain(part) for part in (self.case, self.method, f"seed{self.seed}") if part)

    def described(self, experiment: str) -> str:
        """One line that is equal exactly when a stored result may be used for this job."""
        said = {"experiment": experiment, "version": manyarms.__version__} | asdict(self)
        return json.dumps(said, sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True)
class Outcome:
    """Columns of equal length; `timings` are CPU seconds and the like."""

    numbers: Columns
    timings: Columns = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """A job and what came out of it."""

    job: Job
    numbers: Columns
    timings: Columns


@dataclass(frozen=True)
class Plan:
    """What one mode runs: every method with every seed in every case.

    A setting is looked up in `overrides[method]` first, then in `cases[case]`, then in `settings`.
    """

    methods: tuple[str, ...]
    seeds: int
    settings: Settings
    cases: Mapping[str, Settings] = field(default_factory=lambda: {"": {}})
    overrides: Mapping[str, Settings] = field(default_factory=dict)
    left_out: tuple[tuple[str, str], ...] = ()  # (case, method) pairs that say nothing new

    def jobs(self) -> list[Job]:
        """Seed by seed, so that a run that is stopped early has all methods."""
        return [
            Job(case, method, seed, self.settings | own | self.overrides.get(method, {}))
            for seed, (case, own), method in itertools.product(
                range(self.seeds), self.cases.items(), self.methods
            )
            if (case, method) not in self.left_out
        ]

    def changed(self, **settings: Any) -> Plan:
        """The same plan with some common settings replaced."""
        return replace(self, settings=self.settings | settings)


@dataclass(frozen=True)
class Experiment:
    """A figure of a paper: how it is run and how it is read.

    `run_one(job, data_home)` must be a function of a module, so that a worker process can import it.
    `pool` names the real data it needs, if any. `band` says what the figure's shaded bands are.
    """

    name: str
    shows: str
    band: str
    plans: Mapping[Mode, Plan]
    run_one: Callable[[Job, Path | None], Outcome]
    panels: Callable[[Sequence[Result]], Grid]
    summary: Callable[[Sequence[Result]], list[SummaryRow]]
    pool: str | None = None

    def plan(self, mode: Mode) -> Plan:
        """What `mode` runs."""
        if mode not in self.plans:
            raise InvalidParameterError("mode", mode, f"one of {', '.join(self.plans)}")
        return self.plans[mode]
