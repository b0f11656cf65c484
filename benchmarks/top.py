"""Whether the intervals of the default are right where users act: `python -m benchmarks top`.

After two batches of 96 on 3 000 arms, 90 % intervals for the expected reward are compared with the truth over
all arms, over the twenty arms with the highest predictions, and for the arm that `best()` recommends. On
tables the truth of an arm is the one value in its row, which the model takes for a noisy measurement, so
there the prediction interval of a new measurement is compared, on arms not tried.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import manyarms as ma
from benchmarks import Row, measured
from manyarms.errors import MissingDataError

N_ARMS, BATCH, TOP = 3000, 96, 20
NOISES = (0.1, 0.5, 2.0)  # times the standard deviation of the function
FUNCTIONS = {
    "bump": lambda X: np.exp(-((X - 0.3) ** 2).sum(axis=1) / (2 * 0.2**2)),
    "sin + cos": lambda X: np.sin(6 * X[:, 0]) + np.cos(6 * X[:, 1]),
    "quadratic": lambda X: -((X - 0.6) ** 2).sum(axis=1),
    "linear": lambda X: X @ np.array([1.0, 0.5, -0.7]),
}
BAR = (0.85, 0.96)


@dataclass(frozen=True)
class Outcome:
    """Shares of intervals that hold the truth, and the error of `best()` in standard deviations."""

    everywhere: float
    top: float
    best: float
    z: float


def on_function(name: str, noise: float, seed: int) -> Outcome:
    """One run on a function."""
    rng = np.random.default_rng([seed, 11])
    X = rng.random((N_ARMS, 3))
    truth = FUNCTIONS[name](X)
    truth = (truth - truth.mean()) / truth.std()
    opt = ma.Optimizer(ma.Pool(X), seed=seed)
    for _ in range(2):
        batch = opt.ask(BATCH)
        opt.tell(batch, truth[batch.arms] + noise * rng.normal(size=BATCH))
    mean, std = opt.predict()
    inside = np.abs(truth - mean) <= 1.6448536 * std
    best = opt.best()
    covered = best.lower <= truth[best.arm] <= best.upper
    z = (truth[best.arm] - best.mean) / best.std
    return Outcome(
        float(inside.mean()), float(inside[np.argsort(-mean)[:TOP]].mean()), float(covered), float(z)
    )


def on_table(features: np.ndarray, results: np.ndarray, seed: int) -> Outcome:
    """One run on a table, judged by the prediction interval at arms not tried and at the best arm."""
    rng = np.random.default_rng([seed, 12])
    rows = rng.choice(len(features), min(len(features), N_ARMS), replace=False)
    truth = results[rows] if results.ndim == 1 else results[rows, 0]
    opt = ma.Optimizer(ma.Pool(features[rows]), seed=seed)
    for _ in range(2):
        batch = opt.ask(BATCH)
        opt.tell(batch, truth[batch.arms])
    low, high = opt.interval(np.arange(len(rows)))
    inside = (low <= truth) & (truth <= high)
    mean, _ = opt.predict()
    untried = np.setdiff1d(np.arange(len(rows)), opt.history.arms)
    top = untried[np.argsort(-mean[untried])[:TOP]]
    best = opt.best().arm
    z = (truth[best] - mean[best]) / ((high[best] - low[best]) / 2 / 1.6448536)
    return Outcome(float(inside[untried].mean()), float(inside[top].mean()), float(inside[best]), float(z))


def _rows(label: str, outcomes: list[Outcome]) -> list[Row]:
    everywhere, top, best = (
        float(np.mean([getattr(outcome, part) for outcome in outcomes]))
        for part in ("everywhere", "top", "best")
    )
    rms = float(np.sqrt(np.mean([outcome.z**2 for outcome in outcomes])))
    bar = f"{BAR[0]}–{BAR[1]}"
    parts = (("all arms", everywhere), (f"the top {TOP}", top), ("best()", best))
    rows = [Row(f"{label}: cover of {part}", x, "", bar, BAR[0] <= x <= BAR[1]) for part, x in parts]
    note = f"{len(outcomes)} runs"
    return [
        *rows,
        Row(f"{label}: rms error of best() in standard deviations", rms, "", "< 1.3", rms < 1.3, note),
    ]


def functions(smoke: bool) -> list[Row]:
    """Four functions with three levels of noise; the bar is for all runs together."""
    seeds = range(1 if smoke else 20)
    found = {
        (name, noise): [on_function(name, noise, seed) for seed in seeds]
        for name in FUNCTIONS
        for noise in ((0.5,) if smoke else NOISES)
    }
    rows = _rows("functions", [outcome for outcomes in found.values() for outcome in outcomes])
    for (name, noise), outcomes in found.items():
        top = float(np.mean([outcome.top for outcome in outcomes]))
        best = float(np.mean([outcome.best for outcome in outcomes]))
        everywhere = float(np.mean([outcome.everywhere for outcome in outcomes]))
        rows.append(
            Row(f"{name}, noise {noise}: top {TOP}", top, note=f"best {best:.2f}, all {everywhere:.2f}")
        )
    return rows


def tables(smoke: bool) -> list[Row]:
    """Abalone, California housing and SGEMM."""
    rows = []
    for name in ("generated",) if smoke else ("abalone", "housing", "sgemm"):
        try:
            features, results = measured.generated(500) if smoke else getattr(measured, name)()
        except MissingDataError as problem:
            rows.append(Row(f"coverage on {name}", float("nan"), note=f"not run: {problem}"))
            continue
        rows += _rows(name, [on_table(features, results, seed) for seed in range(1 if smoke else 20)])
    return rows


BENCHMARKS = [functions, tables]
