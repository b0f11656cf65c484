"""What is found per money: costs ignored, as a limit, and with choice by value per cost.

Candidates of Abalone get made-up costs with a mean of 1: lognormal ones that have nothing to do with the
values, or ones that grow with the weight, so that good candidates tend to be dear. Every run has the money
for so many trials of average cost, in batches of eight.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import manyarms as ma
from benchmarks import Row
from benchmarks.pools import abalone, generated
from manyarms.errors import BudgetSpentError, CostLimitError

BATCH = 8
SHARES = (0.25, 0.5, 1.0)  # of the money, after which the best value found is noted
Prices = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def unrelated(features: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Lognormal costs."""
    costs = rng.lognormal(0.0, 1.0, len(features))
    return np.asarray(costs / costs.mean())


def by_weight(features: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Costs that are e times as high per standard deviation of the fifth column, the weight of a shell."""
    costs = np.exp(features[:, 4].astype(float) + 0.2 * rng.standard_normal(len(features)))
    return np.asarray(costs / costs.mean())


RULES: dict[str, dict[str, object] | None] = {
    "costs ignored": None,
    "limit": {},
    "per cost, ρ = 0": {"per_cost": True, "power": 0.0},
    "per cost, ρ = 0.5": {"per_cost": True, "power": 0.5},
    "per cost, ρ = 1": {"per_cost": True},
    "at random": {},
}


def value_per_money(smoke: bool) -> list[Row]:
    """The best true value among the candidates tried, after shares of the money."""
    features, truth = generated(400) if smoke else abalone()
    money, seeds = (24.0, 1) if smoke else (80.0, 12)
    rows = []
    for prices in (unrelated, by_weight):
        for rule in RULES:
            runs = [tried(features, truth, prices, rule, money, seed) for seed in range(seeds)]
            rows += _rows(f"{prices.__name__}, {rule}", runs, truth, money)
    return rows


def _rows(
    title: str, runs: list[tuple[np.ndarray, np.ndarray]], truth: np.ndarray, money: float
) -> list[Row]:
    found = []
    for share in SHARES:
        best = [truth[arms[np.cumsum(costs) <= share * money]].max(initial=0.0) for arms, costs in runs]
        error = float(np.std(best) / np.sqrt(max(len(best) - 1, 1)))
        note = f"± {error:.3f}, {len(runs)} seeds"
        found.append(Row(f"{title}: best at {share:.0%} of the money", float(np.mean(best)), note=note))
    return [*found, Row(f"{title}: trials", float(np.mean([len(arms) for arms, _ in runs])))]


def tried(
    features: np.ndarray, truth: np.ndarray, prices: Prices, rule: str, money: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The candidates tried until the money was spent, in order, and what they cost."""
    rng = np.random.default_rng((seed, 5))
    values = prices(features, rng)
    if rule == "at random":
        order = rng.permutation(len(truth))
        return _paid(order, values, money)
    settings = RULES[rule]
    costs = None if settings is None else ma.Costs(values, budget=money, **settings)  # type: ignore[arg-type]
    run, arms = ma.Optimizer(ma.Pool(features), seed=seed, repeats="forbid", costs=costs), list[int]()
    while costs is not None or values[arms].sum() <= money:
        try:
            batch = run.ask(BATCH)
        except CostLimitError:
            batch = run.ask(at_most=BATCH)
        except BudgetSpentError:
            break
        run.tell(batch, truth[batch.arms])
        arms += batch.arms.tolist()
    return _paid(np.array(arms), values, money)


def _paid(order: np.ndarray, values: np.ndarray, money: float) -> tuple[np.ndarray, np.ndarray]:
    """Those that the money pays for, one after the other."""
    paid = order[np.cumsum(values[order]) <= money * (1 + 1e-9)]
    return paid, values[paid]


BENCHMARKS = [value_per_money]
