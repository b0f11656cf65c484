"""Runs on boxes by manyarms, BoTorch and Optuna, one file per run, so that a long comparison can be resumed.

    python -m benchmarks.box_runs FOLDER manyarms BoTorch Optuna-GP --seeds 10 --minutes 8

does the runs that FOLDER does not have yet, seed by seed, and stops before a run that is expected to end
after the time given. `continuous.best_values` reads the folder if it is named by `MANYARMS_BOX_RUNS`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import manyarms as ma
from manyarms.problems.on_boxes import BOX_PROBLEMS, BoxProblem

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


def values_of(method: str, name: str, evaluations: int, seed: int, folder: Path | None = None) -> np.ndarray:
    """The values of one run in order: from `folder` if it is there, else computed (and written there)."""
    path = None if folder is None else folder / f"{method}-{name}-{evaluations}-{seed}.json"
    if path is not None and path.exists():
        return np.array(json.loads(path.read_text())["values"])
    started = time.process_time()
    values = METHODS[method](BOX_PROBLEMS[name], evaluations, seed)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {"cpu_seconds": time.process_time() - started, "values": values.tolist()}
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(record))
        partial.rename(path)
    return values


def main() -> None:
    """Do the runs that are missing, one seed after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("methods", nargs="+", choices=list(METHODS))
    parser.add_argument("--problems", nargs="+", choices=list(BOX_PROBLEMS), default=list(BOX_PROBLEMS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=8.0)
    options = parser.parse_args()
    started, longest = time.monotonic(), 0.0
    for seed in range(options.seeds):
        for name in options.problems:
            for method in options.methods:
                began = time.monotonic()
                if began + longest > started + 60 * options.minutes:
                    print("not finished: run it again")
                    return
                best = values_of(method, name, EVALUATIONS, seed, options.folder).min()
                longest = max(longest, time.monotonic() - began)
                print(f"{method} {name} {seed}: {best - BOX_PROBLEMS[name].minimum:.3g}", flush=True)
    print("finished")


if __name__ == "__main__":
    main()
