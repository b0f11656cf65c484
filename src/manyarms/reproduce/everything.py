"""Run every experiment: `manyarms reproduce all`, which `make reproduce` calls.

The data of all experiments is looked for first, so that a missing file is known before hours of computation.
Experiments without their data are left out; the others run, each in its own folder, and the digests of all
are written to one file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from manyarms.errors import MissingDataError
from manyarms.reproduce.experiment import Experiment, Mode
from manyarms.reproduce.raw import write_atomically
from manyarms.reproduce.runner import ReproductionReport, planned_jobs, reproduce

DIGESTS = "digests.json"
AllProgress = Callable[[str, int, int, str], None]  # the experiment, then as in `runner.Progress`


@dataclass(frozen=True)
class EverythingReport:
    """The reports of the experiments that ran, by name, and why the others did not."""

    reports: Mapping[str, ReproductionReport]
    missing: Mapping[str, str]  # the message that says where the data comes from
    digests: Path


def missing_data(experiments: Mapping[str, Experiment], mode: Mode, data_home: Path | None) -> dict[str, str]:
    """The experiments whose data cannot be loaded, with the reason."""
    found = {}
    for name, experiment in experiments.items():
        try:
            planned_jobs(experiment, mode, data_home)
        except MissingDataError as missing:
            found[name] = str(missing)
    return found


def reproduce_all(
    experiments: Mapping[str, Experiment],
    mode: Mode = "default",
    out: Path | None = None,
    *,
    data_home: Path | None = None,
    workers: int | None = None,
    progress: AllProgress | None = None,
    missing: Mapping[str, str] | None = None,
) -> EverythingReport:
    """Run each experiment that has its data in OUT/NAME, and write all digests to OUT/digests.json.

    `missing` is the answer of `missing_data`, if the caller has it. Finished runs are not repeated.
    """
    folder = out or Path("reproduction")
    missing = missing_data(experiments, mode, data_home) if missing is None else missing
    reports = {}
    for name, experiment in experiments.items():
        if name in missing:
            continue
        follow = None if progress is None else partial(progress, name)
        reports[name] = reproduce(
            experiment, mode, folder / name, data_home=data_home, workers=workers, progress=follow
        )
    digests = folder / DIGESTS
    write_atomically(digests, (json.dumps(_summary(mode, reports), indent=2) + "\n").encode())
    return EverythingReport(reports, missing, digests)


def _summary(mode: Mode, reports: Mapping[str, ReproductionReport]) -> dict[str, object]:
    return {
        "mode": mode,
        "experiments": {
            name: {
                "digest": report.digest,
                "runs": len(report.digests),
                "cpu_seconds": report.cpu_seconds,
                "generated_stand_in": report.stand_in,
            }
            for name, report in reports.items()
        },
    }
