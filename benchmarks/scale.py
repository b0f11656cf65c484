"""Pools of the size that fills a machine: time and memory of whole runs, each in a process of its own.

`python -m benchmarks scale.ten_million` takes about a quarter of an hour and needs 8 GB of memory;
`scale.parquet` takes longer and writes 3.2 GB to a temporary folder (`TMPDIR`), which it deletes.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import manyarms as ma
from benchmarks import Row, at_most

COLUMNS = [f"x{j}" for j in range(8)]
MOST_BYTES = 12e9  # of the run on ten million arms
ROW_GROUP = 1 << 20


def ten_million(smoke: bool) -> list[Row]:
    """10⁷ × 8 float32 arms, the default policy, 500 evaluations in batches of 50, columns computed again."""
    n_arms, evaluations = (20_000, 100) if smoke else (10_000_000, 500)
    found = _in_a_process("in_memory", n_arms, evaluations, "recompute")
    note = f"{found['columns']} columns at the end, {found['cpu']:.0f} s of CPU"
    return [
        Row("10⁷ arms: 500 evaluations", found["seconds"], "s", note=note),
        at_most("10⁷ arms: largest resident set", found["bytes"] / 1e9, MOST_BYTES / 1e9, "GB"),
        at_most("10⁷ arms: swapped", found["swapped"] / 1e9, 0, "GB"),
    ]


def storage(smoke: bool) -> list[Row]:
    """The same run with columns in memory, in files and computed again, on fewer arms."""
    n_arms, evaluations = (20_000, 100) if smoke else (1_000_000, 250)
    found = {
        way: _in_a_process("in_memory", n_arms, evaluations, way) for way in ("memory", "disk", "recompute")
    }
    rows = [
        Row(f"{n_arms} arms, {evaluations} evaluations, {way}", each["cpu"], "s of CPU",
            note=f"{each['seconds']:.0f} s, {each['bytes'] / 1e9:.2f} GB, {each['columns']} columns")
        for way, each in found.items()
    ]  # fmt: skip
    arms = {tuple(each["arms"]) for each in found.values()}
    return [*rows, at_most("kinds of storage: different sequences of arms", len(arms), 1)]


def parquet(smoke: bool) -> list[Row]:
    """10⁸ rows of Parquet files: 200 results, then one batch, with columns computed again."""
    n_arms, told = (50_000, 60) if smoke else (100_000_000, 200)
    with tempfile.TemporaryDirectory() as folder:
        written = write_files(Path(folder), n_arms)
        found = _in_a_process("in_files", n_arms, told, "recompute", folder)
    note = f"{written / 1e9:.2f} GB of files, {told} results, {found['columns']} columns"
    return [
        Row("10⁸ rows: until the pool is ready", found["ready"], "s"),
        Row("10⁸ rows: one batch of 50", found["seconds"], "s", note=f"{found['cpu']:.0f} s of CPU"),
        Row("10⁸ rows: largest resident set", found["bytes"] / 1e9, "GB", note=note),
    ]


def write_files(folder: Path, n_arms: int) -> int:
    """Random rows as Parquet files of 10⁷ rows; returns their bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.float32()) for name in COLUMNS])
    per_file, total = 10_000_000, 0
    for number, first in enumerate(range(0, n_arms, per_file)):
        path, rng = folder / f"part-{number:03}.parquet", np.random.default_rng(number)
        with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
            for start in range(first, min(first + per_file, n_arms), ROW_GROUP):
                rows = rng.random((min(ROW_GROUP, first + per_file - start, n_arms - start), 8), np.float32)
                writer.write_table(pa.table(list(rows.T.copy()), schema=schema), row_group_size=ROW_GROUP)
        total += path.stat().st_size
    return total


# ---------------------------------------------------------------------- in a process of its own


def _in_a_process(function: str, *arguments: object) -> dict:
    command = [sys.executable, "-m", "benchmarks.scale", function, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def truth(features: np.ndarray) -> np.ndarray:
    """A smooth function of the rows."""
    X = np.asarray(features, dtype=np.float64)
    return np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(4 * X[:, 3] * X[:, 4]) + 0.5 * X[:, 5]


def in_memory(n_arms: int, evaluations: int, way: str) -> dict:
    """A run of the default policy in batches of 50."""
    rng, started = np.random.default_rng(0), time.perf_counter()
    features = rng.random((n_arms, 8), dtype=np.float32)
    opt = ma.Optimizer(ma.Pool(features), storage="float32", engine=ma.engines.Local(storage=way))
    arms: list[int] = []
    while len(arms) < evaluations:
        batch = opt.ask(50)
        opt.tell(batch, truth(features[batch.arms]) + 0.1 * rng.normal(size=len(batch)))
        arms += batch.arms.tolist()
        print(f"{len(arms)} after {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    columns = opt.trace[-1].dictionary_size
    return {"seconds": time.perf_counter() - started, "columns": columns, "arms": arms, **_used()}


def in_files(n_arms: int, told: int, way: str, folder: str) -> dict:
    """One batch, after so many results of random arms."""
    rng, started = np.random.default_rng(0), time.perf_counter()
    pool = ma.Pool.read(f"{folder}/*.parquet", max_memory=1 << 29)
    opt = ma.Optimizer(pool, storage="float32", engine=ma.engines.Local(storage=way))
    ready = time.perf_counter()
    print(f"ready after {ready - started:.0f} s", file=sys.stderr, flush=True)
    arms = np.sort(rng.choice(n_arms, told, replace=False))
    opt.tell(arms=arms, rewards=truth(pool.take(arms)) + 0.1 * rng.normal(size=told))
    ready, asked = ready - started, time.perf_counter()
    batch = opt.ask(50)
    assert len(batch) == 50
    seconds = time.perf_counter() - asked
    return {"ready": ready, "seconds": seconds, "columns": opt.trace[-1].dictionary_size, **_used()}


def _used() -> dict:
    own = resource.getrusage(resource.RUSAGE_SELF)
    status = Path("/proc/self/status").read_text() if Path("/proc/self/status").exists() else ""
    swapped = sum(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmSwap:"))
    return {"bytes": own.ru_maxrss << 10, "cpu": own.ru_utime + own.ru_stime, "swapped": swapped}


BENCHMARKS = [ten_million, storage, parquet]

if __name__ == "__main__":
    chosen, *given = sys.argv[1:]
    called = {"in_memory": in_memory, "in_files": in_files}[chosen]
    print(json.dumps(called(*(int(each) if each.isdecimal() else each for each in given))))
