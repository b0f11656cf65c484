"""float32 storage: the errors that the docstring of `Posterior` states, and no more.

Variance within 1e-5 of the prior variance k, mean within 1e-4·(1 + k/λ)·max|reward|; among near-duplicate
arms the variance within 1e-3 of k, and for a smooth kernel on one or two features within 3e-2 of k.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import manyarms as ma
from manyarms.posterior.definition import Definition, built
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.sparse_gp import SparseGP
from tests.agreement.test_posterior_near_duplicates import SHAPES, SPACINGS, WAYS
from tests.oracle import Dense, Ledger, exact, sparse

ORDINARY, NEAR_DUPLICATES, SMOOTH, MEAN = 1e-5, 1e-3, 3e-2, 1e-4
KERNELS = [ma.RBF(1.0), ma.Matern(1.0, nu=1.5), ma.Scale(ma.Matern(1.0, nu=2.5), 5.0)]


def single(features: np.ndarray, kernel: Any, ridge: float) -> ma.Posterior:
    return ma.Posterior(ma.Pool(features), kernel, ridge, storage=np.float32)


def assert_within(
    posterior: ma.Posterior, expected: Dense, rewards: np.ndarray, share: float, where: str = ""
) -> None:
    prior, ridge = posterior.state.prior, posterior.ridge
    assert np.isfinite(posterior.mean).all(), where
    assert (posterior.leverage > 0).all(), where
    variance = np.abs(posterior.variance - ridge * expected.leverage) / prior
    mean = np.abs(posterior.mean - expected.mean) / (np.abs(rewards).max() * (1 + prior / ridge))
    off, far = variance.max(), mean.max()
    assert off < share, f"{where}: variance off by {off:.2e} of the prior, allowed {share:g}"
    assert far < MEAN, f"{where}: mean off by {far:.2e} of its scale, allowed {MEAN:g}"


@pytest.mark.parametrize("ridge", [0.01, 0.2, 1.0])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_ordinary_pool(kernel: Any, ridge: float) -> None:
    """150 steps, a rebuild, and pulls of arms outside the sketch."""
    rng = np.random.default_rng(0)
    features, ledger = rng.normal(size=(300, 4)), Ledger(300)
    posterior = single(features, kernel, ridge)
    arms, rewards = rng.integers(300, size=300), rng.normal(size=300)
    for step in range(0, 300, 2):
        pulled = arms[step : step + 2]
        posterior.update(pulled[:1] % 80, pulled, rewards[step : step + 2])
        if step == 200:
            posterior.rebuild(rng.permutation(300)[:60])
    ledger.pull(arms, rewards)
    expected = sparse(kernel, features, ridge, posterior.inducing, ledger)
    assert_within(posterior, expected, rewards, ORDINARY)


@pytest.mark.parametrize("shape", SHAPES)
def test_near_duplicates(shape: str) -> None:
    """All arms inducing: near the exact posterior, no NaN, no negative variance, no exception."""
    for spacing in SPACINGS:
        rng = np.random.default_rng(1)
        features, kernel, ridge = SHAPES[shape](rng, spacing), ma.RBF(0.5), 0.2
        arms = np.concatenate([rng.permutation(len(features)), rng.integers(len(features), size=30)])
        rewards, ledger = rng.normal(size=len(arms)), Ledger(len(features))
        ledger.pull(arms, rewards)
        expected = exact(kernel, features, ridge, ledger)
        for way, pull in WAYS.items():
            posterior = single(features, kernel, ridge)
            pull(posterior, arms, rewards)
            assert_within(posterior, expected, rewards, NEAR_DUPLICATES, f"spacing {spacing:g}, {way}")


@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize(
    "lengthscale", [0.3, *(pytest.param(length, marks=pytest.mark.slow) for length in (0.1, 1.0, 2.2))]
)
def test_smooth_kernel_on_few_features(lengthscale: float, n_features: int) -> None:
    """Arms met in random order, every second one inducing: K_S is close to singular."""
    kernel, ridge = ma.RBF(lengthscale), 0.2
    for seed in range(4):
        rng = np.random.default_rng(seed)
        features, ledger = rng.normal(size=(200, n_features)), Ledger(200)
        posterior = single(features, kernel, ridge)
        arms, rewards = rng.integers(200, size=300), rng.normal(size=300)
        for arm, reward in zip(arms.tolist(), rewards.tolist(), strict=True):
            posterior.update([arm] if rng.random() < 0.5 else (), [arm], [reward])
        ledger.pull(arms, rewards)
        double = ma.Posterior(ma.Pool(features), kernel, ridge)
        double.rebuild(posterior.inducing, arms, rewards)
        assert (posterior.leverage > 0).all()
        variance = np.abs(posterior.variance - double.variance).max()
        mean = np.abs(posterior.mean - double.mean).max() / np.abs(rewards).max()
        assert variance < SMOOTH, f"seed {seed}: variance off by {variance:.2e} of the prior"
        assert mean < SMOOTH, f"seed {seed}: mean off by {mean:.2e} of the largest reward"


def test_storage_is_half_the_size() -> None:
    features = np.random.default_rng(0).normal(size=(500, 3))
    sizes = {}
    for storage in (np.float32, np.float64):
        posterior = ma.Posterior(ma.Pool(features), ma.RBF(0.3), 0.2, storage=storage)
        posterior.append(np.arange(40))
        sizes[storage] = posterior.state.over_pool.nbytes
    assert sizes[np.float64] == 2 * sizes[np.float32]


def learned_run(storage: str, noise: float) -> ma.Optimizer:
    """The default on a smooth function with values over several orders of magnitude (Rosenbrock's)."""
    features = np.random.default_rng(0).random((1500, 3))
    points = 4 * features - 2
    steps = 100 * (points[:, 1:] - points[:, :-1] ** 2) ** 2 + (1 - points[:, :-1]) ** 2
    values = -steps.sum(axis=1) / steps.sum(axis=1).std()
    rng, opt = np.random.default_rng(1), ma.Optimizer(ma.Pool(features), seed=0, storage=storage)
    for size in (20, 50, 50, 50, 50, 1):
        batch = opt.ask(size)
        opt.tell(batch, values[batch.arms] + noise * rng.normal(size=size))
    return opt


def test_noise_that_single_precision_does_not_resolve_is_modelled_in_double_precision() -> None:
    """Without noise, single precision left nearly all pulled arms out of the sketch, or overflowed."""
    single_run, double_run = learned_run("float32", 0.0), learned_run("float64", 0.0)
    assert single_run.posterior.storage == np.float64
    sizes = [opt.posterior.state.sketch_size for opt in (single_run, double_run)]
    assert abs(sizes[0] - sizes[1]) <= 5
    assert sizes[0] > 150
    assert learned_run("float32", 0.3).posterior.storage == np.float32


@pytest.mark.parametrize("ridge", [0.01, 1.0])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_values_of_a_definition_in_single_precision(
    kernel: Any, ridge: float, rng: np.random.Generator
) -> None:
    """Campaigns compute the values of every arm from columns in groups, and z V⁻¹ z in single precision."""
    features, arms = rng.normal(size=(400, 4)), np.arange(150)
    rewards = rng.normal(size=len(arms))
    definition = Definition(arms, (60, 50, 40), arms, np.ones(len(arms)), rewards)
    values = []
    for storage in (np.float32, np.float64):
        process = SparseGP(ma.Pool(features), kernel, ridge, storage=storage)
        values.append(Posterior.of(process, built(process, definition)))
    short, long = values
    assert np.abs(short.variance - long.variance).max() < ORDINARY * long.state.prior.max()
    assert np.abs(short.mean - long.mean).max() < MEAN * (1 + 1 / ridge) * np.abs(rewards).max()
