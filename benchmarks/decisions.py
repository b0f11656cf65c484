"""Which default chooses best on real pools? `python -m benchmarks.decisions --out FOLDER [options]`.

Every setting below runs on every pool, batch size and seed; a run is one file's worth of lines in
FOLDER/runs.csv and is not repeated when it is already there, so an interrupted experiment goes on where
it stopped. The table at the end shows, per pool, batch and number of evaluations, the share of the top
1 % found and how many arms of the pool are better than the best one found (means over seeds).
Pools come from the folder named by MANYARMS_DATA; `generated` needs none.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

import manyarms as ma
from benchmarks import measured as sources
from manyarms.history import History
from manyarms.learning import (
    LearnedModel,
    Prepared,
    design_size,
    initial_design,
    learn,
    prepare,
    should_refit,
)
from manyarms.learning.families import Distances

CHECKPOINTS = (100, 200, 500, 1000)
UNBOUNDED = 1e12  # batch_ratio under which a batch of any size keeps its width


@dataclass(frozen=True)
class Setting:
    """One candidate for the default."""

    name: str
    policy: str = "BBKB"  # a policy of the library, "random", or "none": whatever it does without one
    width: float = 1.0
    rewards: str = "rank"
    refresh: bool = False  # learn the reward transform again after every batch
    kernel: str = "auto"  # auto, rbf, matern
    scales: str = "auto"  # auto, shared
    repeats: str = "forbid"
    design: int | None = None
    first: str = "matern"  # the first arms: a k-DPP with this kernel (rbf, matern, short), or uniform
    growth: float = 2.0  # of the number of different arms between fits
    widen: bool = False  # widen β as the batch shrinks variances
    options: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Problem:
    """A pool with the truth of every arm and, where it was measured several times, those measurements."""

    name: str
    pool: ma.Pool
    prepared: Prepared
    truth: np.ndarray
    repeats: np.ndarray | None = None
    top: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))

    def pull(self, arms: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.repeats is None:
            return self.truth[arms]
        return self.repeats[arms, rng.integers(self.repeats.shape[1], size=len(arms))]


@lru_cache(maxsize=2)
def problem(name: str) -> Problem:
    """A pool by name; `name:n` is n of its arms, always the same ones."""
    source, _, size = name.partition(":")
    features, results = getattr(sources, source)() if source != "generated" else sources.generated(3000)
    if size:
        rows = np.random.default_rng(1).choice(len(features), int(size), replace=False)
        features, results = features[rows], results[rows]
    truth = results if results.ndim == 1 else results.mean(axis=1)
    top = truth >= np.sort(truth)[-max(1, len(truth) // 100)]
    pool = ma.Pool(features)
    return Problem(name, pool, prepare(pool), truth, results if results.ndim > 1 else None, top)


POOLS = ("abalone", "esol", "housing", "enamine", "sgemm")


# ------------------------------------------------------------------ one run


def _limited(prepared: Prepared, setting: Setting) -> Prepared:
    families = prepared.families
    if setting.kernel != "auto" and isinstance(families[0], Distances):
        wanted = None if setting.kernel == "rbf" else 2.5
        families = tuple(f for f in families if isinstance(f, Distances) and f.nu == wanted)
    groups = () if setting.scales == "shared" else prepared.groups
    return replace(prepared, families=families, groups=groups)


def _policy(setting: Setting, model: LearnedModel) -> ma.Policy:
    common = {"kernel": model.kernel, "noise_std": model.noise_std, **dict(setting.options)}
    if setting.policy not in ("BBKB", "GPUCB"):
        return getattr(ma, setting.policy)(**common, width=setting.width)
    if setting.policy == "BBKB":
        ratio = 2.0 if setting.widen else UNBOUNDED
        return ma.BBKB(**common, width=setting.width, local=True, batch_ratio=ratio)
    return ma.GPBUCB(**common, width=setting.width, stop="fixed", batch_size=1, batch_ratio=UNBOUNDED)


def _optimizer(
    prepared: Prepared, setting: Setting, model: LearnedModel, history: History, seed: int
) -> ma.Optimizer:
    """A fresh run that knows everything measured so far."""
    optimizer = ma.Optimizer(prepared.pool, _policy(setting, model), seed, repeats=setting.repeats)
    seen = model.targets(history)
    times = seen.counts.astype(int)
    optimizer.tell(arms=np.repeat(seen.arms, times), rewards=np.repeat(seen.means, times))
    return optimizer


def _first_arms(prepared: Prepared, kind: str, size: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "uniform":
        return rng.permutation(prepared.pool.n_arms)[:size]
    family = prepared.families[0]
    if isinstance(family, Distances):
        factor, nu = {"rbf": (1.0, None), "matern": (1.0, 2.5), "short": (0.4, 2.5)}[kind]
        family = replace(family, spreads=tuple(factor * s for s in family.spreads), nu=nu)
    return initial_design(replace(prepared, families=(family,)), size, rng)


def chosen_arms(task: Problem, setting: Setting, budget: int, batch: int, seed: int) -> np.ndarray:
    """Arms in the order of their evaluation."""
    rng = np.random.default_rng([seed, 7])
    n_arms = len(task.truth)
    if setting.policy == "random":
        return rng.choice(n_arms, budget, replace=False)
    if setting.policy == "none":
        return _by_the_library(task, setting, budget, batch, seed, rng)
    prepared = _limited(task.prepared, setting)
    size = setting.design or design_size(task.prepared, budget)
    arms = _first_arms(task.prepared, setting.first, size, rng)
    history = History(n_arms)
    history.add(arms, task.pull(arms, rng))
    model = optimizer = None
    while len(arms) < budget:
        if model is None or should_refit(model, history) or len(history) >= setting.growth * model.n_unique:
            model = learn(prepared, history, rng, rewards=setting.rewards)
            optimizer = None
        elif setting.refresh:
            fresh = learn_transform(model, history, setting.rewards)
            optimizer, model = None, fresh
        if optimizer is None:
            optimizer = _optimizer(prepared, setting, model, history, seed * 1000 + len(arms))
        asked = optimizer.ask(min(batch, budget - len(arms)))
        rewards = task.pull(asked.arms, rng)
        history.add(asked.arms, rewards)
        optimizer.tell(asked, model.transform.forward(rewards) - model.mean)
        arms = np.concatenate([arms, asked.arms])
    return arms


def learn_transform(model: LearnedModel, history: History, kind: str) -> LearnedModel:
    """The model with its reward transform fitted again and the rest kept."""
    from manyarms.learning.rewards import fit_transform

    return replace(model, transform=fit_transform(history, kind)[0])


def _by_the_library(
    task: Problem, setting: Setting, budget: int, batch: int, seed: int, rng: np.random.Generator
) -> np.ndarray:
    """`Optimizer` without a policy, as a user would call it."""
    optimizer = ma.Optimizer(task.pool, None, seed, budget=budget, repeats=setting.repeats)
    while optimizer.spent < budget:
        asked = optimizer.ask(min(batch, budget - optimizer.spent))
        optimizer.tell(asked, task.pull(asked.arms, rng))
    return np.concatenate([record.arms for record in optimizer.trace])


@dataclass(frozen=True)
class Line:
    pool: str
    setting: str
    batch: int
    seed: int
    evaluations: int
    share: float
    better: int
    best: float
    seconds: float


def lines(job: tuple[str, Setting, int, int, int]) -> list[Line]:
    """One run, looked at after each checkpoint's number of evaluations."""
    name, setting, budget, batch, seed = job
    task = problem(name)
    started = time.process_time()
    arms = chosen_arms(task, setting, budget, batch, seed)
    seconds = time.process_time() - started
    found = []
    for evaluations in [c for c in CHECKPOINTS if c <= budget]:
        tried = np.unique(arms[:evaluations])
        best = float(task.truth[tried].max())
        share = task.top[tried].sum() / task.top.sum()
        better = int((task.truth > best).sum())
        found.append(
            Line(name, setting.name, batch, seed, evaluations, float(share), better, best, round(seconds, 2))
        )
    return found


# ------------------------------------------------------------------ the settings


def settings() -> dict[str, Setting]:
    """Candidates, by name."""
    default = Setting("default")
    chosen = [
        default,
        Setting("random", policy="random"),
        replace(default, name="eps-greedy", policy="EpsGreedy"),
        replace(default, name="exact", policy="GPUCB"),
        replace(default, name="library", policy="none"),
        replace(default, name="library, repeats", policy="none", repeats="allow"),
        replace(default, name="Thompson, sparse", policy="SGPTS"),
        *(replace(default, name=f"width {w:g}", width=w) for w in (0.25, 0.5, 0.7, 1.5, 2.0, 3.0)),
        replace(default, name="exact, width 2", policy="GPUCB", width=2.0),
        replace(default, name="standardised", rewards="standardise"),
        replace(default, name="standardised, width 2", rewards="standardise", width=2.0),
        replace(default, name="ranked if heavy-tailed", rewards="tails"),
        replace(default, name="transform renewed", refresh=True),
        replace(default, name="one length-scale", scales="shared"),
        replace(default, name="RBF", kernel="rbf"),
        replace(default, name="Matérn", kernel="matern"),
        replace(default, name="width grows in a batch", widen=True),
        replace(default, name="repeats", repeats="allow"),
        replace(default, name="10 first arms", design=10),
        replace(default, name="40 first arms", design=40),
        *(replace(default, name=f"{kind} first arms", first=kind) for kind in ("uniform", "rbf", "short")),
        *(replace(default, name=f"refit at {g:g}", growth=g) for g in (1.25, 1.5)),
    ]
    return {setting.name: setting for setting in chosen}


# ------------------------------------------------------------------ the experiment


def _done(path: Path) -> set[tuple[str, ...]]:
    if not path.exists():
        return set()
    with path.open(newline="") as stream:
        return {
            (row["pool"], row["setting"], row["batch"], row["seed"], row["evaluations"])
            for row in csv.DictReader(stream)
        }


def _append(path: Path, new: Iterable[Line]) -> None:
    fresh = not path.exists()
    with path.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, [f.name for f in fields(Line)])
        if fresh:
            writer.writeheader()
        writer.writerows(asdict(line) for line in new)


def table(path: Path) -> str:
    """Share of the top 1 % in per cent, and in brackets how many arms are better than the best found."""
    groups: dict[tuple[str, int, int], dict[str, list[tuple[float, int]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            key = (row["pool"], int(row["batch"]), int(row["evaluations"]))
            groups[key][row["setting"]].append((float(row["share"]), int(row["better"])))
    columns = sorted(groups)
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    header = ["setting", *(f"{pool} b{batch} T{t}" for pool, batch, t in columns)]
    cells = [header]
    for name in names:
        line = [name]
        for column in columns:
            runs = groups[column].get(name, [])
            line.append(
                f"{100 * np.mean([s for s, _ in runs]):.1f} ({np.mean([b for _, b in runs]):.0f})"
                if runs
                else ""
            )
        cells.append(line)
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def run_all(jobs: list[tuple[str, Setting, int, int, int]], out: Path, processes: int) -> None:
    """Every job that is not in the file yet."""
    done = _done(out)
    todo = []
    for job in jobs:
        name, setting, budget, batch, seed = job
        last = max(c for c in CHECKPOINTS if c <= budget)
        if (name, setting.name, str(batch), str(seed), str(last)) not in done:
            todo.append(job)
    if processes == 1:
        for job in todo:
            _append(out, lines(job))
        return
    with ProcessPoolExecutor(processes) as executor:
        for found in executor.map(lines, todo):
            _append(out, found)


def main(arguments: list[str] | None = None) -> int:
    known = settings()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decisions", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for runs.csv")
    parser.add_argument("--pools", nargs="+", default=list(POOLS))
    parser.add_argument("--settings", nargs="+", default=list(known), help=", ".join(known))
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 50])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=1, choices=(1, 2))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "runs.csv"
    jobs = [
        (pool, known[name], options.budget, batch, seed)
        for pool in options.pools
        for batch in options.batches
        for seed in range(options.seeds)
        for name in options.settings
    ]
    run_all(jobs, path, options.processes)
    print(table(path))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
