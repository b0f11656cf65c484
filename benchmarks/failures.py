"""How many of the best candidates are found when trials fail: by learning from failures, and by dropping."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import manyarms as ma
from benchmarks import Row, at_least

SEEDS, ARMS, PULLS, BATCH = 20, 2000, 84, 12
MODES: dict[str, dict[str, Any]] = {"learn": {}, "drop": {"failures": "drop"}}
KINDS = (
    "none",
    "random 10 %",
    "random 30 %",
    "a region",
    "half of a column",
    "a category",
    "a third of the arms",
)


@dataclass(frozen=True)
class Table:
    """Candidates with their values, and the probability that a trial of each succeeds."""

    pool: ma.Pool
    values: np.ndarray[Any, np.dtype[np.float64]]
    success: np.ndarray[Any, np.dtype[np.float64]]

    @property
    def best(self) -> set[int]:
        """The best percent of the candidates that can succeed."""
        possible = np.where(self.success > 0.1, self.values, -np.inf)
        return {*np.argsort(-possible)[: len(possible) // 100].tolist()}


def table(seed: int, kind: str, n_arms: int) -> Table:
    """A random smooth function of four numbers.

    A region: every trial fails in a box around the best candidate that spans half of one column and 60 % of
    another. Half of a column: 95 % fail where the first column is above its middle. A category: every trial
    of one of five labels fails, the one with the highest values. A third of the arms: 30 % of the arms, drawn
    at random, always fail.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_arms, 4))
    W, phase = 3 / np.sqrt(2) * rng.normal(size=(60, 4)), rng.uniform(0, 2 * np.pi, 60)
    values = np.cos(X @ W.T + phase) @ rng.normal(size=60) / np.sqrt(30)
    pool, success = ma.Pool(X), np.ones(n_arms)
    if kind.startswith("random"):
        success[:] = 1 - int(kind.split()[1]) / 100
    elif kind == "a region":
        away = np.abs(X - X[np.argmax(values)])
        success[(away[:, 0] < 0.25) & (away[:, 1] < 0.3)] = 0.0
    elif kind == "half of a column":
        success[X[:, 0] > 0.5] = 0.05
    elif kind == "a category":
        labels = rng.integers(5, size=n_arms)
        values = values + np.array([0.0, 0.15, 0.3, -0.15, 0.5])[labels]
        pool = ma.Pool([[*row, "abcde"[label]] for row, label in zip(X.tolist(), labels, strict=True)])
        success[labels == 4] = 0.0
    elif kind == "a third of the arms":
        success[rng.random(n_arms) < 0.3] = 0.0
    return Table(pool, values, success)


def found(
    seed: int, kind: str, mode: str, n_arms: int, pulls: int, successes: bool = False
) -> tuple[float, int]:
    """The share of the best percent that was measured, and the number of failed trials.

    With `successes`, failed trials do not count: the run has as many successful ones as `pulls`.
    """
    here, rng = table(seed, kind, n_arms), np.random.default_rng(1000 + seed)
    opt = ma.Optimizer(here.pool, seed=seed, **MODES[mode])
    measured: set[int] = set()
    failed = 0
    while (len(measured) if successes else opt.spent) < pulls:
        batch = opt.ask(BATCH)
        lost = rng.random(BATCH) >= here.success[batch.arms]
        opt.tell(batch, here.values[batch.arms] + 0.1 * rng.normal(size=BATCH), failed=lost.tolist())
        measured |= {*batch.arms[~lost].tolist()}
        failed += int(lost.sum())
    best = here.best
    return len(best & measured) / len(best), failed


def top_found(smoke: bool) -> list[Row]:
    """The share of the best percent of 2000 candidates that is measured with 84 trials, over 20 seeds."""
    seeds, n_arms, pulls = (2, 200, 36) if smoke else (SEEDS, ARMS, PULLS)
    rows = []
    for kind in KINDS:
        shares: dict[str, np.ndarray[Any, Any]] = {}
        for mode in MODES:
            runs = np.array([found(seed, kind, mode, n_arms, pulls) for seed in range(seeds)])
            shares[mode] = 100 * runs[:, 0]
            note = f"{runs[:, 1].mean():.1f} of {pulls} trials failed"
            print(kind, mode, shares[mode].mean(), note, file=sys.stderr, flush=True)
            rows.append(Row(f"failures {kind}, {mode}", float(shares[mode].mean()), "%", note=note))
        more = shares["learn"] - shares["drop"]
        error = float(more.std(ddof=1) / np.sqrt(seeds))
        note = f"standard error {error:.1f}"
        rows.append(at_least(f"failures {kind}, learn − drop", float(more.mean()), -2.0, "%", note=note))
    return rows


def equal_successes(smoke: bool) -> list[Row]:
    """The same with 30 % random failures, and without any, at equal numbers of candidates measured."""
    seeds, n_arms, pulls = (2, 200, 24) if smoke else (SEEDS, ARMS, 60)
    rows = []
    for kind in ("none", "random 30 %"):
        runs = [found(seed, kind, "learn", n_arms, pulls, True)[0] for seed in range(seeds)]
        error = 100 * float(np.std(runs, ddof=1) / np.sqrt(seeds))
        print(kind, np.mean(runs), file=sys.stderr, flush=True)
        rows.append(
            Row(
                f"failures {kind}, {pulls} measured",
                100 * float(np.mean(runs)),
                "%",
                note=f"standard error {error:.1f}",
            )
        )
    return rows


BENCHMARKS = [top_found, equal_successes]
