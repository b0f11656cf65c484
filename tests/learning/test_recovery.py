"""The hyperparameters that data were drawn with are recovered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from manyarms.kernels import RBF, KernelLike, Matern, Scale
from manyarms.learning import LearnedModel, learn, prepare
from manyarms.learning.kernel_families import StationaryFamily
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History

UNITS = np.array([1e-9, 1.0, 1e6])  # of the columns, in which the length-scales must be recovered
LENGTHSCALES = np.array([0.6, 1.2, 2.5])
NOISE = 0.3


def drawn(kernel: KernelLike, seed: int, pulls: int, arms: int) -> LearnedModel:
    """The model learned from `pulls` noisy rewards of a function drawn from the kernel.

    RBF, which the default does not try, is added to the families that are compared.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(arms, 3)) * UNITS
    K = kernel.matrix(X, X) + 1e-10 * np.eye(arms)
    truth = 5.0 + np.linalg.cholesky(K) @ rng.normal(size=arms)
    history, pulled = History(arms), rng.integers(arms, size=pulls)
    history.add(pulled, truth[pulled] + NOISE * rng.normal(size=pulls))
    prepared = prepare(Pool(X))
    (matern,) = prepared.families
    assert isinstance(matern, StationaryFamily)
    prepared = replace(prepared, families=(matern, replace(matern, nu=None)))
    return learn(prepared, history, rng, rewards="standardise")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RBF, Matern])
def test_length_scales_and_noise_are_recovered(kind: type[RBF] | type[Matern]) -> None:
    """500 observations of 400 arms, 20 seeds: medians within 0.3 (log) and 25 %."""
    kernel = Scale(kind(tuple(LENGTHSCALES * UNITS)), 1.0)
    models = [drawn(kernel, seed, 500, 400) for seed in range(20)]
    assert all("per feature" in model.family for model in models), [model.family for model in models]
    learned = np.array([model.kernel.kernel.lengthscale for model in models]) / UNITS  # type: ignore[attr-defined]
    errors = np.median(np.log(learned / LENGTHSCALES), axis=0)
    assert np.abs(errors).max() <= 0.3, errors
    noises = np.array(
        [model.noise_std * model.transform.inverse(np.array([0.0, 1.0])) @ [-1, 1] for model in models]
    )
    assert abs(np.median(noises) / NOISE - 1) <= 0.25, noises
    assert all(abs(model.transform.inverse(np.array(model.mean)) - 5.0) < 2.5 for model in models)


@pytest.mark.slow
def test_the_right_smoothness_wins_most_of_the_time() -> None:
    """The evidence identifies the kernel of at least 8 in 10 draws (5 would be chance)."""
    for kind, name in ((RBF, "RBF"), (Matern, "Matérn")):
        kernel = Scale(kind(tuple(0.8 * UNITS)), 1.0)
        families = [drawn(kernel, seed, 500, 500).family for seed in range(10)]
        assert sum(family.startswith(name) for family in families) >= 8, families
