"""How early the best candidates are found with old results that are related, unrelated, or not there."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import manyarms as ma
from benchmarks import Row, at_least

SEEDS, PULLS, BATCH = 20, 36, 12
EARLY = 12  # pulls
KINDS = ("none", "shifted", "unrelated")


def smooth(rng: np.random.Generator) -> Any:
    """A random smooth function of four numbers with unit variance."""
    W, phase, a = 3 * rng.normal(size=(40, 4)), rng.uniform(0, 2 * np.pi, 40), rng.normal(size=40)
    return lambda X: np.cos(X @ W.T + phase) @ a / np.sqrt(20)


def found(seed: int, kind: str, n_arms: int, pulls: int) -> list[int]:
    """How many of the best percent have been tried, after every batch.

    Shifted: 100 old results elsewhere, ten higher, three times as large, plus a deviation of their own of a
    fifth of that size and noise. Unrelated: the same of another function.
    """
    rng = np.random.default_rng(seed)
    X, Z, f, other = rng.uniform(size=(n_arms, 4)), rng.uniform(size=(100, 4)), smooth(rng), smooth(rng)
    values = f(X)
    best = {*np.argsort(-values)[: n_arms // 100].tolist()}
    noise = 0.3 * rng.normal(size=100)
    old = {"shifted": 10 + 3 * f(Z) + 0.6 * other(Z) + noise, "unrelated": 10 + 3 * other(Z) + noise}
    prior = ma.PriorResults(Z, old[kind]) if kind in old else ()
    opt = ma.Optimizer(ma.Pool(X), seed=seed, prior=prior)
    tried: set[int] = set()
    counts = []
    while len(opt.trace) * BATCH < pulls:
        batch = opt.ask(BATCH)
        opt.tell(batch, values[batch.arms] + 0.1 * rng.normal(size=BATCH))
        tried |= {*batch.arms.tolist()}
        counts.append(len(best & tried))
    return counts


def top_found(smoke: bool) -> list[Row]:
    """The best percent of 1000 candidates found after 12 and after 36 pulls, over 20 seeds."""
    seeds, n_arms, pulls = (1, 100, 24) if smoke else (SEEDS, 1000, PULLS)
    counts: dict[str, list[list[int]]] = {kind: [] for kind in KINDS}
    for seed in range(seeds):
        for kind in KINDS:
            counts[kind].append(found(seed, kind, n_arms, pulls))
            print(seed, kind, counts[kind][-1], file=sys.stderr, flush=True)
    rows = []
    for when in (min(EARLY, pulls), pulls):
        at = {kind: np.array([each[when // BATCH - 1] for each in counts[kind]]) for kind in KINDS}
        rows += [
            Row(f"old results {kind}: found after {when} pulls", float(at[kind].mean()), "of 10")
            for kind in KINDS
        ]
        for kind, bar in (("shifted", 0.5), ("unrelated", -1.0)):
            more = at[kind] - at["none"]
            error = float(more.std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else 0.0
            name = f"{kind} − none after {when} pulls"
            rows.append(at_least(name, float(more.mean()), bar, note=f"standard error {error:.2f}"))
    return rows


BENCHMARKS = [top_found]
