"""A campaign on a Parquet file with a million rows: `new`, `tell` and `ask`, each in its own process.

All settings are the defaults: a learned model, BBKB, and columns in single precision.
"""

from __future__ import annotations

import contextlib
import io
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


BENCHMARKS = [million]
