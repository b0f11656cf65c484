"""Compare settings by the arms they choose on real pools: `python -m benchmarks.decisions --out FOLDER`.

Every setting runs on every pool, batch size and seed. Results are appended to FOLDER/runs.csv, and a run
that is already there is not repeated, so an interrupted experiment can be continued. The tables printed at
the end are those of docs/measurements.md: the share of the top 1 % found, and how many arms of the pool are
better than the best one found. Settings named after other libraries (`benchmarks/peer_choices.py`) run only
when they are requested by name. Pools come from the folder named by MANYARMS_DATA; `generated` needs no
files. The groups `further` and `validation` are described in `benchmarks/further.py` and come from another
folder; the groups `encodings`, `effects`, `plateaus` and `spacing` are those of the modules of these names.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.choices import POOLS, Problem, Setting, chosen_arms, problem, settings
from benchmarks.effects import TABLES as EFFECTS
from benchmarks.encodings import TABLES
from benchmarks.further import CHOSEN_ON, VALIDATION
from benchmarks.plateaus import TABLES as PLATEAUS
from benchmarks.spacing import TABLES as SPACING

GROUPS = {
    "further": CHOSEN_ON,
    "validation": VALIDATION,
    "encodings": tuple(TABLES),
    "effects": tuple(EFFECTS),
    "plateaus": tuple(PLATEAUS),
    "spacing": tuple(SPACING),
}
CHECKPOINTS = (100, 200, 500, 1000)
# The budget is part of the key: it determines the size of the design and which batch is the final one.
KEY = ("pool", "setting", "batch", "budget", "seed", "evaluations")


@dataclass(frozen=True)
class Line:
    pool: str
    setting: str
    batch: int
    budget: int
    seed: int
    evaluations: int
    share: float
    better: int
    best: float
    seconds: float

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies the line, as in a row of the file."""
        return tuple(str(getattr(self, name)) for name in KEY)


def _arm_selection(setting: Setting) -> Callable[[Problem, Setting, int, int, int], np.ndarray]:
    if not setting.needs:
        return chosen_arms
    from benchmarks import peer_choices

    return peer_choices.chosen_arms


def lines(job: tuple[str, Setting, int, int, int]) -> list[Line]:
    """One run, summarised at each checkpoint."""
    name, setting, budget, batch, seed = job
    task = problem(name)
    started = time.process_time()
    arms = _arm_selection(setting)(task, setting, budget, batch, seed)
    seconds = time.process_time() - started
    found = []
    for evaluations in [c for c in CHECKPOINTS if c <= budget]:
        tried = np.unique(arms[:evaluations])
        best = float(task.truth[tried].max())
        share = task.top[tried].sum() / task.top.sum()
        better = int((task.truth > best).sum())
        found.append(
            Line(
                pool=name,
                setting=setting.name,
                batch=batch,
                budget=budget,
                seed=seed,
                evaluations=evaluations,
                share=float(share),
                better=better,
                best=best,
                seconds=round(seconds, 2),
            )
        )
    return found


def _done(path: Path) -> set[tuple[str, ...]]:
    if not path.exists():
        return set()
    with path.open(newline="") as stream:
        return {tuple(row[name] for name in KEY) for row in csv.DictReader(stream)}


def _append(path: Path, new: Iterable[Line], done: set[tuple[str, ...]]) -> None:
    fresh = not path.exists()
    with path.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, [f.name for f in fields(Line)])
        if fresh:
            writer.writeheader()
        writer.writerows(asdict(line) for line in new if line.key not in done)


Runs = dict[tuple[str, int, int, int], dict[str, dict[int, tuple[float, int]]]]


def _runs(path: Path) -> Runs:
    """Percentage found and number of better arms, by (pool, batch, budget, evaluations), setting and seed."""
    runs: Runs = defaultdict(lambda: defaultdict(dict))
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            key = (row["pool"], int(row["batch"]), int(row["budget"]), int(row["evaluations"]))
            runs[key][row["setting"]][int(row["seed"])] = (100 * float(row["share"]), int(row["better"]))
    return runs


def _with_error(values: list[float]) -> str:
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{np.mean(values):.1f} ± {error:.1f}"


def _cell(runs: dict[int, tuple[float, int]]) -> str:
    found = _with_error([share for share, _ in runs.values()])
    return f"{found}, {np.median([better for _, better in runs.values()]):.0f} ({len(runs)})"


def _difference(runs: dict[int, tuple[float, int]], other: dict[int, tuple[float, int]]) -> str:
    """Additional points of the top 1 %, paired by seed."""
    both = [runs[seed][0] - other[seed][0] for seed in runs if seed in other]
    return f"{_with_error(both)} ({len(both)})" if both else ""


def table(path: Path, against: str | None = None) -> str:
    """A table for each batch size, budget and number of evaluations: settings down, pools across.

    A cell shows the percentage of the top 1 % found ± its standard error, the median number of arms better
    than the best one found, and (the number of seeds). With `against`, the last rows show the difference
    between each setting and that one, paired by seed.
    """
    runs = _runs(path)
    parts = []
    for batch, budget, evaluations in sorted({key[1:] for key in runs}):
        pools = [key[0] for key in runs if key[1:] == (batch, budget, evaluations)]
        groups = [runs[pool, batch, budget, evaluations] for pool in pools]
        names = list(dict.fromkeys(name for group in groups for name in group))
        lines = [[f"{evaluations} of {budget} evaluations, batches of {batch}", *pools]]
        lines += [
            [name, *(_cell(group[name]) if name in group else "" for group in groups)] for name in names
        ]
        if against is not None:
            lines += [
                [f"{name} − {against}", *(_difference(group[name], group[against]) for group in groups)]
                for name in names
                if name != against
            ]
        lines.insert(1, ["---"] * len(lines[0]))
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts)


def run_all(jobs: list[tuple[str, Setting, int, int, int]], out: Path, processes: int) -> None:
    """Run every job that is not in the file yet."""
    done = _done(out)
    todo = []
    for job in jobs:
        name, setting, budget, batch, seed = job
        last = max(c for c in CHECKPOINTS if c <= budget)
        if (name, setting.name, str(batch), str(budget), str(seed), str(last)) not in done:
            todo.append(job)
    if processes == 1:
        for job in todo:
            _append(out, lines(job), done)
        return
    with ProcessPoolExecutor(processes) as executor:
        for found in executor.map(lines, todo):
            _append(out, found, done)


def _unusable(names: list[str], known: dict[str, Setting]) -> str | None:
    """An error message for unknown or uninstalled settings, or None."""
    for name in names:
        if name not in known:
            return f"unknown setting {name!r}; known are: {', '.join(known)}"
        for package in known[name].needs:
            if find_spec(package) is None:
                return f"the setting {name!r} needs {package}, which is not installed"
    return None


def main(arguments: list[str] | None = None) -> int:
    known = settings()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decisions", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for runs.csv")
    parser.add_argument("--pools", nargs="+", default=list(POOLS))
    ours = [name for name, setting in known.items() if not setting.needs]
    parser.add_argument("--settings", nargs="+", default=ours, help=", ".join(known))
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 50])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--against", help="a setting: show the differences from it, paired by seed")
    parser.add_argument("--processes", type=int, default=1, choices=(1, 2))
    options = parser.parse_args(arguments)
    if options.against is not None and options.against not in options.settings:
        parser.error(f"--against {options.against!r} is not among the settings compared")
    if mistake := _unusable(options.settings, known):
        parser.error(mistake)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "runs.csv"
    jobs = [
        (pool, known[name], options.budget, batch, seed)
        for group in options.pools
        for pool in GROUPS.get(group, (group,))
        for batch in options.batches
        for seed in range(options.seeds)
        for name in options.settings
    ]
    run_all(jobs, path, options.processes)
    print(table(path, options.against))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
