"""Run an experiment: its jobs in parallel processes, then figure, summary and manifest."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from manyarms.reproduce.experiment import Experiment, ExperimentResult, Job, JobOutcome, Mode, SummaryRow
from manyarms.reproduce.figures import save_figure
from manyarms.reproduce.pools import GENERATED, load
from manyarms.reproduce.provenance import provenance
from manyarms.reproduce.raw import RawFolder, digest_of, write_atomically
from manyarms.reproduce.summaries import to_csv, to_markdown
from manyarms.support.validation import count

Progress = Callable[[int, int, str], None]  # jobs done, total jobs, key of the last job
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class ReproductionReport:
    """The files and numbers of a reproduced experiment."""

    figures: tuple[Path, ...]
    summary: Path
    manifest: Path
    rows: list[SummaryRow]
    digests: dict[str, str]  # of the raw files, by name
    reused: int
    ran: int
    stand_in: bool  # generated data was used instead of real data
    cpu_seconds: float  # of all runs, also of those that were reused

    @property
    def digest(self) -> str:
        """A single digest of all numbers."""
        return digest_of(self.digests)


def reproduce(
    experiment: Experiment,
    mode: Mode = "default",
    out: Path | None = None,
    *,
    data_home: Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> ReproductionReport:
    """Run the jobs that have no stored result of the same settings, then draw and summarise all results."""
    started = time.perf_counter()
    origin = provenance()  # at the start, because the checkout may change during a long run
    n_workers = (os.cpu_count() or 1) if workers is None else count("workers", workers)
    jobs = planned_jobs(experiment, mode, data_home)
    raw = RawFolder(out or Path("reproduction") / experiment.name, experiment.name)
    missing = [job for job in jobs if raw.read(job) is None]
    found = len(jobs) - len(missing)
    report_progress = progress or (lambda done, total, key: None)
    report_progress(found, len(jobs), "")
    for ran, job in enumerate(_run(experiment, missing, raw, data_home, n_workers), 1):
        report_progress(found + ran, len(jobs), job.key)
    report = _summarised(experiment, mode, jobs, raw, found)
    write_atomically(report.summary, to_csv(report.rows).encode())
    write_atomically(report.summary.with_suffix(".md"), to_markdown(report.rows).encode())
    seconds = round(time.perf_counter() - started, 1)
    manifest = _manifest(experiment, mode, jobs, report) | origin | {"wall_seconds": seconds}
    write_atomically(report.manifest, (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode())
    return report


def _summarised(
    experiment: Experiment, mode: Mode, jobs: list[Job], raw: RawFolder, found: int
) -> ReproductionReport:
    """Draw the figure from the stored results, and summarise them."""
    results = [_stored(raw, job) for job in jobs]
    stand_in = any(str(job.settings.get("pool", "")).startswith(GENERATED) for job in jobs)
    title = f"{experiment.name} ({mode})" + (": generated stand-in, not the real data" if stand_in else "")
    return ReproductionReport(
        figures=save_figure(experiment.panels(results), title, experiment.band, raw.folder / experiment.name),
        summary=raw.folder / "summary.csv",
        manifest=raw.folder / "manifest.json",
        rows=experiment.summary(results),
        digests=raw.digests(jobs),
        reused=found,
        ran=len(jobs) - found,
        stand_in=stand_in,
        cpu_seconds=round(sum(float(run.timings["cpu"][-1]) for run in results), 1),
    )


def planned_jobs(experiment: Experiment, mode: Mode, data_home: Path | None) -> list[Job]:
    """The jobs of a mode. Real data is loaded here, and its digest becomes part of the settings.

    A smoke run uses a generated pool unless `data_home` is given.
    """
    plan = experiment.plan(mode)
    if experiment.pool is None:
        return plan.jobs()
    if mode == "smoke" and data_home is not None:
        plan = plan.changed(pool=experiment.pool)
    pool = load(plan.settings["pool"], data_home)
    return plan.changed(pool_digest=pool.digest, pool_arms=len(pool.truth)).jobs()


def _run(
    experiment: Experiment, jobs: list[Job], raw: RawFolder, data_home: Path | None, workers: int
) -> Iterator[Job]:
    """Run jobs in worker processes with one linear-algebra thread each; the workers end with this process."""
    if not jobs:
        return
    with _one_thread_each():
        executor = ProcessPoolExecutor(
            min(workers, len(jobs)), multiprocessing.get_context("spawn"), initializer=_prepare_worker
        )
        try:
            futures: dict[Future[None], Job] = {
                executor.submit(_run_and_store, experiment.run_one, job, raw, data_home): job for job in jobs
            }
            for future in as_completed(futures):
                future.result()
                yield futures[future]
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def _run_and_store(
    run_one: Callable[[Job, Path | None], JobOutcome], job: Job, raw: RawFolder, data_home: Path | None
) -> None:
    """Run a job and store its outcome in the worker, so that finished jobs survive failures of others."""
    started = time.process_time()
    outcome = run_one(job, data_home)
    rows = len(next(iter(outcome.timings.values()), (0,)))
    cpu = np.full(rows, time.process_time() - started)
    raw.write(job, replace(outcome, timings=outcome.timings | {"cpu": cpu}))


def _prepare_worker() -> None:
    """Load libraries before the first timed step, and end the worker on Ctrl-C or when its parent ends."""
    import scipy.linalg
    import scipy.spatial.distance  # noqa: F401

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _end_with_parent()


def _end_with_parent() -> None:
    """Exit when the parent process ends; otherwise a worker would wait for jobs forever."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Set one thread per worker in the environment, so that sums do not depend on the number of cores."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _stored(raw: RawFolder, job: Job) -> ExperimentResult:
    result = raw.read(job)
    assert result is not None, f"the stored result of {job.key} cannot be read"
    return result


def _manifest(
    experiment: Experiment, mode: Mode, jobs: list[Job], report: ReproductionReport
) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "mode": mode,
        "paper": experiment.shows,
        "band": experiment.band,
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "generated_stand_in": report.stand_in,
        "cpu_seconds": report.cpu_seconds,
        "seeds": sorted({job.seed for job in jobs}),
        "settings": {replace(job, seed=0).key.rpartition("--")[0]: job.settings for job in jobs},
        "digest": report.digest,
        "raw": report.digests,
    }
