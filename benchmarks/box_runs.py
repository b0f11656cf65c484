"""Runs on boxes by manyarms, BoTorch and Optuna for the record, in pieces that can be made at any time.

    python -m benchmarks.box_runs manyarms BoTorch Optuna-GP --seeds 10 --minutes 8

makes the runs that the record (`benchmarks.box_record`) does not have yet, the first seed of every function
first, and stops before a run that is expected to end after the time given. After a change of the code of
boxes, `--again` repeats those that were made before it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

import manyarms as ma
from benchmarks.box_record import RECORD, Run, add, runs
from manyarms.problems.on_boxes import BOX_PROBLEMS, BoxProblem
from manyarms.reproduce.provenance import git

EVALUATIONS = 200


def manyarms_values(problem: BoxProblem, evaluations: int, seed: int) -> np.ndarray:
    """The default of `minimize` on a box."""
    box = ma.Box(problem.lower, problem.upper)
    return ma.minimize(lambda arm: problem(arm.features)[0], box, evaluations, seed=seed).rewards


def botorch_values(problem: BoxProblem, evaluations: int, seed: int) -> np.ndarray:
    """SingleTaskGP with its default priors, log expected improvement, 10 restarts, as in its tutorial."""
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    d, low, side = len(problem.lower), np.array(problem.lower), np.subtract(problem.upper, problem.lower)
    design = min(2 * (d + 1), evaluations - 1)
    X = torch.quasirandom.SobolEngine(d, scramble=True, seed=seed).draw(design, dtype=torch.double)
    bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()

    def evaluate(places: torch.Tensor) -> torch.Tensor:
        return torch.tensor(-problem(low + side * places.numpy()))[:, None]

    Y = evaluate(X)
    while len(X) < evaluations:
        model = SingleTaskGP(X, Y, outcome_transform=Standardize(1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        rule = LogExpectedImprovement(model, Y.max())
        new, _ = optimize_acqf(rule, bounds, q=1, num_restarts=10, raw_samples=512)
        X, Y = torch.cat([X, new]), torch.cat([Y, evaluate(new)])
    return -Y[:, 0].numpy()


def optuna_values(problem: BoxProblem, evaluations: int, seed: int) -> np.ndarray:
    """Optuna's GPSampler, told that the function has no noise."""
    import optuna
    import torch

    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.GPSampler(seed=seed, deterministic_objective=True)
    study, values = optuna.create_study(sampler=sampler), []

    def objective(trial: optuna.Trial) -> float:
        ends = enumerate(zip(problem.lower, problem.upper, strict=True))
        point = [trial.suggest_float(f"x{axis}", low, high) for axis, (low, high) in ends]
        values.append(float(problem(point)[0]))
        return values[-1]

    study.optimize(objective, n_trials=evaluations)
    return np.array(values)


METHODS: dict[str, Callable[[BoxProblem, int, int], np.ndarray]] = {
    "manyarms": manyarms_values,
    "BoTorch": botorch_values,
    "Optuna-GP": optuna_values,
}


VERSIONS_OF = {"BoTorch": ("botorch", "torch"), "Optuna-GP": ("optuna", "torch")}
# The code that decides the runs of manyarms; the commit that changed it last is recorded.
DECIDES = ("src/manyarms/continuous", "src/manyarms/learning")


@cache
def versions(library: str) -> str:
    """What makes the runs of this library: versions; for manyarms the last commit to the code of boxes."""
    if library != "manyarms":
        return ", ".join(f"{name} {version(name)}" for name in VERSIONS_OF[library])
    changed = git("log", "-1", "--format=%h", "--", *DECIDES) or "unknown commit"
    edited = " with changes" if git("status", "--porcelain", "--", *DECIDES) else ""
    return f"manyarms {ma.__version__} at {changed}{edited}"


def made(library: str, function: str, seed: int) -> Run:
    """One run, from its start."""
    problem, started = BOX_PROBLEMS[function], time.process_time()
    values = METHODS[library](problem, EVALUATIONS, seed)
    seconds = time.process_time() - started
    return Run(function, library, seed, float(values.min() - problem.minimum), seconds, versions(library))


def missing(options: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    """Library, function and seed of the runs to be made: the first seed of every function comes first."""
    have = {(run.library, run.function, run.seed): run.versions for run in runs(options.record)}
    for seed in range(options.seeds):
        for function in options.functions:
            for library in options.libraries:
                found = have.get((library, function, seed))
                if found is None or (options.again and found != versions(library)):
                    yield library, function, seed


def main(arguments: list[str] | None = None) -> None:
    """Make the runs that are missing, one seed after the other."""
    options = _parser().parse_args(arguments)
    started, longest = time.monotonic(), 0.0
    for library, function, seed in missing(options):
        began = time.monotonic()
        if began + longest > started + 60 * options.minutes:
            print("not finished: run it again")
            return
        run = made(library, function, seed)
        add([run], options.record)
        longest = max(longest, time.monotonic() - began)
        print(f"{library} {function} {seed}: {run.regret:.3g} ({run.cpu_seconds:.0f} s)", flush=True)
    print("finished")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.box_runs", description=__doc__.splitlines()[0]
    )
    parser.add_argument("libraries", nargs="+", choices=list(METHODS))
    parser.add_argument("--functions", nargs="+", choices=list(BOX_PROBLEMS), default=list(BOX_PROBLEMS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=8.0, help="stop before a run that may end later")
    parser.add_argument("--again", action="store_true", help="also repeat runs that other versions made")
    parser.add_argument("--record", type=Path, default=RECORD, help="default: the record of this repository")
    return parser


if __name__ == "__main__":
    main()
