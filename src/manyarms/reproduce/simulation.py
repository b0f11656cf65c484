"""Simulate a policy on a pool with known rewards, and record up to 200 steps of the run."""

from __future__ import annotations

import time

import numpy as np

import manyarms as ma
from manyarms.reproduce.experiment import JobOutcome
from manyarms.reproduce.noise import PullNoise
from manyarms.support.validation import Floats, Ints


def recorded_steps(horizon: int, n: int = 200) -> Ints:
    """The steps recorded in a run: half of them evenly spaced, half of them evenly spaced on a log scale."""
    even, log = np.linspace(1, horizon, n // 2), np.geomspace(1, horizon, n // 2)
    return np.unique(np.concatenate([even, log]).round().astype(np.int64))


def simulate(opt: ma.Optimizer, truth: Floats, noise: PullNoise) -> JobOutcome:
    """Spend the budget on rewards truth + noise; return regret, sizes and CPU seconds against t."""
    assert opt.budget is not None
    seconds, spent = [], 0.0
    while opt.spent < opt.budget:
        started = time.process_time()
        batch = opt.ask()
        spent += time.process_time() - started
        rewards = truth[batch.arms] + noise(batch)  # not timed
        started = time.process_time()
        opt.tell(batch, rewards)
        spent += time.process_time() - started
        seconds.append(spent)
    return trace_columns(opt.trace, truth, np.array(seconds), recorded_steps(opt.budget))


def trace_columns(trace: list[ma.BatchRecord], truth: Floats, seconds: Floats, at: Ints) -> JobOutcome:
    """The columns of a run at the steps `at`; sizes and seconds at t belong to the batch of the t-th pull."""
    sizes = np.array([len(record.arms) for record in trace])
    batch = np.repeat(np.arange(len(sizes)), sizes)[at - 1]
    arms = np.concatenate([record.arms for record in trace])
    first_pulls = np.zeros(len(arms))
    first_pulls[np.unique(arms, return_index=True)[1]] = 1.0
    gaps = truth.max() - truth
    numbers = {
        "t": at,
        "regret": np.cumsum(gaps[arms])[at - 1],
        "uniform_regret": at * gaps.mean(),
        "batch_size": sizes[batch],
        "largest_batch": np.maximum.accumulate(sizes)[batch],
        "batches": batch + 1,
        "dictionary": np.array([record.dictionary_size for record in trace])[batch],
        "unique_arms": np.cumsum(first_pulls)[at - 1],
    }
    columns = {name: np.asarray(values, dtype=np.float64) for name, values in numbers.items()}
    return JobOutcome(columns, {"t": columns["t"], "seconds": seconds[batch]})
