"""What is gained by learning that the noise differs between candidates, where every trial is repeated."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import manyarms as ma
from benchmarks import Row, at_least
from manyarms.learning import prepare

SEEDS, ARMS, TRIED, BATCH = 20, 2000, 60, 12
CHECKED = 300  # candidates that were not tried, in each half, of which a further result is predicted
LARGEST = 0.7  # standard deviation of the noise where it is largest; that of the values is about 1
KINDS: dict[str, float] = {
    "constant": 1.0,
    "grows 5 times": 5.0,
    "grows 10 times": 10.0,
    "falls 7 times": 7.0,
    "along a column, 7 times": 7.0,
    "a fifth of the value": 0.2,
}
MODES = {"before": True, "law": False}  # whether the noise is assumed to be constant

Numbers = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Table:
    """Candidates with their values, and the standard deviation of the noise of each."""

    features: Numbers
    values: Numbers
    noise: Numbers

    @property
    def best(self) -> set[int]:
        """The best percent."""
        return {*np.argsort(-self.values)[: len(self.values) // 100].tolist()}


def table(seed: int, kind: str, n_arms: int) -> Table:
    """A random smooth function of four numbers; the logarithm of the noise is linear between its ends.

    It depends on the value, from the 5 % to the 95 % quantile and a tenth beyond, or on the first column. In
    the last kind the values are exponentials of such a function.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_arms, 4))
    W, phase = 3 / np.sqrt(2) * rng.normal(size=(60, 4)), rng.uniform(0, 2 * np.pi, 60)
    values = np.cos(X @ W.T + phase) @ rng.normal(size=60) / np.sqrt(30)
    if kind.endswith("of the value"):
        values = np.exp(1.5 * values)
        return Table(X, values, KINDS[kind] * values)
    low, high = np.quantile(values, [0.05, 0.95])
    place = X[:, 0] if kind.startswith("along") else np.clip((values - low) / (high - low), -0.1, 1.1)
    exponent = -place if kind.startswith("falls") else place - 1.0
    noise = LARGEST * KINDS[kind] ** exponent if KINDS[kind] > 1 else np.full(n_arms, LARGEST / 2)
    return Table(X, values, noise)


@dataclass(frozen=True)
class Outcome:
    """One run: shares in percent, the regret in standard deviations of the values, whether a law was used.

    `score` is the mean interval score (Gneiting and Raftery 2007) of the intervals: their width, and 20 times
    the distance to those results that are outside.
    """

    found: float
    regret: float
    quiet: float
    noisy: float
    score: float
    law: bool


def run(seed: int, kind: str, mode: str, repeats: int, n_arms: int = ARMS, tried: int = TRIED) -> Outcome:
    """Batches of twelve, of which every candidate is measured `repeats` times."""
    here, rng = table(seed, kind, n_arms), np.random.default_rng(1000 + seed)
    prepared = replace(prepare(ma.Pool(here.features)), constant_noise=MODES[mode])
    opt = ma.Optimizer(prepared.pool, seed=seed, prepared=prepared)
    while opt.spent < tried:
        batch = opt.ask(BATCH)
        for turn in range(repeats):
            results = here.values[batch.arms] + here.noise[batch.arms] * rng.normal(size=BATCH)
            opt.tell(**({"arms": batch.arms} if turn else {"tickets": batch}), rewards=results)
    measured = {*opt.history.arms.tolist()}
    regret = (here.values.max() - here.values[opt.best().arm]) / here.values.std()
    return Outcome(
        100 * len(here.best & measured) / len(here.best), float(regret), *_covered(opt, here, measured, rng),
        opt.model is not None and opt.model.noise_law is not None,
    )  # fmt: skip


def _covered(
    opt: ma.Optimizer, here: Table, measured: set[int], rng: np.random.Generator
) -> tuple[float, float, float]:
    """The share of further results inside 90 % intervals, in the quiet and the noisy half; the score."""
    order = np.argsort(here.noise, kind="stable")
    shares, scores = [], []
    for half in np.array_split(order, 2):
        left = np.array([arm for arm in half.tolist() if arm not in measured])
        arms = rng.choice(left, min(CHECKED, len(left)), replace=False)
        results = here.values[arms] + here.noise[arms] * rng.normal(size=len(arms))
        lower, upper = opt.interval(arms)
        shares.append(100 * float(((lower <= results) & (results <= upper)).mean()))
        outside = np.maximum(lower - results, 0.0) + np.maximum(results - upper, 0.0)
        scores.append(float((upper - lower + 20.0 * outside).mean()))
    return shares[0], shares[1], float(np.mean(scores))


def repeated_trials(smoke: bool) -> list[Row]:
    """Share of the best percent found, regret, and cover of 90 % intervals, with two and three repeats."""
    seeds, n_arms, tried = (2, 200, 24) if smoke else (SEEDS, ARMS, TRIED)
    rows = []
    for repeats in (2, 3):
        for kind in KINDS:
            outcomes = {
                mode: [run(seed, kind, mode, repeats, n_arms, tried) for seed in range(seeds)]
                for mode in MODES
            }
            rows += _rows(f"{kind}, {repeats} results each", outcomes)
            print(*rows[-3:], sep="\n", file=sys.stderr, flush=True)
    return rows


def _rows(name: str, outcomes: dict[str, list[Outcome]]) -> list[Row]:
    rows = []
    for mode, runs in outcomes.items():
        means = {key: np.mean([getattr(each, key) for each in runs]) for key in vars(runs[0])}
        note = (
            f"regret {means['regret']:.3f}; cover quiet {means['quiet']:.0f} %, "
            f"noisy {means['noisy']:.0f} %; interval score {means['score']:.2f}; "
            f"law used in {100 * means['law']:.0f} %"
        )
        rows.append(Row(f"noise {name}, {mode}", float(means["found"]), "%", note=note))
    before, law = (
        {key: np.array([getattr(each, key) for each in outcomes[mode]]) for key in ("found", "regret")}
        for mode in MODES
    )
    more, less = law["found"] - before["found"], before["regret"] - law["regret"]
    errors = [float(each.std(ddof=1) / np.sqrt(len(each))) for each in (more, less)]
    note = f"standard error {errors[0]:.1f}; regret lower by {less.mean():.3f} ± {errors[1]:.3f}"
    return [*rows, at_least(f"noise {name}, law − before", float(more.mean()), -3.0, "%", note=note)]


BENCHMARKS = [repeated_trials]
