"""The sampler for Optuna against its own, on two enumerated spaces of 10 000 points with equal trials.

It needs Optuna and, for Optuna's Gaussian-process sampler, torch; what is missing is reported in a row.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks import Row
from benchmarks.timing import cpu_seconds

Levels = tuple[int, ...]  # four numbers from 0 to 9
Sampler = Callable[[int], Any]  # of the seed

LETTERS = "abcdefghij"
PEAKS = np.array([[1.0, 7.0, 3.0, 5.0], [6.0, 2.0, 8.0, 1.0], [8.0, 8.0, 5.0, 6.0]])
HEIGHTS = np.array([1.0, 1.3, 1.6])
OFFSETS = np.array([0.3, 0.0, 0.5, 0.9, 0.2, 0.7, 0.1, 0.6, 0.4, 0.8])


def smooth(levels: Levels) -> float:
    """Three peaks of different height in four dimensions, upside down."""
    squares = ((np.array(levels) - PEAKS) ** 2).sum(axis=1)
    return float(-(HEIGHTS * np.exp(-squares / 18)).max())


def mixed(levels: Levels) -> float:
    """The same in three dimensions; the fourth parameter is a category without an order."""
    squares = ((np.array(levels[:3]) - PEAKS[:, :3]) ** 2).sum(axis=1)
    return float(-(HEIGHTS * np.exp(-squares / 12)).max() + OFFSETS[levels[3]])


def enumerated(smoke: bool) -> list[Row]:
    """The distance of the best value from the optimum."""
    if find_spec("optuna") is None:
        return [Row("Optuna", float("nan"), note="not installed")]
    trials, seeds = (12, 1) if smoke else (60, 20)
    return [
        row
        for value in (smooth, mixed)
        for name, sampler in _samplers().items()
        for row in _measured(value, name, sampler, trials, seeds)
    ]


def _measured(
    value: Callable[[Levels], float], name: str, sampler: Sampler | None, trials: int, seeds: int
) -> list[Row]:
    import optuna

    title = f"{value.__name__}, {name}"
    if sampler is None:
        return [Row(title, float("nan"), note="torch is not installed")]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    optimum = min(value(levels) for levels in itertools.product(range(10), repeat=4))
    gaps, seconds = [], []
    for seed in range(seeds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study = optuna.create_study(sampler=sampler(seed))
        seconds.append(cpu_seconds(lambda study=study: study.optimize(_objective(value), n_trials=trials)))
        gaps.append(study.best_value - optimum)
    note = f"{trials} trials, {seeds} seeds"
    return [
        Row(f"{title}: best − optimum, mean", float(np.mean(gaps)), note=note),
        Row(f"{title}: median", float(np.median(gaps))),
        Row(f"{title}: seeds that found the optimum", sum(gap < 1e-9 for gap in gaps)),
        Row(f"{title}: one study", float(np.median(seconds)), "s CPU"),
    ]


def _samplers() -> dict[str, Sampler | None]:
    from optuna.samplers import GPSampler, RandomSampler, TPESampler

    from manyarms.optuna import ManyArmsSampler

    return {
        "ManyArmsSampler": lambda seed: ManyArmsSampler(seed=seed),
        "random": lambda seed: RandomSampler(seed=seed),
        "TPE": lambda seed: TPESampler(seed=seed),
        "GP": (lambda seed: GPSampler(seed=seed)) if find_spec("torch") else None,
    }


def _objective(value: Callable[[Levels], float]) -> Callable[[Any], float]:
    def objective(trial: Any) -> float:
        x, z = trial.suggest_int("x", 0, 9), trial.suggest_int("z", 0, 9)
        y = round(trial.suggest_float("y", 0, 4.5, step=0.5) / 0.5)
        if value is mixed:
            return value((x, y, z, LETTERS.index(trial.suggest_categorical("w", list(LETTERS)))))
        return value((x, y, z, trial.suggest_int("w", 0, 9)))

    return objective


BENCHMARKS = [enumerated]
