"""ε₀ of the k-DPP chain: how far its law is from a k-DPP after s steps, on sets where both are known exactly.

S-GP-TS allows inducing points from a distribution within ε₀ of a k-DPP in total variation (§3.3). On n points
all C(n, k) subsets can be listed, which gives the k-DPP and the transition matrix of the chain of
`manyarms.sketch.kdpp.sample_chain`, and with them ε₀ after any number of steps, without sampling. Cases:
points uniform in the unit square with SE length-scales 0.1 (nearly independent), 0.3 and 1 (strongly
dependent), and four tight clusters.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import manyarms as ma
from manyarms.reproduce.curves import Curve, Grid, Panel, averaged
from manyarms.reproduce.experiment import (
    Experiment,
    ExperimentPlan,
    ExperimentResult,
    Job,
    JobOutcome,
    Settings,
    SummaryRow,
)
from manyarms.reproduce.summaries import by_case_and_method, grouped
from manyarms.sketch.kdpp import default_steps, greedy
from manyarms.support.validation import Floats

NUGGET = 1e-6  # distinct points of a smooth kernel must stay numerically independent


def kernel_matrix(settings: Settings, seed: int) -> Floats:
    """K of n random points, uniform or in four clusters."""
    rng, n = np.random.default_rng([seed, 6]), settings["n"]
    points = rng.random((n, 2))
    if settings["clustered"]:
        points = rng.random((4, 2))[np.arange(n) % 4] + 0.02 * points
    return ma.RBF(settings["lengthscale"]).matrix(points, points) + NUGGET * np.eye(n)


def subsets(n: int, k: int) -> list[tuple[int, ...]]:
    """All sets of k of n points, in lexicographic order."""
    return list(itertools.combinations(range(n), k))


def exact_law(K: Floats, k: int) -> Floats:
    """The probability det K_S / Σ det K_S' of every subset."""
    determinants = np.array([np.linalg.det(K[np.ix_(S, S)]) for S in subsets(len(K), k)])
    return np.asarray(determinants / determinants.sum())


def transition_matrix(K: Floats, k: int) -> Floats:
    """P[S, S'] of one step: each of the k(n − k) swaps is proposed equally often.

    It is accepted with probability ½ min(1, det K_S' / det K_S).
    """
    listed, law = subsets(len(K), k), exact_law(K, k)
    place, n = {S: row for row, S in enumerate(listed)}, len(K)
    P = np.zeros((len(listed), len(listed)))
    for row, S in enumerate(listed):
        for leaving, entering in itertools.product(S, set(range(n)) - set(S)):
            other = place[tuple(sorted({*S, entering} - {leaving}))]
            P[row, other] = 0.5 * min(1.0, law[other] / law[row]) / (k * (n - k))
        P[row, row] = 1.0 - P[row].sum()
    return P


def distances(K: Floats, k: int, steps: Sequence[int]) -> Floats:
    """ε₀, the total variation distance from the k-DPP after each number of steps of the greedy start."""
    law, P = exact_law(K, k), transition_matrix(K, k)
    state = np.zeros(len(law))
    state[subsets(len(K), k).index(tuple(np.sort(greedy(K, k)).tolist()))] = 1.0
    found, done = [], 0
    for until in steps:
        for _ in range(until - done):
            state = state @ P
        done = until
        found.append(0.5 * float(np.abs(state - law).sum()))
    return np.array(found)


def run_one(job: Job, data_home: Path | None) -> JobOutcome:
    """ε₀ after fractions and multiples of the default number of steps."""
    started, settings = time.process_time(), job.settings
    default = default_steps(settings["n"], settings["k"])
    steps = np.unique(np.round(default * np.array(settings["multiples"])).astype(np.int64))
    found = distances(kernel_matrix(settings, job.seed), settings["k"], steps.tolist())
    numbers = {"steps": steps.astype(np.float64), "distance": found}
    numbers["default"] = np.full(len(steps), float(default))
    return JobOutcome(numbers, {"seconds": np.array([time.process_time() - started])})


def panels(results: Sequence[ExperimentResult]) -> Grid:
    """ε₀ against the number of steps, one panel per size, one curve per set of points."""
    sizes: dict[str, list[Curve]] = {}
    defaults: dict[str, float] = {}
    for case, methods in grouped(results).items():
        (runs,) = methods.values()
        settings = runs[0].job.settings
        title = (
            f"k = {settings['k']} of n = {settings['n']}, {math.comb(settings['n'], settings['k'])} subsets"
        )
        label = case.partition("; ")[0]
        x = runs[0].numbers["steps"]
        sizes.setdefault(title, []).append(averaged(label, x, [run.numbers["distance"] for run in runs]))
        defaults[title] = float(runs[0].numbers["default"][0])
    return (tuple(_panel(title, curves, defaults[title]) for title, curves in sizes.items()),)


def _panel(title: str, curves: list[Curve], default: float) -> Panel:
    lowest, highest = 1e-5, 1.2
    mark = Curve(
        "default number of steps", np.full(2, default), np.array([lowest, highest]), kind="reference"
    )
    return Panel(
        title, "steps of the chain", "ε₀, total variation", (*curves, mark),
        log_x=True, log_y=True, y_limits=(lowest, highest),
    )  # fmt: skip


def summary(results: Sequence[ExperimentResult]) -> list[SummaryRow]:
    """ε₀ at the default number of steps, and the steps after which its mean is below 0.01."""
    return [_summary_row(case, runs) for case, _, runs in by_case_and_method(results)]


def _summary_row(case: str, runs: list[ExperimentResult]) -> SummaryRow:
    steps, default = runs[0].numbers["steps"], runs[0].numbers["default"][0]
    found = np.array([run.numbers["distance"] for run in runs])
    at_default = found[:, np.searchsorted(steps, default)]
    small = np.flatnonzero(found.mean(axis=0) < 0.01)
    return {
        "case": case,
        "sets": len(runs),
        "default steps": int(default),
        "ε₀ at the start": float(found[:, 0].mean()),
        "ε₀ at the default": float(at_default.mean()),
        "largest ε₀ at the default": float(at_default.max()),
        "steps to ε₀ < 0.01": int(steps[small[0]]) if len(small) else f"more than {int(steps[-1])}",
    }


def _plan(seeds: int, sizes: Sequence[tuple[int, int]], multiples: Sequence[float]) -> ExperimentPlan:
    kinds: dict[str, Settings] = {
        "l = 0.1": {"lengthscale": 0.1, "clustered": False},
        "l = 0.3": {"lengthscale": 0.3, "clustered": False},
        "l = 1": {"lengthscale": 1.0, "clustered": False},
        "clusters, l = 0.3": {"lengthscale": 0.3, "clustered": True},
    }
    cases = {
        f"{kind}; n = {n}, k = {k}": own | {"n": n, "k": k} for n, k in sizes for kind, own in kinds.items()
    }
    return ExperimentPlan(("chain",), seeds, {"multiples": list(multiples)}, cases)


MULTIPLES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
EXPERIMENT = Experiment(
    name="kdpp-chain",
    shows="S-GP-TS §3.3: inducing points from a chain whose law is within ε₀ of a k-DPP",
    band="mean ± one standard deviation over sets of points",
    plans={
        "smoke": _plan(1, ((6, 3),), (0.0, 0.5, 1.0)),
        "default": _plan(10, ((10, 3), (12, 6)), MULTIPLES),
        "full": _plan(20, ((10, 3), (12, 6), (14, 7)), MULTIPLES),
    },
    run_one=run_one,
    panels=panels,
    summary=summary,
)
