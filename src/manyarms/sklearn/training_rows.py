"""Training rows of a regression as the arms of a pool: equal rows are one arm with several results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.kernels import KernelLike
from manyarms.learning import LearnedModel, Prepared, Transform, learn, prepare
from manyarms.learning.reward_transforms import Standardised
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from manyarms.posterior.posterior import Posterior
from manyarms.sketch.inducing import Candidates, LeverageScores
from manyarms.support.validation import Floats, Ints


def distinct_rows(X: Floats) -> tuple[Floats, Ints]:
    """The different rows, sorted, and the number of the row that each row of X equals."""
    rows, places = np.unique(X, axis=0, return_inverse=True)
    return rows, np.asarray(places, dtype=np.int64).reshape(-1)


@dataclass(frozen=True)
class Assumed:
    """What the posterior is conditioned under: y = transform⁻¹(mean + f + noise), f ~ GP(0, kernel).

    `prepared` maps features to those of the kernel if the model was learned. `std_factor` multiplies
    standard deviations, because a learned kernel and noise are uncertain.
    """

    kernel: KernelLike
    noise_std: float
    ridge: float
    transform: Transform
    mean: float = 0.0
    std_factor: float = 1.0
    prepared: Prepared | None = None
    model: LearnedModel | None = None

    @property
    def spread(self) -> float:
        """The number of units of y in one unit of the model's scale."""
        lower, upper = self.transform.inverse(np.array([0.0, 1.0]))
        return float(upper - lower)

    def encoded(self, X: Floats) -> Any:
        """The features that the kernel is evaluated on."""
        return X if self.prepared is None else self.prepared.encode(X)

    def values(self, y: Floats) -> Floats:
        """The values that the posterior is conditioned on."""
        return self.transform.forward(y) - self.mean

    def targets(self, values: Floats) -> Floats:
        """The inverse of `values`."""
        return self.transform.inverse(values + self.mean)


def learned(rows: Floats, places: Ints, y: Floats, rng: np.random.Generator) -> Assumed:
    """Kernel, noise and mean learned from the results; y is only centred and scaled."""
    prepared = replace(prepare(Pool(rows)), constant_noise=True)  # all rows are weighed equally
    model = learn(prepared, History(len(rows)).added(places, y), rng, rewards="standardise")
    return Assumed(
        kernel=model.kernel,
        noise_std=model.noise_std,
        ridge=model.ridge,
        transform=model.transform,
        mean=model.mean,
        std_factor=model.std_factor,
        prepared=prepared,
        model=model,
    )


def given(kernel: KernelLike, noise_std: float, y: Floats, normalize_y: bool) -> Assumed:
    """A given kernel and noise; with `normalize_y`, both are in units of the standard deviation of y."""
    scale = Standardised()
    if normalize_y:
        scale = Standardised(float(y.mean()), float(y.std()) or 1.0)
    return Assumed(kernel, noise_std, noise_std**2, scale)


def sparse_posterior(
    assumed: Assumed,
    pool: Pool,
    places: Ints,
    values: Floats,
    *,
    max_inducing: int,
    oversampling: float,
    rng: np.random.Generator,
) -> Posterior:
    """The posterior given these results of the arms of a pool.

    Up to `max_inducing` arms it is exact. With more, leverage scores are estimated from a uniform sample of
    that many arms, and the inducing arms are drawn by them (theory §3.2).
    """
    posterior = Posterior(pool, assumed.kernel, assumed.ridge)
    if pool.n_arms <= max_inducing:
        posterior.rebuild(np.arange(pool.n_arms), places, values)
        return posterior
    uniform = np.sort(rng.choice(pool.n_arms, max_inducing, replace=False))
    posterior.rebuild(uniform, places, values)
    posterior.rebuild(inducing_draw(posterior, max_inducing, oversampling, rng))
    return posterior


def inducing_draw(
    posterior: Posterior, max_inducing: int, oversampling: float, rng: np.random.Generator
) -> Ints:
    """Arms drawn by leverage scores; q̄ is reduced where it would lead to more than `max_inducing`."""
    state = posterior.state
    leverage = posterior.leverage[state.arms]
    expected = float(state.counts @ leverage)
    factor = min(oversampling, max_inducing / expected) if expected > 0 else oversampling
    nothing = np.zeros(len(state.arms))
    candidates = Candidates(
        state.arms, state.counts, leverage, nothing, lambda: np.empty((0, 0))
    )  # a rule of leverage scores does not read the covariance
    drawn = LeverageScores(factor).draw(candidates, rng).arms
    return drawn if len(drawn) else state.arms[:1]
