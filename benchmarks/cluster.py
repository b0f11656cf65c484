"""A step on a Dask cluster compared with the same step in one process: CPU seconds of all processes.

The process works on one shard with one thread, or on as many shards as the cluster with a thread per core:
threads that read memory at the same time take more CPU time than one after the other, as workers do.
"""

from __future__ import annotations

import time

import numpy as np

import manyarms as ma
from benchmarks import Row, at_most
from benchmarks.timing import ONE_THREAD

KERNEL = ma.RBF(5**0.5)
WARM = 3  # steps that are not counted: every process loads the compiled loops at its first one


def dask_step(smoke: bool) -> list[Row]:
    """BKB: a result is told and the next arm is asked for, with the pool on four worker processes."""
    import dask
    from distributed import Client, LocalCluster

    workers, n_arms, before, steps = (1, 2_000, 3, 3) if smoke else (4, 1_000_000, 100, 40)
    features = np.random.default_rng(0).normal(size=(n_arms, 8))
    values = np.sin(features).sum(axis=1)

    def one() -> float:
        return time.process_time()

    seconds, arms = _measured(features, values, ma.engines.Local(shards=1), one, before, steps)
    together, _ = _measured(features, values, ma.engines.Local(shards=workers), one, before, steps)
    settings = {
        "distributed.nanny.pre-spawn-environ": ONE_THREAD,
        "distributed.worker.profile.enabled": False,
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, direct_to_workers=True) as client,
    ):

        def everywhere() -> float:
            return time.process_time() + sum(client.run(time.process_time).values())

        engine = ma.engines.Dask(client, shards=workers)
        on_dask, same = _measured(features, values, engine, everywhere, before, steps)
    note = f"{workers} × {n_arms // workers} arms, sketch of at most {before + steps} arms"
    return [
        at_most("Dask step / step of one thread, CPU", on_dask / seconds, 1.5, note=note),
        at_most("Dask step / step of as many threads, CPU", on_dask / together, 1.5, note=note),
        at_most("Dask step: arms that differ", sum(a != b for a, b in zip(arms, same, strict=True)), 0),
    ]


def _measured(features, values, engine, clock, before: int, steps: int) -> tuple[float, list[int]]:
    """Seconds of a step by this clock, and the arms chosen."""
    policy = ma.BKB(kernel=KERNEL, ridge=0.2, noise_std=0.1)
    opt = ma.Optimizer(ma.Pool(features), policy, seed=0, engine=engine)
    rng = np.random.default_rng(1)
    told = rng.choice(len(features), before, replace=False)
    opt.tell(arms=told, rewards=values[told])
    arms: list[int] = []
    start = 0.0
    for number in range(WARM + steps):
        if number == WARM:
            start = clock()
        batch = opt.ask(1)
        opt.tell(batch, values[batch.arms])
        arms += batch.arms.tolist()
    return (clock() - start) / steps, arms


BENCHMARKS = [dask_step]
