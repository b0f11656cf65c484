"""How accurate the learned models are: coverage of their intervals, and the cost of learning."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

import manyarms as ma
from benchmarks import Row, at_most, measured
from manyarms.errors import MissingDataError
from manyarms.learning import LearnedModel, learn, prepare
from manyarms.posterior.history import History
from manyarms.run import feedback

HELD_OUT = 2000
PULLS = (200, 1000, 5000)
NINETY = 1.6448536  # standard normal quantile of 95 %
EXACT = 1000  # with more arms, predictions use the sketch of BBKB


def _predicted(
    pool: ma.Pool, model: LearnedModel, history: History, arms: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the next reward at these arms, on the model's scale."""
    seen = model.targets(history, pool)
    policy = ma.GPUCB if len(history) <= EXACT else ma.BBKB
    optimizer = ma.Optimizer(pool, policy(kernel=model.kernel, noise_std=model.noise_std, width=1.0))
    optimizer.tell(arms=seen.arms, rewards=seen.means)
    mean, std = optimizer.predict(arms)
    return mean, np.sqrt(std**2 + model.ridge)


def coverage(features: np.ndarray, results: np.ndarray, pulls: int, seed: int) -> tuple[float, LearnedModel]:
    """Share of held-out rewards inside the 90 % interval after `pulls` random pulls of different arms."""
    rng = np.random.default_rng(seed)
    measured_once = results if results.ndim == 1 else results[:, rng.integers(results.shape[1])]
    rows = rng.choice(len(features), min(len(features), pulls + HELD_OUT), replace=False)
    pool, rewards = ma.Pool(features[rows]), measured_once[rows]
    pulls = min(pulls, len(rows) * 3 // 4)
    history = History(len(rows))
    history.add(np.arange(pulls), rewards[:pulls])
    prepared = prepare(pool)
    model = learn(prepared, history, rng)
    held_out = np.arange(pulls, len(rows))
    mean, std = _predicted(prepared.pool, model, history, held_out)
    _, low, high = model.in_user_units(mean, std, NINETY)
    inside = (low <= rewards[held_out]) & (rewards[held_out] <= high)
    return float(inside.mean()), model


def calibration(smoke: bool) -> list[Row]:
    """90 % intervals on real pools: they must cover between 80 % and 97 % of unseen rewards."""
    rows = []
    for name in ("generated",) if smoke else ("abalone", "housing", "sgemm"):
        try:
            features, results = measured.generated(500) if smoke else getattr(measured, name)()
        except MissingDataError as problem:
            rows.append(Row(f"coverage on {name}", float("nan"), note=f"not run: {problem}"))
            continue
        for pulls in (50,) if smoke else PULLS:
            runs = [coverage(features, results, pulls, seed) for seed in range(1 if smoke else 3)]
            share, model = float(np.mean([run[0] for run in runs])), runs[0][1]
            note = (
                f"{model.family}, {model.describe()['transform']['transform']}, noise {model.noise_std:.2g}"
            )
            label = f"coverage of 90 % intervals on {name}, {pulls} pulls"
            rows.append(Row(label, share, "", "0.80–0.97", 0.80 <= share <= 0.97, note))
    return rows


@contextmanager
def _timed_learning() -> Iterator[list[float]]:
    """CPU seconds of each fit an `Optimizer` makes inside this block."""
    seconds: list[float] = []

    def timed(*given: Any, **named: Any) -> LearnedModel:
        started = time.process_time()
        model = learn(*given, **named)
        seconds.append(time.process_time() - started)
        return model

    with patch.object(feedback, "learn", timed):
        yield seconds


def cost(smoke: bool) -> list[Row]:
    """The share of the time of a default run that learning takes: T = 5 000 on 20 000 arms."""
    n_arms, budget = (300, 60) if smoke else (20_000, 5_000)
    features, truth = measured.generated(n_arms)
    rows = []
    for way, at_once in (("batches of 50", 50), ("batches by its own rule", None)):
        rng, started = np.random.default_rng(0), time.process_time()
        with _timed_learning() as fits:
            optimizer = ma.Optimizer(ma.Pool(features), budget=budget)
            while optimizer.spent < budget:
                batch = optimizer.ask(min(at_once, budget - optimizer.spent) if at_once else None)
                optimizer.tell(batch, truth[batch.arms] + 0.1 * rng.normal(size=len(batch)))
        total, learning = time.process_time() - started, sum(fits)
        note = f"{learning:.1f} s of {total:.1f} s, {len(fits)} fits, {len(optimizer.trace)} batches"
        label = f"learning's share of a run, T = {budget}, {n_arms} arms, {way}"
        rows.append(at_most(label, learning / total, 0.2, note=note))
    return rows


BENCHMARKS = [calibration, cost]
