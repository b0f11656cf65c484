"""Generated tables with a plateau: thousands of nearly equal good candidates, a few better ones elsewhere.

Four flags, a method and three numbers, 68 640 rows; the value is minus the logarithm of a run time. With
one method nothing else makes a difference of more than about 0.01; it is better than most settings of the
others. Two of these have a narrow peak that is higher. The names of `TABLES` are pools of
`benchmarks.decisions`, which also knows them as the group `plateaus`. `python -m benchmarks plateaus`
counts the runs that never leave it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

import manyarms as ma
from benchmarks import Row, at_least, at_most

if TYPE_CHECKING:
    import pandas as pd

    Loaded = tuple[pd.DataFrame, np.ndarray]

METHODS = ("direct", "fused", "packed", "split", "tiled")  # nothing matters to the first
NAMES = ("aligned", "cached", "paired", "sorted", "threads", "block", "depth")
SEEDS, BUDGET, BATCH = 20, 200, 10


def _table(seed: int, tops: tuple[float, float, float, float], steep: float) -> Loaded:
    """Minus the log time at the best settings of the other methods, and how fast it falls from there."""
    import pandas as pd

    rng, levels = np.random.default_rng(seed), [(0, 1)] * 4
    rows = np.array(list(itertools.product(*levels, range(5), range(6), range(11), range(13))))
    flags, method, numbers = rows[:, :4], rows[:, 4], rows[:, 5:] / [5.0, 10.0, 12.0]
    value = flags @ (0.004 * rng.normal(size=4)) + 0.003 * rng.normal(size=len(rows))
    for k, top in enumerate(tops, start=1):
        here = method == k
        centre, weight = rng.uniform(0.1, 0.9, size=3), rng.uniform(0.6, 1.4, size=3)
        far = (weight * (numbers[here] - centre) ** 2).sum(axis=1)
        value[here] = top + flags[here] @ (0.05 * rng.normal(size=4)) - steep * far
    frame = pd.DataFrame(np.delete(rows, 4, axis=1), columns=list(NAMES))
    frame["method"] = pd.Categorical(np.array(METHODS)[method])
    return frame, value


def plateau() -> Loaded:
    """A fifth of the rows are alike; 1 % are better by up to 0.3."""
    return _table(30, (0.30, 0.22, -0.10, -0.15), 4.0)


def plateau_steep() -> Loaded:
    """The better rows are better by more, and lie on steeper peaks."""
    return _table(30, (0.9, 0.4, 0.2, 0.2), 12.0)


def plateau_redrawn() -> Loaded:
    """The first table with other peaks."""
    return _table(32, (0.30, 0.22, -0.10, -0.15), 4.0)


TABLES: dict[str, Callable[[], Loaded]] = {
    each.__name__: each for each in (plateau, plateau_steep, plateau_redrawn)
}


def tried(features: pd.DataFrame, value: np.ndarray, seed: int, budget: int) -> np.ndarray:
    """The arms that a run of the default tries in batches of ten."""
    run = ma.Optimizer(ma.Pool(features), seed=seed, budget=budget, repeats="forbid")
    arms: list[int] = []
    while len(arms) < budget:
        batch = run.ask(BATCH)
        run.tell(batch, value[batch.arms])
        arms += batch.arms.tolist()
    return np.array(arms)


def leaving(smoke: bool) -> list[Row]:
    """Runs that find nothing better than the plateau by 0.05, and the share of the top 1 % that all find."""
    rows = []
    for name, load in TABLES.items():
        features, value = load()
        if smoke:
            some = np.random.default_rng(1).choice(len(value), 500, replace=False)
            features, value = features.iloc[some], value[some]
        alike = (features["method"] == METHODS[0]).to_numpy()
        top = value >= np.sort(value)[-(len(value) // 100)]
        lost, shares = 0, []
        for seed in range(1 if smoke else SEEDS):
            arms = tried(features, value, seed, 30 if smoke else BUDGET)
            lost += int(value[arms].max() < value[alike].max() + 0.05)
            shares.append(100 * float(top[arms].sum() / top.sum()))
        error = f"± {np.std(shares) / len(shares) ** 0.5:.1f}"
        rows.append(at_most(f"runs that never leave the plateau, {name}", lost, SEEDS // 10))
        rows.append(at_least(f"share of the top 1 %, {name}", np.mean(shares), 10.0, "%", error))
    return rows


BENCHMARKS = [leaving]
