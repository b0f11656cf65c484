"""With every pulled arm inducing the posterior is the exact Gaussian process; and long runs do not drift."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import manyarms as ma
from tests.oracle import Ledger, assert_agrees, exact, sparse

KERNELS = [ma.RBF(0.8), ma.Matern(1.0, nu=1.5), ma.Linear(bias=1.0), ma.Scale(ma.Matern(0.7, nu=0.5), 4.0)]


@pytest.mark.parametrize("ridge", [0.05, 1.0, 5.0])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_full_dictionary_is_the_exact_posterior(kernel: Any, ridge: float) -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(80, 3))
    posterior, ledger = ma.Posterior(ma.Pool(features), kernel, ridge), Ledger(80)
    for _ in range(40):
        arms, rewards = rng.integers(30, size=3), rng.normal(size=3)
        posterior.update(arms, arms, rewards)
        ledger.pull(arms, rewards)
    expected = exact(kernel, features, ridge, ledger)
    assert_agrees(posterior, expected)
    assert posterior.state.log_det == pytest.approx(expected.log_det, rel=1e-8)


def test_full_dictionary_is_the_process_of_scikit_learn() -> None:
    """An implementation by others: same mean and standard deviation, in the pool and outside."""
    rng = np.random.default_rng(2)
    features, elsewhere = rng.normal(size=(50, 2)), rng.normal(size=(20, 2))
    arms, rewards = rng.integers(50, size=40), rng.normal(size=40)
    theirs = GaussianProcessRegressor(sk.RBF(0.7), alpha=0.3, optimizer=None)
    theirs.fit(features[arms], rewards)
    ours = ma.Posterior(ma.Pool(features), ma.RBF(0.7), 0.3)
    ours.update(arms, arms, rewards)
    mean, std = theirs.predict(features, return_std=True)
    assert ours.mean == pytest.approx(mean, abs=1e-8)
    assert np.sqrt(ours.variance) == pytest.approx(std, abs=1e-8)
    mean, std = theirs.predict(elsewhere, return_std=True)
    found = ours.at(elsewhere)
    assert found[0] == pytest.approx(mean, abs=1e-8)
    assert np.sqrt(found[1]) == pytest.approx(std, abs=1e-8)


@pytest.mark.parametrize("ridge", [0.01, 0.2])
@pytest.mark.parametrize("compactions", [False, True])
def test_three_thousand_steps_do_not_drift(ridge: float, compactions: bool) -> None:
    """Pulls and appends, with and without a rebuild on the way: the dense recomputation to 1e-8."""
    rng = np.random.default_rng(4)
    features, kernel = rng.normal(size=(60, 4)), ma.RBF(1.0)
    posterior, ledger = ma.Posterior(ma.Pool(features), kernel, ridge), Ledger(60)
    for step in range(3000):
        arm, reward = int(rng.integers(60)), rng.normal()
        posterior.update([arm] if rng.random() < 0.02 else (), [arm], [reward])
        ledger.pull([arm], [reward])
        if compactions and step == 1500:
            posterior.rebuild(rng.permutation(60)[:15])
    assert posterior.state.sketch_size > 20
    assert_agrees(posterior, sparse(kernel, features, ridge, posterior.inducing, ledger))


def test_an_empty_sketch_is_the_prior() -> None:
    """S = ∅ is legal: μ̃ = 0 and σ̃² = k/λ, whatever was pulled (theory §2.2)."""
    posterior = ma.Posterior(ma.Pool(np.arange(6.0)), ma.Scale(ma.RBF(), 3.0), 0.5)
    posterior.condition([1, 1, 4], [1.0, 2.0, 3.0])
    assert posterior.mean == pytest.approx(np.zeros(6), abs=0)
    assert posterior.leverage == pytest.approx(np.full(6, 6.0))
    assert posterior.variance == pytest.approx(np.full(6, 3.0))
    posterior.append([1, 4])
    ledger = Ledger(6)
    ledger.pull([1, 1, 4], [1.0, 2.0, 3.0])
    assert_agrees(posterior, exact(posterior.kernel, posterior.pool.features, 0.5, ledger))
    posterior.rebuild([])
    assert posterior.mean == pytest.approx(np.zeros(6), abs=0)
    assert posterior.leverage == pytest.approx(np.full(6, 6.0))
