"""The record of runs on boxes, `benchmarks/records/box.csv`: one line per run, kept under version control.

The comparison with other libraries takes hours, so its runs are made in pieces (`benchmarks.box_runs`), which
add their lines here. The tables of docs/measurements.md are made from this file alone: `python -m
benchmarks.box_record` prints them.
"""

from __future__ import annotations

import csv
import fcntl
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from manyarms.problems.on_boxes import BOX_PROBLEMS

RECORD = Path(__file__).resolve().parent / "records" / "box.csv"
LIBRARIES = ("manyarms", "BoTorch", "Optuna-GP")
PEERS = LIBRARIES[1:]


@dataclass(frozen=True)
class Run:
    """One run of 200 evaluations: its simple regret, CPU seconds, and what made it."""

    function: str
    library: str
    seed: int
    regret: float
    cpu_seconds: float
    versions: str

    @property
    def key(self) -> tuple[int, int, int]:
        """Its place in the record; there is one run for each."""
        functions = list(BOX_PROBLEMS)
        return functions.index(self.function), LIBRARIES.index(self.library), self.seed


def runs(path: Path = RECORD) -> list[Run]:
    """The runs of the record, by function, library and seed."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return sorted((_run(row) for row in csv.DictReader(file)), key=lambda run: run.key)


def add(new: Iterable[Run], path: Path = RECORD) -> None:
    """Add runs, each in place of an earlier one with the same key. Several processes may do so at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.parent):
        kept = {run.key: run for run in [*runs(path), *new]}
        partial = path.with_suffix(".partial")
        with partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Run)], lineterminator="\n")
            writer.writeheader()
            for key in sorted(kept):
                run = kept[key]
                numbers = {"regret": f"{run.regret:.6g}", "cpu_seconds": f"{run.cpu_seconds:.1f}"}
                writer.writerow(asdict(run) | numbers)
        partial.rename(path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """No other process between the braces, as long as it locks the same folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _run(row: dict[str, str]) -> Run:
    return Run(
        function=row["function"],
        library=row["library"],
        seed=int(row["seed"]),
        regret=float(row["regret"]),
        cpu_seconds=float(row["cpu_seconds"]),
        versions=row["versions"],
    )


# ---------------------------------------------------------------------- tables


def regrets(found: list[Run], function: str, library: str) -> list[float]:
    """The regrets of one library on one function, by seed."""
    return [run.regret for run in found if (run.function, run.library) == (function, library)]


def tables(found: list[Run]) -> str:
    """Medians and single runs in Markdown, and the versions that made them."""
    return "\n\n".join([_medians(found), _single_runs(found), _versions(found)])


def _medians(found: list[Run]) -> str:
    """One row per function: median regret [smallest, largest] (number of runs), and ratios of medians."""
    columns = [f"{library}, regret" for library in LIBRARIES] + [f"manyarms / {peer}" for peer in PEERS]
    lines = [_row(["function", *columns]), "|---" * (1 + len(columns)) + "|"]
    for function in BOX_PROBLEMS:
        cells = [_median_cell(regrets(found, function, library)) for library in LIBRARIES]
        lines.append(_row([function, *cells, *(_ratio_cell(found, function, peer) for peer in PEERS)]))
    return "\n".join(lines)


def ratio(found: list[Run], function: str, peer: str) -> tuple[float, int]:
    """Median regret of manyarms over that of a peer, and the number of runs of the peer.

    All runs count: a seed means other initial points in each library, so that runs are not paired by it.
    """
    ours, theirs = (regrets(found, function, library) for library in ("manyarms", peer))
    if not ours or not theirs:
        return math.nan, 0
    return float(np.median(ours) / np.median(theirs)), len(theirs)


def _median_cell(values: list[float]) -> str:
    if not values:
        return "not run"
    middle = f"{np.median(values):.2g}"
    if len(values) == 1:
        return f"{middle} (1 run)"
    return f"{middle} [{min(values):.2g}, {max(values):.2g}] ({len(values)})"


def _ratio_cell(found: list[Run], function: str, peer: str) -> str:
    value, n_runs = ratio(found, function, peer)
    return f"{value:.2g}" if n_runs else ""


def _single_runs(found: list[Run]) -> str:
    """One row per function and library: the regret of each seed, and the median CPU seconds of a run."""
    lines = [_row(["function", "library", "regret by seed", "CPU s"]), "|---|---|---|---|"]
    for function in BOX_PROBLEMS:
        for library in LIBRARIES:
            chosen = [run for run in found if (run.function, run.library) == (function, library)]
            if chosen:
                seconds = f"{np.median([run.cpu_seconds for run in chosen]):.0f}"
                by_seed = ", ".join(f"{run.regret:.2g}" for run in chosen)
                lines.append(_row([function, library, by_seed, seconds]))
    return "\n".join(lines)


def _versions(found: list[Run]) -> str:
    made_by = {
        library: sorted({run.versions for run in found if run.library == library}) for library in LIBRARIES
    }
    return "\n".join(f"* {library}: {'; '.join(names)}" for library, names in made_by.items() if names)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    print(tables(runs()))
