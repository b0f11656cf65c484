"""Tables of whole-number settings with noisy results: noise must not be taken for short length-scales.

With length-scales below the distance of a column's values, results of neighbours say nothing about each
other, as if they were noise. Every table returns the settings of all candidates and eight measurements of
each, which scatter about the true value and have it as their mean, so that `benchmarks.decisions` knows the
truth. The names of `TABLES` are pools there, also known as the group `spacing`. `gpu_noisy` reads the cache
of a GPU kernel from MANYARMS_DATA. `python -m benchmarks spacing` counts runs that take noise for signal.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

import manyarms as ma
from benchmarks import Row, at_least, at_most
from benchmarks.encodings import gpu_numbers
from manyarms.errors import MissingDataError
from manyarms.learning import LearnedModel

Loaded = tuple[np.ndarray, np.ndarray]

MEASUREMENTS = 8
SEEDS, BUDGET, BATCH = 20, 200, 10
LATE = 70  # results from which on the noise should be known within a factor of two


def _measured(value: np.ndarray, noise: float, seed: int) -> np.ndarray:
    """Measurements of each value, with noise of so many standard deviations of the values."""
    errors = np.random.default_rng(seed).normal(size=(len(value), MEASUREMENTS))
    errors -= errors.mean(axis=1, keepdims=True)
    errors *= (MEASUREMENTS / (MEASUREMENTS - 1)) ** 0.5
    return np.asarray(value[:, None] + noise * value.std() * errors)


def settings_grid() -> Loaded:
    """All 20 160 settings of six parameters with 3 to 8 levels: a bent ridge."""
    levels = (3, 4, 5, 6, 7, 8)
    grid = np.array(list(itertools.product(*map(range, levels))))
    a, b, c, d, e, f = (grid / (np.array(levels) - 1.0)).T
    value = -4.0 * (f - 0.3 - 0.4 * e) ** 2 - 2.0 * (d - 0.6) ** 2 - 1.5 * (c - a) ** 2 + 0.5 * b * e
    return grid, _measured(value, 1.4, 31)


def recipes() -> Loaded:
    """8 000 recipes of five whole-number doses from 0 to 30: two hills."""
    doses = np.random.default_rng(32).integers(0, 31, size=(8000, 5))
    x = doses / 30.0
    first = np.exp(-6.0 * ((x[:, :3] - [0.2, 0.7, 0.5]) ** 2).sum(axis=1))
    second = 0.7 * np.exp(-6.0 * ((x[:, :3] - [0.8, 0.3, 0.3]) ** 2).sum(axis=1))
    return doses, _measured(first + second + 0.15 * x[:, 3], 2.0, 33)


def launch() -> Loaded:
    """9 216 launch settings, powers of two and counts, with interactions: minus the log of a time."""
    levels = (16, 32, 64, 128, 256, 512), (1, 2, 4, 8), (1, 2, 3, 4, 5, 6, 7, 8), (1, 2, 4, 8, 16, 32), (
        0, 1, 2, 3), (1, 2)  # fmt: skip
    grid = np.array(list(itertools.product(*levels)))
    x, y, tile, unroll, stage, half = np.log2(grid + (grid == 0)).T
    value = -0.2 * (x + y - 7.5) ** 2 - 0.15 * (tile + 0.5 * unroll - 3.0 + 0.4 * y) ** 2
    value += 0.3 * stage - 0.1 * stage * unroll + 0.2 * half * tile
    return grid, _measured(value, 1.0, 34)


def gpu_noisy() -> Loaded:
    """The settings of a real GPU kernel, with more noise than its times have."""
    grid, value = gpu_numbers()
    return np.asarray(grid), _measured(value, 1.4, 35)


TABLES: dict[str, Callable[[], Loaded]] = {
    each.__name__: each for each in (settings_grid, launch, gpu_noisy, recipes)
}
UNSOLVED = ("recipes",)  # neighbours are rarely measured: the spacing decides nothing


def noise_std(model: LearnedModel) -> float:
    """The learned noise in the units of the rewards, near the centre of the model's scale."""
    low, high = model.transform.inverse(np.array([-0.5, 0.5]))
    return float(model.noise_std * (high - low))


def run(table: Loaded, seed: int, budget: int) -> tuple[np.ndarray, list[tuple[int, float]]]:
    """The arms that a run of the default tries, and the noise learned before each batch."""
    settings, results = table
    rng = np.random.default_rng([seed, 7])
    optimizer = ma.Optimizer(ma.Pool(settings), seed=seed, budget=budget, repeats="forbid")
    arms, noises = list[int](), list[tuple[int, float]]()
    while len(arms) < budget:
        batch = optimizer.ask(BATCH)
        if optimizer.model is not None:
            noises.append((len(arms), noise_std(optimizer.model)))
        drawn = rng.integers(MEASUREMENTS, size=len(batch.arms))
        optimizer.tell(batch, results[batch.arms, drawn])
        arms += batch.arms.tolist()
    return np.array(arms), noises


def taking_noise_for_signal(smoke: bool) -> list[Row]:
    """Runs that learn less than half of the noise from 70 results or more, and the share of the top 1 %."""
    rows = []
    for name, load in TABLES.items():
        try:
            table = load()
        except (MissingDataError, FileNotFoundError) as missing:
            rows.append(Row(f"noise, {name}", float("nan"), note=f"not run: {missing}"))
            continue
        if smoke:
            some = np.random.default_rng(1).choice(len(table[0]), 500, replace=False)
            table = table[0][some], table[1][some]
        rows += _rows(name, table, 1 if smoke else SEEDS, 30 if smoke else BUDGET)
    return rows


def _rows(name: str, table: Loaded, seeds: int, budget: int) -> list[Row]:
    truth = table[1].mean(axis=1)
    noise = float(table[1].var(axis=1).mean() ** 0.5)
    top = truth >= np.sort(truth)[-(len(truth) // 100)]
    deceived, shares = 0, []
    for seed in range(seeds):
        arms, noises = run(table, seed, budget)
        deceived += any(learned < 0.5 * noise for n, learned in noises if n >= LATE)
        shares.append(100 * float(top[arms].sum() / top.sum()))
    error = f"± {np.std(shares) / len(shares) ** 0.5:.1f}"
    called, share = f"runs that take noise for signal, {name}", f"share of the top 1 %, {name}"
    if name in UNSOLVED:
        return [Row(called, deceived), Row(share, float(np.mean(shares)), "%", note=error)]
    return [at_most(called, deceived, SEEDS // 10), at_least(share, float(np.mean(shares)), 5.0, "%", error)]


BENCHMARKS = [taking_noise_for_signal]
