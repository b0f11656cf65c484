"""What a step costs besides its passes, and what an evaluation costs early and late in a long run.

CPU time on one thread (`python -m benchmarks pace`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

import manyarms as ma
from benchmarks import Row, at_least, at_most, ucb
from benchmarks.measured import enamine
from benchmarks.pools import abalone, generated, housing
from manyarms.engines.local import LocalShards
from manyarms.errors import MissingDataError

OVER_ALL_ARMS = {"advance", "rebuild", "peak_in", "highest_in"}  # calls of a shard that go through all arms


class _PassClock:
    """CPU seconds spent inside calls of shards that go through all of their arms."""

    def __init__(self) -> None:
        self.seconds, self._each = 0.0, LocalShards.each

    def each(self, shards: LocalShards, method: str, calls: Any) -> list[Any]:
        start = time.process_time()
        found = self._each(shards, method, calls)
        name = calls[0][0].__name__ if method == "run" else method
        if name in OVER_ALL_ARMS:
            self.seconds += time.process_time() - start
        return found

    def run(self, work: Callable[[], ucb.Outcome]) -> ucb.Outcome:
        clock = self

        def each(shards: LocalShards, method: str, calls: Any) -> list[Any]:
            return clock.each(shards, method, calls)

        with mock.patch.object(LocalShards, "each", each):
            return work()


def overhead(smoke: bool) -> list[Row]:
    """The share of a step on Abalone that is Python and small matrices: all but the passes over the pool."""
    try:
        features, truth = generated(400) if smoke else abalone()
    except MissingDataError as problem:
        return [Row("Python and small matrices on Abalone", float("nan"), note=f"not run: {problem}")]
    pulls, rows = 30 if smoke else 500, []
    for policy in (ma.BKB, ma.BBKB):
        settled = policy(**ucb.GIVEN, delta=1 / pulls)
        found = []
        for _ in range(1 if smoke else 5):  # other programs only add time, so the fastest run is shown
            clock = _PassClock()
            outcome = clock.run(lambda settled=settled: ucb.run(settled, features, truth, pulls))
            found.append((outcome.seconds, clock.seconds, len(outcome.sizes)))
        total, passes, steps = min(found)
        name = f"{policy.__name__} on Abalone, {pulls} pulls: share that is Python and small matrices"
        note = f"{1e3 * total / steps:.2f} ms a step, {steps} steps"
        rows.append(at_most(name, 1 - passes / total, 0.45, note=note))
    return rows


def _paces(features: np.ndarray, truth: np.ndarray, budget: int, batch: int) -> tuple[list[float], list[int]]:
    """CPU seconds of each fifth of a default run, and the size of its sketch after each batch."""
    noise, sizes = np.random.default_rng(0), []
    run = ma.Optimizer(ma.Pool(features), seed=0)
    marks = [time.process_time()]
    while run.spent < budget:
        asked = run.ask(batch)
        run.tell(asked, truth[asked.arms] + 0.1 * noise.normal(size=len(asked)))
        sizes.append(run.state.belief.state.sketch_size)
        if run.spent >= len(marks) * budget / 5:
            marks.append(time.process_time())
    return np.diff(marks).tolist(), sizes


def long_run(smoke: bool) -> list[Row]:
    """The default to 5 000 different arms of California housing, in batches of 50."""
    try:
        features, truth = generated(400) if smoke else housing()
    except MissingDataError as problem:
        return [Row("default on housing to 5000 arms", float("nan"), note=f"not run: {problem}")]
    budget, batch = (100, 10) if smoke else (5000, 50)
    seconds, sizes = _paces(features, truth, budget, batch)
    each = ", ".join(f"{1e3 * s / (budget / 5):.1f}" for s in seconds)
    name = f"default on housing to {budget} arms: a fifth / the first fifth, at most"
    note = f"{each} ms an evaluation; at most {max(sizes)} inducing arms"
    return [at_most(name, max(seconds) / seconds[0], 1.5, note=note)]


def fingerprints(smoke: bool) -> list[Row]:
    """1 000 evaluations of Enamine's fingerprints, and how much of it is the kernel."""
    try:
        bits, score = enamine()
    except MissingDataError as problem:
        return [Row("default on Enamine's fingerprints", float("nan"), note=f"not run: {problem}")]
    if smoke:
        bits, score = bits[:300], score[:300]
    budget, batch = (40, 10) if smoke else (1000, 50)
    spent, plain = [0.0], ma.Tanimoto.matrix

    def timed(kernel: ma.Tanimoto, X: Any, Y: Any) -> Any:
        begun = time.process_time()
        found = plain(kernel, X, Y)
        spent[0] += time.process_time() - begun
        return found

    start = time.process_time()
    with mock.patch.object(ma.Tanimoto, "matrix", timed):
        run = ma.Optimizer(ma.Pool(bits), seed=0, budget=budget)
        while run.spent < budget:
            asked = run.ask(batch)
            run.tell(asked, score[asked.arms])
    total = time.process_time() - start
    name = f"default on {len(bits)} fingerprints, {budget} evaluations"
    return [
        Row(name, total, "s CPU"),
        at_least(f"{name}: total / kernel", total / spent[0], 4, "times"),
    ]


BENCHMARKS = [overhead, long_run, fingerprints]
