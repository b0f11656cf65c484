"""The demonstration behind `make demo`: a complete campaign, from a table of candidates to a report page.

BBKB finds a good candidate among 20 000 with 2 000 noisy measurements. The demonstration prints and runs the
commands that a user would type. Everything is written to one folder (by default `build/demo`).
"""

from __future__ import annotations

import csv
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import manyarms as ma
from manyarms.support.validation import Floats

N_ARMS, BUDGET, NOISE, LENGTHSCALE = 20_000, 2_000, 0.1, 0.25
NAMES = ("pool.csv", "truth.npy", "demo.db", "demo.db-wal", "demo.db-shm", "results.csv", "report.html")
NEW = (
    f"new demo.db --pool pool.csv --id name --kernel rbf --lengthscale {LENGTHSCALE} --noise {NOISE} "
    f"--signal 1 --mean 0 --width 3 --repeats allow --budget {BUDGET}"
)
STEPS = (
    NEW,
    "run demo.db --python manyarms.demo:measure",
    "best demo.db -k 5",
    "export demo.db results.csv",
    "report demo.db --html report.html --optimum 1",
)


def generated_problem(seed: int, n_arms: int) -> tuple[Floats, Floats]:
    """Candidates in the unit cube and their true values: 40 smooth bumps, scaled to a maximum of 1."""
    rng = np.random.default_rng(seed)
    features, centres = rng.random((n_arms, 3)), rng.random((40, 3))
    values = ma.RBF(LENGTHSCALE).matrix(features, centres) @ rng.normal(size=40)
    return features, values / values.max()


def write_problem(folder: Path) -> Floats:
    """Write the user's table, and the true values, which only the measuring function reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / name).unlink(missing_ok=True)
    features, truth = generated_problem(seed=0, n_arms=N_ARMS)
    with open(folder / "pool.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", "x1", "x2", "x3"])
        writer.writerows([f"recipe {arm}", *row] for arm, row in enumerate(features.tolist()))
    np.save(folder / "truth.npy", truth)
    return truth


def measure(arm: Any) -> float:
    """Measure a candidate: its true value plus noise drawn from the number of the ticket."""
    truth = np.load("truth.npy", mmap_mode="r")
    return float(truth[arm.index] + NOISE * np.random.default_rng((1, arm.ticket)).standard_normal())


def main(folder: Path = Path("build") / "demo") -> None:
    """Run the commands and summarise the outcome."""
    truth = write_problem(folder)
    print(f"{N_ARMS} candidates in {folder / 'pool.csv'}, measurement noise with standard deviation {NOISE}")
    started = time.perf_counter()
    for step in STEPS:
        print(f"\n$ manyarms {step}", flush=True)
        command = [sys.executable, "-m", "manyarms", *shlex.split(step)]
        if subprocess.run(command, cwd=folder, check=False).returncode:
            sys.exit(1)
    summarise(folder, truth, time.perf_counter() - started)


def summarise(folder: Path, truth: Floats, seconds: float) -> None:
    """Print how close the search came to the optimum, which is known only in a demonstration."""
    with open(folder / "results.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    arms = np.array([int(row["id"].removeprefix("recipe ")) for row in rows])
    regrets = truth.max() - truth[arms]
    tried, times = np.unique(arms, return_counts=True)
    most = tried[times.argmax()]
    random = (truth.max() - truth).mean()
    print(f"\nmost measured     recipe {most}: {times.max()} times, true value {truth[most]:.4f}")
    print(f"known optimum     recipe {int(truth.argmax())}: true value {truth.max():.4f}")
    print(f"regret            {regrets.sum():.1f} in total, {regrets.mean():.4f} per measurement, "
          f"{regrets[-len(regrets) // 10 :].mean():.4f} per measurement in the last tenth")  # fmt: skip
    print(f"random choice     {random * len(regrets):.1f} in total, {random:.4f} per measurement")
    batches = len({row["batch"] for row in rows})
    print(f"candidates tried  {len(tried)} of {N_ARMS} in {batches} batches")
    print(f"seconds           {seconds:.1f}")
    print(f"report            {folder / 'report.html'}")


if __name__ == "__main__":
    main()
