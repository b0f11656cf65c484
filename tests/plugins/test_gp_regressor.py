"""The regressor agrees with an exact Gaussian process, learns, and refuses what it must."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sklearn_kernels

import manyarms as ma
from manyarms.sklearn import SparseGPRegressor


def smooth(rng, n, d=2):
    X = rng.uniform(-2, 2, size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("kernel", [ma.RBF(0.8), sklearn_kernels.RBF(0.8)])
def test_it_is_the_exact_process_up_to_max_inducing_rows(rng, kernel) -> None:
    X, y = smooth(rng, 60)
    new = rng.uniform(-3, 3, size=(25, 2))
    oracle = GaussianProcessRegressor(sklearn_kernels.RBF(0.8), alpha=0.04, optimizer=None).fit(X, y)
    model = SparseGPRegressor(kernel, noise_std=0.2).fit(X, y)
    mean, std = model.predict(new, return_std=True)
    their_mean, their_std = oracle.predict(new, return_std=True)
    np.testing.assert_allclose(mean, their_mean, atol=1e-8)
    np.testing.assert_allclose(std, their_std, atol=1e-7)
    _, covariance = model.predict(new, return_cov=True)
    np.testing.assert_allclose(covariance, oracle.predict(new, return_cov=True)[1], atol=1e-8)


def test_normalised_targets_agree_with_scikit_learn(rng) -> None:
    X, y = smooth(rng, 40)
    y = 1000 + 50 * y
    oracle = GaussianProcessRegressor(sklearn_kernels.RBF(0.8), alpha=0.04, optimizer=None, normalize_y=True)
    oracle.fit(X, y)
    model = SparseGPRegressor(ma.RBF(0.8), noise_std=0.2, normalize_y=True).fit(X, y)
    mean, std = model.predict(X[:5] + 0.1, return_std=True)
    their_mean, their_std = oracle.predict(X[:5] + 0.1, return_std=True)
    np.testing.assert_allclose(mean, their_mean, rtol=1e-9)
    np.testing.assert_allclose(std, their_std, rtol=1e-7)
    assert model.noise_std_ == pytest.approx(0.2 * y.std())


def test_a_sketch_is_close_to_the_exact_process(rng) -> None:
    X, y = smooth(rng, 600)
    new = rng.uniform(-2, 2, size=(100, 2))
    exact = SparseGPRegressor(ma.RBF(0.8), noise_std=0.2).fit(X, y)
    sparse = SparseGPRegressor(ma.RBF(0.8), noise_std=0.2, max_inducing=120).fit(X, y)
    assert len(exact.X_inducing_) > len(sparse.X_inducing_)
    assert len(sparse.X_inducing_) < 150
    mean, std = sparse.predict(new, return_std=True)
    their_mean, their_std = exact.predict(new, return_std=True)
    assert np.abs(mean - their_mean).max() < 0.1 * 0.2
    assert np.abs(std - their_std).max() < 0.1 * 0.2


def test_results_in_parts_are_the_same_as_at_once(rng) -> None:
    X, y = smooth(rng, 80)
    X[40:50] = X[:10]  # some rows are measured again
    whole = SparseGPRegressor(ma.RBF(0.8), noise_std=0.2).fit(X, y)
    parts = SparseGPRegressor(ma.RBF(0.8), noise_std=0.2)
    for start in range(0, 80, 20):
        parts.partial_fit(X[start : start + 20], y[start : start + 20])
    new = rng.uniform(-2, 2, size=(30, 2))
    for ours, theirs in zip(
        parts.predict(new, return_std=True), whole.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-7)


def test_a_growing_sketch_stays_accurate_and_bounded(rng) -> None:
    X, y = smooth(rng, 900)
    model = SparseGPRegressor(ma.RBF(0.8), noise_std=0.2, max_inducing=100)
    for start in range(0, 900, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
        assert len(model.X_inducing_) <= 160
    exact = SparseGPRegressor(ma.RBF(0.8), noise_std=0.2).fit(X, y)
    new = rng.uniform(-2, 2, size=(50, 2))
    assert np.abs(model.predict(new) - exact.predict(new)).max() < 0.1 * 0.2


def test_equal_rows_are_repeated_measurements(rng) -> None:
    X = np.repeat(rng.normal(size=(15, 1)), 8, axis=0)
    y = X[:, 0] + 0.5 * rng.normal(size=len(X))
    model = SparseGPRegressor().fit(X, y)
    assert len(model.X_inducing_) == 15
    assert 0.3 < model.noise_std_ < 0.7


def test_the_learned_model_predicts_and_its_intervals_hold(rng) -> None:
    """On 200 new rows the share within 90 % intervals is above 0.8 (binomial tail of 0.9: 1e-5)."""
    X, y = smooth(rng, 400)
    model = SparseGPRegressor().fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.95
    mean, std = model.predict(X[200:], return_std=True)
    inside = np.abs(y[200:] - mean) < 1.645 * np.hypot(std, model.noise_std_)
    assert inside.mean() > 0.8, inside.mean()
    assert any("no arm was tried twice" in sentence for sentence in model.model_.assumptions)


def test_draws_have_the_mean_and_covariance_of_the_prediction(rng) -> None:
    """20 000 draws: every entry within 5 standard errors."""
    X, y = smooth(rng, 30)
    model = SparseGPRegressor(ma.RBF(0.8), noise_std=0.2).fit(X, y)
    new = rng.uniform(-3, 3, size=(6, 2))
    draws = model.sample_y(new, n_samples=20_000, random_state=1)
    mean, covariance = model.predict(new, return_cov=True)
    assert draws.shape == (6, 20_000)
    variances = np.diag(covariance)
    assert (np.abs(draws.mean(axis=1) - mean) < 5 * np.sqrt(variances / 20_000)).all()
    error = 5 * np.sqrt((variances[:, None] * variances + covariance**2) / 20_000)
    assert (np.abs(np.cov(draws) - covariance) < error).all()


@pytest.mark.parametrize("kind", ["numbers", "levels", "one-hot", "fingerprints"])
def test_a_fitted_model_can_be_pickled_and_cloned(rng, kind) -> None:
    X = {
        "numbers": rng.normal(size=(40, 3)),
        "levels": rng.choice([1.0, 16.0, 64.0, 128.0], size=(40, 3)),
        "one-hot": np.eye(4)[rng.integers(4, size=40)],
        "fingerprints": (rng.random((40, 128)) < 0.2).astype(float),
    }[kind]
    model = SparseGPRegressor().fit(X, X @ rng.normal(size=X.shape[1]))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert not hasattr(clone(model), "model_")


def test_what_is_refused(rng) -> None:
    X, y = smooth(rng, 10)
    with pytest.raises(ma.errors.InvalidParameterError, match="noise_std"):
        SparseGPRegressor(noise_std=0.1).fit(X, y)
    with pytest.raises(ma.errors.InvalidKernelError):
        SparseGPRegressor("matern").fit(X, y)
    with pytest.raises(ma.errors.InvalidParameterError, match="max_inducing"):
        SparseGPRegressor(max_inducing=0).fit(X, y)
    model = SparseGPRegressor(ma.RBF()).fit(X, y)
    with pytest.raises(ma.errors.InvalidParameterError, match="return_cov"):
        model.predict(X, return_std=True, return_cov=True)


def test_a_failed_call_changes_nothing(rng) -> None:
    X, y = smooth(rng, 20)
    model = SparseGPRegressor(ma.RBF()).fit(X, y)
    before = model.predict(X)
    for rows, results, message in (
        (X[:, :1], y, "1 features"),
        (X, y[:3], "inconsistent"),
        (X * np.nan, y, "NaN"),
        (X, np.full(20, np.inf), "infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(rows, results)
    np.testing.assert_array_equal(model.predict(X), before)
