"""The service with workers that ask for one candidate, tell its value and ask again, on 20 000 rows.

The service is a process of its own. The workers are threads of this process, each with its own connection;
measuring takes no time, so the figure is the number of results that the service can take. Asks that wait at
the same moment share one batch; the same workers one after the other show what that is worth.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import Row, at_least
from benchmarks.campaigns import write_pool


@dataclass(frozen=True)
class Settings:
    """The size of the table, the number of workers, and the results that each of them tells."""

    n_arms: int = 20_000
    workers: int = 8
    results: int = 40
    alone: int = 40  # results of one worker without others


FULL, SMOKE = Settings(), Settings(n_arms=300, workers=2, results=2, alone=2)


@dataclass(frozen=True)
class Served:
    """A service that runs: its address and its process."""

    address: str
    pid: int


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """A service on the campaigns of a folder, in a process of its own."""
    command = [sys.executable, "-m", "manyarms", "serve", str(folder), "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert process.stdout is not None
        yield Served(json.loads(process.stdout.readline())["address"], process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def worked(url: str, workers: int, results: int, values: list[float]) -> float:
    """The seconds that so many workers need to tell so many results each."""
    import manyarms as ma

    failures: list[BaseException] = []

    def work() -> None:
        try:
            with ma.connect(url, patience=60) as campaign:
                for _ in range(results):
                    batch = campaign.ask(1)
                    arms = [int(name) - 10_000_000 for name in batch["molecule"]]
                    campaign.tell(batch["ticket"], [values[arm] for arm in arms])
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return time.perf_counter() - started


def _child_seconds() -> float:
    """The CPU time of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def one_at_a_time(smoke: bool) -> list[Row]:
    """Eight workers that ask and tell one at a time, and the same number of results by one worker."""
    from manyarms.campaigns.campaign import Campaign
    from manyarms.campaigns.queries import batches
    from manyarms.campaigns.settings import Request

    given = SMOKE if smoke else FULL
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        values = write_pool(str(folder / "pool.parquet"), given.n_arms)
        Campaign.new(folder / "screen.db", Request(str(folder / "pool.parquet"), id="molecule")).close()
        Campaign.new(folder / "alone.db", Request(str(folder / "pool.parquet"), id="molecule")).close()
        with served(folder) as service:
            alone = worked(f"{service.address}/alone", 1, given.alone, values)
        before = _child_seconds()
        with served(folder) as service:
            seconds = worked(f"{service.address}/screen", given.workers, given.results, values)
        cpu = _child_seconds() - before
        with Campaign(folder / "screen.db") as campaign:
            sizes = [each["size"] for each in batches(campaign)]
    told = given.workers * given.results
    rate, single = told / seconds, given.alone / alone
    return [
        at_least(f"{given.workers} workers: results a second", rate, 20.0, "1/s", note=f"{told} results"),
        Row("one worker: results a second", single, "1/s", note=f"{given.alone} results"),
        Row("results a second, all workers / one worker", rate / single, "×"),
        Row("tickets per computed batch", sum(sizes) / len(sizes)),
        Row("results per CPU second of the service, its start included", told / cpu, "1/s"),
    ]


BENCHMARKS = [one_at_a_time]
