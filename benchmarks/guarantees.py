"""How wide the bounds with a proof are, and how often the estimates of a learned model hold."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import manyarms as ma
from benchmarks import Row, at_least, at_most
from manyarms.choice.widths import width_named

Truth = Callable[[np.ndarray], np.ndarray]
TRUTHS: dict[str, Truth] = {
    "bump": lambda x: np.exp(-((x[:, 0] - 0.5) ** 2 + (x[:, 1] + 0.3) ** 2)),
    "sin+cos": lambda x: np.sin(2 * x[:, 0]) + np.cos(2 * x[:, 1]),
    "quadratic": lambda x: -(x[:, 0] ** 2) - 0.5 * x[:, 1] ** 2 + 0.5 * x[:, 2],
    "linear": lambda x: x[:, 0] - 0.5 * x[:, 1],
}


def _in_the_rkhs(kernel: ma.Matern, features: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The values of a random function with RKHS norm 1."""
    centres = features[rng.choice(len(features), 30, replace=False)]
    weights = rng.normal(size=30)
    weights /= math.sqrt(weights @ kernel.matrix(centres, centres) @ weights)
    return np.asarray(kernel.matrix(features, centres) @ weights)


def widths(smoke: bool) -> list[Row]:
    """Widths of one BKB run with q̄ = 2, in posterior standard deviations, after 1 500 pulls."""
    rng = np.random.default_rng(0)
    features = rng.random((200 if smoke else 2000, 3))
    kernel, noise, pulls = ma.Matern(0.6), 0.1, 30 if smoke else 1500
    truth = _in_the_rkhs(kernel, features, rng)
    opt = ma.Optimizer(ma.Pool(features), ma.BKB(kernel=kernel, noise_std=noise, delta=0.05), seed=0)
    for _ in range(pulls):
        batch = opt.ask()
        opt.tell(batch, truth[batch.arms] + noise * rng.normal(size=1))
    opt.ask()
    belief = opt.state.belief
    seen, given = belief.statistics(), belief.policy.assumptions(1.0)
    found = {name: width_named(name)(seen, given) / noise for name in ("certified", "bkb", "bbkb")}
    broken = np.abs(truth - belief.state.mean) > found["certified"] * np.sqrt(belief.state.variance)
    note = "needs an oversampling of 72 log(4t/δ), but 2 is used"
    return [
        Row("width certified", found["certified"], "sd", note="proved for any sketch"),
        Row("width bkb", found["bkb"], "sd", note=note),
        Row("width bbkb", found["bbkb"], "sd", note=note),
        at_most("width certified / bkb", found["certified"] / found["bkb"], 0.5),
        at_most("arms outside the certified band", int(broken.sum()), 0, "arms"),
    ]


def _gap_of_run(truth: Truth, noise: float, seed: int, smoke: bool) -> tuple[float, float]:
    """The estimated gap and the true one after two batches of 48, in standard deviations of the truth."""
    rng = np.random.default_rng((seed, 17))
    features = rng.normal(size=(300 if smoke else 3000, 4))
    values = truth(features)
    values = values / values.std()
    opt = ma.Optimizer(ma.Pool(features), seed=seed)
    for _ in range(1 if smoke else 2):
        batch = opt.ask(24 if smoke else 48)
        opt.tell(batch, values[batch.arms] + noise * rng.normal(size=len(batch)))
    found = opt.certificate()
    return found.gap, float(values.max() - values[found.arm])


def estimates(smoke: bool) -> list[Row]:
    """How often the true gap is at most the estimated one, which should be in 95 % of runs."""
    rows, every = [], []
    for noise in (0.1,) if smoke else (0.1, 0.5, 1.0):
        for name, truth in TRUTHS.items():
            gaps = np.array([_gap_of_run(truth, noise, seed, smoke) for seed in range(1 if smoke else 20)])
            holds = gaps[:, 1] <= gaps[:, 0] + 1e-12
            every += holds.tolist()
            said, true = np.median(gaps, axis=0)
            note = f"median gap: estimated {said:.2f}, true {true:.2f}"
            rows.append(Row(f"estimate holds, {name}, noise {noise:g}", 100 * holds.mean(), "%", note=note))
    return [*rows, at_least("estimate holds, all", 100 * float(np.mean(every)), 90.0, "%", "95 % intended")]


BENCHMARKS = [widths, estimates]
