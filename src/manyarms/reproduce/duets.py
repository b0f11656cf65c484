"""Regret and communication of many agents (DUETS Fig. 1).

Published: N = 10, T = 50, squared exponential kernel with length-scale 0.2 for Branin and 1 otherwise, noise
of standard deviation 0.2, D = 10 (DisKernelUCB) and 20 (ApproxDisKernelUCB), T₁ = 2, p₀ = 10, the best β of
{0.2, 0.5, 1, 2, 5} for each algorithm, 5 runs. Not published, and chosen here: λ = 0.2 and 2 000 random
points as candidates (theory §10.3); λ is varied once, to the noise variance 0.04. Points travel as their d
features, as the paper counts them. The set-up of the authors' public script (`duets_script`) is a third
variant, with both forms of the Approx baseline: the algorithm of its paper, and that of the script.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import manyarms as ma
from manyarms import agents
from manyarms.agents.protocol.wire import decode
from manyarms.problems import PROBLEMS, Problem
from manyarms.reproduce import duets_script
from manyarms.reproduce.curves import Grid, Panel, averaged, mean_and_sd
from manyarms.reproduce.experiment import (
    Experiment,
    ExperimentPlan,
    ExperimentResult,
    Job,
    JobOutcome,
    Settings,
    SummaryRow,
)
from manyarms.reproduce.noise import PullNoise
from manyarms.reproduce.summaries import by_case_and_method, grouped
from manyarms.support.validation import Floats, Ints

SCALAR = "Approx, scalar"  # the ApproxDisKernelUCB of the script
METHODS = ("DUETS", "DisKernelUCB", "ApproxDisKernelUCB", "NKernelUCB", SCALAR)
PAPER: Settings = {
    "horizon": 50,
    "first_epoch": 2,
    "dis_threshold": 10.0,
    "approx_threshold": 20.0,
    "approx_oversampling": 2.0,
    "script": False,
}
SCRIPT: Settings = {
    "horizon": 100,
    "first_epoch": 5,
    "dis_threshold": 1.45,
    "approx_threshold": 0.1,
    "approx_oversampling": 4.0,
    "script": True,
}
TITLES = {"h1": "h₁", "h2": "h₂"}


class MeteredEnvironment:
    """The rewards of the agents' pulls, and a count of the real numbers sent at each step.

    The noise of an agent's n-th pull of an arm is the same for all algorithms. A message is counted at the
    latest step reached so far; every real number counts 1/N, up or down (DUETS §2).
    """

    def __init__(self, truth: Floats, noise_std: float, n_agents: int, horizon: int, seed: int) -> None:
        self.truth, self.n_agents, self.step = truth, n_agents, 0
        self.noise = [PullNoise(noise_std, seed, stream=agent) for agent in range(n_agents)]
        self.sent = np.zeros(horizon + 1)

    def evaluate(self, pulls: Any) -> Floats:
        """One reward per pull of one agent."""
        self.step = max(self.step, pulls.step + len(pulls))
        return np.asarray(self.truth[pulls.arms] + self.noise[pulls.agent](pulls.arms))

    def transmit(self, direction: str, agent: int, data: bytes) -> list[bytes]:
        """Deliver a message unchanged and count its real numbers."""
        self.sent[self.step] += decode(data).real_numbers / self.n_agents
        return [data]


def algorithm(method: str, problem: Problem, settings: Settings, width: float) -> Any:
    """One of the algorithms of this package with the paper's or the script's settings."""
    given: dict[str, Any] = {"noise_std": settings["noise_std"], "width": width, "send": "features"}
    if method == "DisKernelUCB":
        given["sync_threshold"] = settings["dis_threshold"]
    if method in ("ApproxDisKernelUCB", SCALAR):
        given["sync_threshold"] = settings["approx_threshold"]
        given["oversampling"] = settings["approx_oversampling"]
    if method == "DUETS":
        given |= {"first_epoch": settings["first_epoch"], "oversampling": 10.0}
    make = duets_script.ScalarGramUCB if method == SCALAR else getattr(agents, method)
    kernel = ma.RBF(problem.lengthscale)
    return make(kernel, settings["ridge"], settings["agents"], settings["horizon"], **given)


def candidates(problem: Problem, settings: Settings, seed: int) -> ma.Pool:
    """The candidates: random points of the domain, for the script's set-up on the surface of a ball."""
    n_arms = settings["arms"]
    return (
        ma.Pool(duets_script.on_sphere(problem, n_arms, seed))
        if settings["script"]
        else problem.pool(n_arms, seed)
    )


def one_width(method: str, problem: Problem, settings: Settings, width: float, seed: int) -> list[Floats]:
    """Steps, cumulative regret summed over the agents, cumulative communication, and the width."""
    horizon = settings["horizon"]
    pool = candidates(problem, settings, seed)
    truth = problem(pool.features)
    run = _script_form if settings["script"] and method == "DUETS" else _messages
    arms, sent = run(method, problem, settings, width, seed, pool, truth)
    gaps = (truth.max() - truth[arms]).sum(axis=0)
    regret = np.concatenate([[0.0], np.cumsum(gaps)])
    return [np.arange(horizon + 1.0), regret, np.cumsum(sent), np.full(horizon + 1, width)]


def _messages(
    method: str, problem: Problem, settings: Settings, width: float, seed: int, pool: ma.Pool, truth: Floats
) -> tuple[Ints, Floats]:
    """The arms of every agent at every step, and what was sent, of an algorithm that exchanges messages."""
    environment = MeteredEnvironment(
        truth, settings["noise_std"], settings["agents"], settings["horizon"], seed
    )
    configured = algorithm(method, problem, settings, width)
    result = agents.run(configured, pool, environment.evaluate, seed=seed, link=environment.transmit)
    return np.array(result.arms), environment.sent


def _script_form(
    method: str, problem: Problem, settings: Settings, width: float, seed: int, pool: ma.Pool, truth: Floats
) -> tuple[Ints, Floats]:
    """The same of DUETS as the script has it."""
    noise = [PullNoise(settings["noise_std"], seed, stream=agent) for agent in range(settings["agents"])]

    def evaluate(step: Ints) -> Floats:
        errors = [noise[agent]([arm])[0] for agent, arm in enumerate(step.tolist())]
        return np.asarray(truth[step] + errors)

    kernel = ma.RBF(problem.lengthscale)
    arms, sent = duets_script.run(pool, kernel, settings, width, evaluate, seed)
    return arms.T, sent


def run_one(job: Job, data_home: Path | None) -> JobOutcome:
    """Run all widths of the grid; their rows follow each other in the columns."""
    started = time.process_time()
    problem = PROBLEMS[job.settings["problem"]]()
    runs = [one_width(job.method, problem, job.settings, width, job.seed) for width in job.settings["widths"]]
    columns = (np.concatenate(pieces) for pieces in zip(*runs, strict=True))
    numbers = dict(zip(("t", "regret", "communication", "width"), columns, strict=True))
    return JobOutcome(numbers, {"seconds": np.array([time.process_time() - started])})


def at_width(run: ExperimentResult, width: float) -> dict[str, Floats]:
    """The rows of a run that belong to one width β."""
    chosen = run.numbers["width"] == width
    return {name: column[chosen] for name, column in run.numbers.items()}


def best_width(runs: Sequence[ExperimentResult]) -> float:
    """The β with the lowest mean regret at T over the seeds, as in the paper's grid search."""
    widths = np.unique(runs[0].numbers["width"]).tolist()
    return float(min(widths, key=lambda width: np.mean([at_width(run, width)["regret"][-1] for run in runs])))


def panels(results: Sequence[ExperimentResult]) -> Grid:
    """Regret above communication, one column per function: the main λ, then the set-up of the script."""
    shown = [run for run in results if not run.job.settings["varied"]]
    kinds = [[run for run in shown if run.job.settings["script"] == script] for script in (False, True)]
    return tuple(
        tuple(_panel(case, methods, column, label) for case, methods in grouped(kind).items())
        for kind in kinds
        if kind
        for column, label in (("regret", "cumulative regret"), ("communication", "reals sent"))
    )


def _panel(case: str, methods: dict[str, list[ExperimentResult]], column: str, label: str) -> Panel:
    curves = []
    for method, runs in methods.items():
        if column == "communication" and method == "NKernelUCB":
            continue  # this algorithm sends nothing
        chosen = [at_width(run, best_width(runs)) for run in runs]
        curves.append(averaged(method, chosen[0]["t"], [part[column] for part in chosen]))
    return Panel(case, "t", label, tuple(curves))


def summary(results: Sequence[ExperimentResult]) -> list[SummaryRow]:
    """The final regret and communication of each algorithm at its best β."""
    return [_summary_row(case, method, runs) for case, method, runs in by_case_and_method(results)]


def _summary_row(case: str, method: str, runs: list[ExperimentResult]) -> SummaryRow:
    width = best_width(runs)
    ends = [at_width(run, width) for run in runs]
    regret, sd = mean_and_sd([end["regret"][-1] for end in ends])
    cost, cost_sd = mean_and_sd([end["communication"][-1] for end in ends])
    return {
        "case": case,
        "method": method,
        "runs": len(runs),
        "best β": width,
        "regret": float(regret),
        "regret sd": float(sd),
        "reals sent": float(cost),
        "reals sd": float(cost_sd),
    }


def _plan(
    problems: Sequence[str], runs: int, arms: int, widths: Sequence[float], horizon: int | None = None
) -> ExperimentPlan:
    """`horizon` replaces both T in smoke runs."""
    settings: Settings = {"agents": 10, "arms": arms, "noise_std": 0.2, "widths": list(widths), "ridge": 0.2}
    set_ups: dict[str, Settings] = {
        "λ = 0.2": PAPER | {"varied": False},
        "λ = 0.04": PAPER | {"ridge": 0.04, "varied": True},
        "script": SCRIPT | {"varied": False},
    }
    shorter: Settings = {} if horizon is None else {"horizon": horizon}
    cases = {
        f"{TITLES.get(name, name)}, {label}": {"problem": name} | own | shorter
        for label, own in set_ups.items()
        for name in problems
    }
    left_out = tuple((case, SCALAR) for case, own in cases.items() if not own["script"])
    return ExperimentPlan(METHODS, runs, settings, cases, left_out=left_out)


GRID = (0.2, 0.5, 1.0, 2.0, 5.0)
EXPERIMENT = Experiment(
    name="duets-figure1",
    shows="DUETS Fig. 1: DUETS has the lowest regret and the lowest communication on all four functions",
    band="mean ± one standard deviation over runs",
    plans={
        "smoke": _plan(("h1", "Branin"), 2, 200, (0.5, 1.0), horizon=8),
        "default": _plan(tuple(PROBLEMS), 5, 2_000, GRID),
        "full": _plan(tuple(PROBLEMS), 20, 2_000, GRID),
    },
    run_one=run_one,
    panels=panels,
    summary=summary,
)
