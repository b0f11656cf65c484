"""A campaign on a Parquet file with a million rows: `new`, `tell` and `ask`, each in its own process.

All settings are the defaults: a learned model, BBKB, and columns in single precision.
"""

from __future__ import annotations

import contextlib
import io
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import Row, at_most
from benchmarks.pools import generated
from benchmarks.timing import peak_and_result


@dataclass(frozen=True)
class Settings:
    """The number of arms, of results imported first, and of arms in a batch."""

    n_arms: int = 1_000_000
    results: int = 1_000
    batch_size: int = 100


FULL, SMOKE = Settings(), Settings(n_arms=2_000, results=40, batch_size=8)


def write_pool(path: str, n_arms: int) -> list[float]:
    """Write a pool with eight features and an id; return the true value of every row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    features, target = generated(n_arms)
    columns = {f"x{i}": features[:, i] for i in range(features.shape[1])}
    pq.write_table(pa.table({"molecule": np.arange(n_arms) + 10_000_000, **columns}), path)
    return [float(value) for value in target]


def command(*arguments: str) -> float:
    """Run a command of the CLI and return its wall-clock seconds, without imports."""
    from manyarms.cli.main import app

    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            app(list(arguments))
        except SystemExit as finished:
            if finished.code:
                raise RuntimeError(f"{arguments}: exit code {finished.code}") from None
    return time.perf_counter() - started


def million(smoke: bool) -> list[Row]:
    """Wall-clock seconds and peak resident memory of each command, and the size of the campaign's file."""
    s = SMOKE if smoke else FULL
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pool, campaign, results = (str(folder / each) for each in ("pool.parquet", "c.db", "results.csv"))
        target = write_pool(pool, s.n_arms)
        rng = np.random.default_rng(0)
        told = rng.choice(s.n_arms, s.results, replace=False)
        noisy = [(10_000_000 + arm, target[arm] + 0.02 * rng.normal()) for arm in told.tolist()]
        Path(results).write_text("molecule,value\n" + "".join(f"{id},{value}\n" for id, value in noisy))
        batches = [str(folder / f"batch{i}.csv") for i in (1, 2)]
        steps = {
            "new": ("new", campaign, "--pool", pool, "--id", "molecule"),
            f"tell {s.results} results": ("tell", campaign, results),
            f"ask -n {s.batch_size}, first": ("ask", campaign, "-n", str(s.batch_size), "--out", batches[0]),
            f"ask -n {s.batch_size}, next": ("ask", campaign, "-n", str(s.batch_size), "--out", batches[1]),
        }
        rows = []
        for step, arguments in steps.items():
            peak, seconds = peak_and_result("benchmarks.campaigns", "command", *arguments)
            label = f"{s.n_arms} × 8 Parquet: {step}"
            rows += [at_most(label, seconds, 60, "s"), at_most(f"{label}, peak", peak / 1e9, 6, "GB")]
        size = Path(campaign).stat().st_size
        rows.append(Row(f"{s.n_arms} × 8 Parquet: the campaign's file", size / 1e6, "MB"))
    return rows


def small_rounds(smoke: bool) -> list[Row]:
    """CPU seconds of a round of two trials on a CSV file with 20 000 rows.

    In `manyarms run` one process does all rounds. With `ask` and `tell` every round starts two processes, and
    most of their time goes into importing libraries.
    """
    from manyarms.campaigns.campaign import Campaign
    from manyarms.campaigns.settings import Request

    n_arms, rounds = (500, 3) if smoke else (20_000, 20)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        features, target = generated(n_arms)
        header = ",".join(["id", *(f"x{i}" for i in range(features.shape[1]))])
        rows = (f"c{i}," + ",".join(f"{x:.6f}" for x in row) for i, row in enumerate(features.tolist()))
        (folder / "pool.csv").write_text("\n".join([header, *rows]))

        def measured(campaign: Campaign, n: int) -> None:
            rows = "".join(f"{each.code},{target[each.arm]}\n" for each in campaign.ask(n))
            campaign.tell_bytes(f"ticket,value\n{rows}".encode(), "results.csv")

        with Campaign.new(folder / "c.db", Request(pool=str(folder / "pool.csv"), id="id")) as campaign:
            measured(campaign, 30)
            started = time.process_time()
            for _ in range(rounds):
                measured(campaign, 2)
            inside = (time.process_time() - started) / rounds
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        python, place = (sys.executable, "-m", "manyarms"), str(folder / "c.db")
        batch = folder / "batch.csv"
        subprocess.run(
            [*python, "ask", place, "-n", "2", "--out", str(batch)], check=True, capture_output=True
        )
        subprocess.run([*python, "tell", place, str(batch)], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        apart = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    label = f"{n_arms} × 8 CSV, a round of two trials, CPU"
    return [at_most(f"{label}, in one process", inside, 0.5, "s"), Row(f"{label}, ask and tell", apart, "s")]


BENCHMARKS = [million, small_rounds]
