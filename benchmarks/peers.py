"""Time of one more pull and of the mean and deviation of every arm, here and in other libraries.

All have the same kernel with fixed hyperparameters, the same ridge and the same data, and are measured in
the same run. The other libraries fit from scratch at every step, as their interfaces require, so there is no
target for the ratios. A library that is not installed is skipped and reported in a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import manyarms as ma
from benchmarks import Row, at_most
from benchmarks.timing import median_seconds

LENGTHSCALE, RIDGE = 5**0.5, 0.2


@dataclass(frozen=True)
class Problem:
    """t pulls of different arms among A, and one more."""

    features: np.ndarray
    arms: np.ndarray
    rewards: np.ndarray

    @classmethod
    def generated(cls, n_arms: int, pulls: int) -> Problem:
        rng = np.random.default_rng(0)
        features = rng.normal(size=(n_arms, 8))
        return cls(features, rng.permutation(n_arms)[: pulls + 1], rng.normal(size=pulls + 1))


Answer = tuple[np.ndarray, np.ndarray]  # mean and standard deviation of every arm
Step = Callable[[], Answer]


def manyarms_step(problem: Problem) -> Step:
    """The posterior after t pulls is given; the step adds one more."""
    posterior = ma.Posterior(ma.Pool(problem.features), ma.RBF(LENGTHSCALE), RIDGE)
    posterior.update(problem.arms[:-1], problem.arms[:-1], problem.rewards[:-1])
    last = problem.arms[-1:]

    def step() -> Answer:
        state = posterior.updated(last, last, problem.rewards[-1:])  # not committed, so it can be repeated
        return state.mean, np.sqrt(state.variance)

    return step


def sklearn_step(problem: Problem) -> Step:
    """scikit-learn fits and predicts from scratch; hyperparameters are fixed."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    model = GaussianProcessRegressor(RBF(LENGTHSCALE), alpha=RIDGE, optimizer=None)

    def step() -> Answer:
        model.fit(problem.features[problem.arms], problem.rewards)
        return model.predict(problem.features, return_std=True)

    return step


def botorch_step(problem: Problem) -> Step:
    """BoTorch's SingleTaskGP; every arm is one t-batch, as for acquisition functions."""
    import torch
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import RBFKernel
    from gpytorch.means import ZeroMean

    torch.set_num_threads(1)
    X, Y = torch.tensor(problem.features[problem.arms]), torch.tensor(problem.rewards)[:, None]
    pool = torch.tensor(problem.features)[:, None, :]

    def step() -> Answer:
        kernel = RBFKernel().double()
        kernel.lengthscale = LENGTHSCALE
        noise = torch.full_like(Y, RIDGE)
        given = {"covar_module": kernel, "mean_module": ZeroMean(), "outcome_transform": None}
        model = SingleTaskGP(X, Y, noise, **given).eval()
        with torch.no_grad():
            posterior = model.posterior(pool)
            return posterior.mean.ravel().numpy(), posterior.variance.ravel().sqrt().numpy()

    return step


PEERS = {"scikit-learn": sklearn_step, "BoTorch": botorch_step}


def one_step(smoke: bool) -> list[Row]:
    """A step at t observations on A candidates."""
    sizes = ((20, 200),) if smoke else ((100, 5_000), (500, 5_000), (1_000, 20_000))
    return [row for pulls, n_arms in sizes for row in _compared(pulls, n_arms, 1 if smoke else 3)]


def _compared(pulls: int, n_arms: int, repeats: int) -> list[Row]:
    problem, name = Problem.generated(n_arms, pulls), f"step at t = {pulls}, A = {n_arms}"
    ours = manyarms_step(problem)
    mean, deviation = ours()
    seconds = median_seconds(ours, 5 * repeats)
    rows = [Row(f"{name}: manyarms", seconds, "s CPU")]
    for peer, make in PEERS.items():
        try:
            step = make(problem)
        except ImportError:
            rows.append(Row(f"{name}: {peer}", float("nan"), note="not installed"))
            continue
        their_mean, their_deviation = step()
        error = max(np.abs(their_mean - mean).max(), np.abs(their_deviation - deviation).max())
        theirs = median_seconds(step, repeats)
        rows += [
            Row(f"{name}: {peer}", theirs, "s CPU", note="fit and predict, fixed hyperparameters"),
            Row(f"{name}: {peer} / manyarms", theirs / seconds, "times"),
            at_most(f"{name}: largest difference from {peer}", error, 1e-6),
        ]
    return rows


BENCHMARKS = [one_step]
