"""What an ask costs as a campaign grows, in a process that keeps the model (warm) and in a new one (cold).

A cold ask is made on a copy of the same database, and must hand out the same candidates as the warm one. All
settings are the defaults, unless the text says otherwise. Figures are CPU seconds where other programs could
disturb them.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks import Row, at_most
from benchmarks.campaigns import write_pool
from benchmarks.service import served
from benchmarks.timing import peak_and_result

FIRST_ID = 10_000_000  # the id of the first row that `write_pool` writes


@dataclass(frozen=True)
class Settings:
    """The number of arms, of results imported first, of arms in a batch and of batches."""

    n_arms: int = 1_000_000
    results: int = 1_000
    batch_size: int = 100
    batches: int = 3


FULL = Settings()
SMOKE = Settings(n_arms=2_000, results=40, batch_size=8, batches=2)


def copied(database: Path, copy: Path) -> Path:
    """A copy of a campaign at this moment, also while others use it."""
    copy.unlink(missing_ok=True)
    with closing(sqlite3.connect(database)) as old, closing(sqlite3.connect(copy)) as new:
        old.backup(new)
    return copy


def asked_cold(database: str, n: int) -> tuple[float, float, list[tuple[int, str]]]:
    """CPU and wall-clock seconds of an ask in a process that has loaded its libraries, and what it gave."""
    import manyarms.cli.main  # noqa: F401
    from manyarms.campaigns.campaign import Campaign

    began, cpu = time.perf_counter(), time.process_time()
    with Campaign(database) as campaign:
        issued = campaign.ask(n)
    seconds = time.process_time() - cpu, time.perf_counter() - began
    return *seconds, [(each.ticket, each.id) for each in issued]


def _cpu_of(pid: int) -> float:
    """The CPU seconds that a running process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_of(pid: int) -> float:
    """The peak resident memory of a running process in bytes."""
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmHWM"))
    return 1024.0 * int(line.split()[1])


def million(smoke: bool) -> list[Row]:
    """A service on 10⁶ rows after 1 000 results: asks of 100 with 100 results between them."""
    import manyarms as ma
    from manyarms.campaigns.campaign import Campaign
    from manyarms.campaigns.settings import Request

    s = SMOKE if smoke else FULL
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        values = np.array(write_pool(str(folder / "pool.parquet"), s.n_arms))
        database, rng = folder / "screen.db", np.random.default_rng(0)
        told = rng.choice(s.n_arms, s.results, replace=False)
        lines = "".join(f"{FIRST_ID + arm},{values[arm] + 0.02 * rng.normal()}\n" for arm in told.tolist())
        with Campaign.new(database, Request(str(folder / "pool.parquet"), id="molecule")) as campaign:
            campaign.tell_bytes(f"molecule,value\n{lines}".encode(), "earlier.csv")
        warm, cold, same, peaks = [], [], [], []
        (folder / "copies").mkdir()
        with served(folder) as service, ma.connect(f"{service.address}/screen", patience=600) as campaign:
            for _ in range(s.batches):
                copy = copied(database, folder / "copies" / "cold.db")
                cpu, began = _cpu_of(service.pid), time.perf_counter()
                batch = campaign.ask(s.batch_size)
                warm.append((_cpu_of(service.pid) - cpu, time.perf_counter() - began))
                peak, answer = peak_and_result("benchmarks.living", "asked_cold", str(copy), s.batch_size)
                peaks.append(peak)
                cold.append(answer[:2])
                same.append([each[1] for each in answer[2]] == [str(id) for id in batch["molecule"]])
                arms = [int(id) - FIRST_ID for id in batch["molecule"]]
                noisy = (values[arms] + 0.02 * rng.normal(size=len(arms))).tolist()
                campaign.tell(batch["ticket"], noisy)
            memory = _peak_of(service.pid)
    assert all(same), "a warm and a cold ask differ"
    label = f"{s.n_arms} × 8 Parquet after {s.results} results: ask -n {s.batch_size}"
    rows = [Row(f"{label}, the first of the service, wall", warm[0][1], "s", note=f"CPU {warm[0][0]:.1f} s")]
    for number, (cpu_seconds, seconds) in enumerate(warm[1:], 2):
        note = f"CPU {cpu_seconds:.1f} s"
        rows.append(at_most(f"{label}, warm, batch {number}, wall", seconds, 4, "s", note))
    for number, (cpu_seconds, seconds) in enumerate(cold, 1):
        note = f"CPU {cpu_seconds:.1f} s"
        rows.append(at_most(f"{label}, cold, batch {number}, wall", seconds, 12, "s", note))
    rows.append(at_most(f"{label}, peak of the service", memory / 1e9, 4, "GB"))
    return [*rows, Row(f"{label}, peak of a cold ask", max(peaks) / 1e9, "GB")]


def growing(smoke: bool) -> list[Row]:
    """Asks of 20, told at once: the 100th against the 5th, each as the median with its four neighbours.

    A cold ask is the work without loading libraries; `command` is all of `manyarms ask` in a new process.
    """
    given = replace(FULL, batch_size=20, batches=102)
    if smoke:
        given = replace(SMOKE, batch_size=2, batches=9)
    return [row for n in (400, 800) for row in _growth(replace(given, n_arms=n))] if smoke else [
        row for n in (20_000, 200_000) for row in _growth(replace(given, n_arms=n))
    ]  # fmt: skip


def _growth(s: Settings) -> list[Row]:
    from manyarms.campaigns.campaign import Campaign
    from manyarms.campaigns.settings import Request

    early, late = range(3, 8), range(s.batches - 4, s.batches + 1)
    warm, cold, command = {}, {}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ask = (sys.executable, "-m", "manyarms", "ask", "command.db", "-n", str(s.batch_size))
        values = np.array(write_pool(str(folder / "pool.parquet"), s.n_arms))
        database, rng = folder / "c.db", np.random.default_rng(0)
        with Campaign.new(database, Request(str(folder / "pool.parquet"), id="molecule")) as campaign:
            for number in range(1, s.batches + 1):
                compared = number in early or number in late
                if compared:
                    copied(database, folder / "cold.db")
                    copied(database, folder / "command.db")
                began = time.process_time()
                batch = campaign.ask(s.batch_size)
                warm[number] = time.process_time() - began
                if compared:
                    cold[number], _, again = asked_cold(str(folder / "cold.db"), s.batch_size)
                    assert [each[1] for each in again] == [each.id for each in batch], "warm and cold differ"
                    command[number] = _used(lambda: _run(ask, folder))
                lines = "".join(f"{x.code},{values[x.arm] + 0.02 * rng.normal()}\n" for x in batch)
                campaign.tell_bytes(f"ticket,value\n{lines}".encode(), "results.csv")
    rows = []
    for kind, seconds, bar in (("warm", warm, 2.5), ("cold", cold, 4.0), ("command", command, 4.0)):
        at_5, at_100 = (statistics.median(seconds[number] for number in some) for some in (early, late))
        label = f"{s.n_arms} × 8, asks of {s.batch_size}, {kind}: ask {late[2]}"
        rows.append(at_most(f"{label} / ask 5", at_100 / at_5, bar, "×", f"{at_100:.2f} s / {at_5:.2f} s"))
    total = sum(warm.values())
    return [*rows, Row(f"{s.n_arms} × 8, asks of {s.batch_size}, warm: all {s.batches} asks", total, "s")]


# ------------------------------------------------------------------ a campaign of many batches

SPREAD, NOISE = 0.25, 0.1  # of the target, and of a measurement


def bumps(n_arms: int) -> tuple[np.ndarray, np.ndarray]:
    """Candidates in the unit cube and their true values: 40 smooth bumps, scaled to a maximum of 1."""
    import manyarms as ma

    rng = np.random.default_rng(0)
    features, centres = rng.random((n_arms, 3)), rng.random((40, 3))
    values = ma.RBF(SPREAD).matrix(features, centres) @ rng.normal(size=40)
    return features, values / values.max()


def measure(arm: object) -> float:
    """Measure a candidate of `many_batches`: its true value plus noise that belongs to the ticket."""
    truth = np.load("truth.npy", mmap_mode="r")
    rng = np.random.default_rng((1, arm.ticket))  # type: ignore[attr-defined]
    return float(truth[arm.index] + NOISE * rng.standard_normal())  # type: ignore[attr-defined]


def many_batches(smoke: bool) -> list[Row]:
    """`manyarms run` on 20 000 rows with a given kernel: 2 000 trials in the batches of BBKB's own rule."""
    n_arms, budget = (300, 30) if smoke else (20_000, 2_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        features, truth = bumps(n_arms)
        np.save(folder / "truth.npy", truth)
        lines = (f"recipe {i}," + ",".join(map(str, row)) for i, row in enumerate(features.tolist()))
        (folder / "pool.csv").write_text("\n".join(["name,x1,x2,x3", *lines]))
        manyarms = (sys.executable, "-m", "manyarms")
        options = (
            f"--id name --kernel rbf --lengthscale {SPREAD} --noise {NOISE} --signal 1 --mean 0 --width 3"
        )
        new = (*manyarms, "new", "c.db", "--pool", "pool.csv", *options.split(), "--repeats", "allow")
        _used(lambda: _run((*new, "--budget", str(budget)), folder))
        seconds = _used(
            lambda: _run((*manyarms, "run", "c.db", "--python", "benchmarks.living:measure"), folder)
        )
        with closing(sqlite3.connect(folder / "c.db")) as database:
            ((n_batches,),) = database.execute("SELECT count(*) FROM batches")
    label = f"{n_arms} × 3 CSV, a run of {budget} trials, CPU"
    return [at_most(label, seconds, 6, "s", note=f"{n_batches} batches")]


def _run(command: tuple[str, ...], folder: Path) -> None:
    root = Path(__file__).resolve().parent.parent
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)


def _used(work: Callable[[], object]) -> float:
    """CPU seconds of the processes that a call starts and waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


BENCHMARKS = [many_batches, growing, million]
