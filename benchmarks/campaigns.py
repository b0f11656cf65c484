"""A campaign on a pool of a million rows in a Parquet file: `new`, `tell` and `ask`, each in its own process.

Everything is left at its default: a learned model, BBKB, columns in single precision.
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
    """Sizes of the pool, the results told before, and the plate."""

    n_arms: int = 1_000_000
    results: int = 1_000
    plate: int = 100


FULL, SMOKE = Settings(), Settings(n_arms=2_000, results=40, plate=8)


def write_pool(path: str, n_arms: int) -> list[float]:
    """Eight features and an id; the true values of every thousandth row, to be told."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    features, target = generated(n_arms)
    columns = {f"x{i}": features[:, i] for i in range(features.shape[1])}
    pq.write_table(pa.table({"molecule": np.arange(n_arms) + 10_000_000, **columns}), path)
    return [float(value) for value in target]


def command(*arguments: str) -> float:
    """Seconds a command takes, imports left out."""
    from manyarms.cli.main import app

    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            app(list(arguments))
        except SystemExit as ending:
            if ending.code:
                raise RuntimeError(f"{arguments}: exit code {ending.code}") from None
    return time.perf_counter() - started


def million(smoke: bool) -> list[Row]:
    """Seconds and peak resident memory of each command."""
    s = SMOKE if smoke else FULL
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pool, campaign, results = (str(folder / each) for each in ("pool.parquet", "c.db", "results.csv"))
        target = write_pool(pool, s.n_arms)
        rng = np.random.default_rng(0)
        told = rng.choice(s.n_arms, s.results, replace=False)
        noisy = [(10_000_000 + arm, target[arm] + 0.02 * rng.normal()) for arm in told.tolist()]
        Path(results).write_text("molecule,value\n" + "".join(f"{id},{value}\n" for id, value in noisy))
        plates = [str(folder / f"plate{i}.csv") for i in (1, 2)]
        steps = {
            "new": ("new", campaign, "--pool", pool, "--id", "molecule"),
            f"tell {s.results} results": ("tell", campaign, results),
            f"ask -n {s.plate}, first": ("ask", campaign, "-n", str(s.plate), "--out", plates[0]),
            f"ask -n {s.plate}, next": ("ask", campaign, "-n", str(s.plate), "--out", plates[1]),
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
