"""The demonstration behind `make demo`: a campaign as a newcomer would run it, up to its report and its page.

Five thousand recipes, each with numbers and words, and a laboratory that measures fifty at a time with some
noise. No option says anything about the model. The demonstration prints and runs the commands that a user
would type, and then compares the recipes that were found with those of random choice. Everything is written
to one folder (by default `build/demo`).
"""

from __future__ import annotations

import csv
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from manyarms.support.validation import Floats

N_ARMS, BATCH, ROUNDS, BUDGET, NOISE = 5_000, 50, 6, 400, 2.0
FOLDER = Path("build") / "demo"
TOP = N_ARMS // 100  # the best one per cent
NAMES = ("recipes.csv", "truth.npy", "demo.db", "demo.db-wal", "demo.db-shm", "batch.csv", "report.html")
SOLVENTS = ("acetonitrile", "dmso", "ethanol", "toluene", "water")
CATALYSTS = ("copper", "iron", "nickel", "palladium")
BEFORE = (
    f"new demo.db --pool recipes.csv --id name --budget {BUDGET}",
    f"ask demo.db -n {BATCH} --out batch.csv",
)
AFTER = (
    "tell demo.db batch.csv",
    f"run demo.db --python manyarms.demo:measure --batch {BATCH} --trials {BATCH * (ROUNDS - 1)}",
    "best demo.db -k 5",
    "report demo.db --html report.html",
)


def generated_problem(seed: int, n_arms: int) -> tuple[list[dict[str, Any]], Floats]:
    """Recipes, and their true yields in per cent.

    Each catalyst has a temperature and an acidity of its own at which it works best, and each solvent suits
    some catalysts better than others. The time matters little, and the supplier not at all.
    """
    rng = np.random.default_rng(seed)
    temperature, acidity = rng.uniform(20, 120, n_arms), rng.uniform(3, 10, n_arms)
    amount, hours = 10 ** rng.uniform(-2, 1, n_arms), rng.uniform(0.5, 24, n_arms)
    solvent, catalyst = rng.integers(0, len(SOLVENTS), n_arms), rng.integers(0, len(CATALYSTS), n_arms)
    supplier = rng.choice(["A", "B"], n_arms)
    warmth, sourness = rng.uniform(40, 100, len(CATALYSTS)), rng.uniform(4, 9, len(CATALYSTS))
    suits = rng.uniform(0.35, 1.0, (len(SOLVENTS), len(CATALYSTS)))
    fit = np.exp(-(((temperature - warmth[catalyst]) / 35) ** 2) - ((acidity - sourness[catalyst]) / 3) ** 2)
    plenty = np.exp(-((np.log10(amount) + 0.3) ** 2)) * (0.85 + 0.15 * np.tanh(hours / 8))
    yields = 95 * fit * plenty * suits[solvent, catalyst]
    rows = [
        {
            "name": f"recipe {arm}", "temperature": round(float(temperature[arm]), 1),
            "acidity": round(float(acidity[arm]), 2), "amount": round(float(amount[arm]), 4),
            "hours": round(float(hours[arm]), 1), "solvent": SOLVENTS[solvent[arm]],
            "catalyst": CATALYSTS[catalyst[arm]], "supplier": str(supplier[arm]),
        }
        for arm in range(n_arms)
    ]  # fmt: skip
    return rows, yields


def write_problem(folder: Path) -> Floats:
    """Write the user's table, and the true yields, which only the measuring functions read."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / name).unlink(missing_ok=True)
    rows, truth = generated_problem(seed=0, n_arms=N_ARMS)
    with open(folder / "recipes.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    np.save(folder / "truth.npy", truth)
    return truth


def measured(truth: Floats, arm: int, ticket: int) -> float:
    """A measurement: the true yield plus noise that belongs to the ticket."""
    return float(truth[arm] + NOISE * np.random.default_rng((1, ticket)).standard_normal())


def measure(arm: Any) -> float:
    """Measure a candidate for `manyarms run`."""
    return measured(np.load("truth.npy", mmap_mode="r"), arm.index, arm.ticket)


def fill_in(batch: Path, truth: Floats) -> None:
    """What the laboratory does with a batch file: fill in the column `value`."""
    with open(batch, newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        ticket = int(row["ticket"].partition("-")[0])
        row["value"] = f"{measured(truth, arm_of(row['name']), ticket):.2f}"
    with open(batch, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def arm_of(name: str) -> int:
    """The row of a recipe."""
    return int(name.removeprefix("recipe "))


def run_step(folder: Path, step: str) -> None:
    """Print a command and run it; an error ends the demonstration."""
    print(f"\n$ manyarms {step}", flush=True)
    command = [sys.executable, "-m", "manyarms", *shlex.split(step)]
    if subprocess.run(command, cwd=folder, check=False).returncode:
        sys.exit(1)


def main(folder: Path = FOLDER) -> None:
    """Run the commands and summarise the outcome."""
    started = time.perf_counter()
    truth = write_problem(folder)
    print(
        f"{N_ARMS:,} recipes in {folder / 'recipes.csv'}; the noise has a standard deviation of {NOISE:g} %."
    )
    for step in BEFORE:
        run_step(folder, step)
    print(
        f"\nThe laboratory measures these recipes and fills in the column 'value' of {folder / 'batch.csv'}."
    )
    fill_in(folder / "batch.csv", truth)
    for step in AFTER:
        run_step(folder, step)
    summarise(folder, truth, time.perf_counter() - started)


def summarise(folder: Path, truth: Floats, seconds: float) -> None:
    """Print what was found of the best recipes, which are known only in a demonstration."""
    from manyarms.campaigns.campaign import Campaign
    from manyarms.campaigns.queries import best, history

    with Campaign(folder / "demo.db") as campaign:
        tried = {arm_of(row.id) for row in history(campaign)}
        (first,) = best(campaign, 1)
    top = {int(arm) for arm in np.argsort(-truth)[:TOP]}
    found, chosen = len(top & tried), arm_of(first.id)
    rank = int((truth > truth[chosen]).sum()) + 1
    print(f"\nmeasured          {len(tried)} of {N_ARMS:,} recipes in {ROUNDS} batches of {BATCH}")
    print(f"best one per cent {found} of the {TOP} best recipes were found ({found / TOP:.0%})")
    share = len(tried) / N_ARMS
    print(f"random choice     finds {TOP * share:.0f} of them on average ({share:.0%})")
    print(f"recommended       {first.id}: true yield {truth[chosen]:.1f} %, rank {rank} of {N_ARMS:,}")
    print(f"seconds           {seconds:.1f}")
    print(f"report            {folder / 'report.html'}")
    print(f"live page         {page_command(folder)}")


def page_command(folder: Path) -> str:
    """The command that opens the live page, as it can be typed here: `make demo` activates no environment."""
    beside = Path(sys.executable).with_name("manyarms")
    found = shutil.which("manyarms")
    words = ["manyarms"]
    if beside.is_file() and (found is None or not beside.samefile(found)):
        here = Path.cwd()
        words = [str(beside.relative_to(here) if beside.is_relative_to(here) else beside)]
    words += ["demo", "--serve", *([] if folder == FOLDER else ["--folder", str(folder)])]
    return shlex.join(words)


if __name__ == "__main__":
    main()
