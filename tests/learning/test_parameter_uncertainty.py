"""Reported standard deviations allow for what is uncertain about kernel and noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import manyarms as ma
from manyarms.learning import learn, model_from, prepare
from manyarms.learning.kernel_families import StationaryFamily
from manyarms.learning.map_fit import HyperPrior, fit
from manyarms.learning.marginal_likelihood import MEAN_VARIANCE, Observations
from manyarms.learning.parameter_uncertainty import LARGEST_FACTOR, std_factor
from manyarms.posterior.history import History


def posterior_at_arms(family, values: np.ndarray, X: np.ndarray, seen: Observations):
    """The exact posterior of f at the arms, by the textbook."""
    signal, noise = np.exp(values[-2:])
    K = signal * family.kernel(values[:-2]).matrix(X, X) + MEAN_VARIANCE
    gain = K @ np.linalg.inv(K + np.diag(noise / seen.counts))
    return gain @ seen.means, np.diag(K - gain @ K)


@pytest.fixture
def example():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(40, 2))
    seen = Observations(
        rng.integers(1, 4, size=40).astype(float), np.sin(X[:, 0]) + 0.3 * rng.normal(size=40)
    )
    return StationaryFamily((1.0, 1.0), (0, 1), nu=2.5), X, seen


def test_the_posterior_at_the_arms_is_exact(example) -> None:
    family, X, seen = example
    found = fit(family, X, seen)
    mean, variance = posterior_at_arms(family, found.start.values, X, seen)
    np.testing.assert_allclose(found.at_arms.mean, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.at_arms.variance, variance, rtol=1e-6)


def test_the_part_of_the_parameters_is_the_delta_method(example) -> None:
    """Against derivatives of the textbook's mean and the covariance from the Hessian of its log posterior."""
    family, X, seen = example
    found, prior = fit(family, X, seen), HyperPrior.of(family)
    values, step = found.start.values, 1e-4

    def mean_at(moved):
        return posterior_at_arms(family, moved, X, seen)[0]

    def log_posterior(moved):
        signal, noise = np.exp(moved[-2:])
        C = signal * family.kernel(moved[:-2]).matrix(X, X) + MEAN_VARIANCE + np.diag(noise / seen.counts)
        _, log_det = np.linalg.slogdet(C)
        return -0.5 * (seen.means @ np.linalg.solve(C, seen.means) + log_det) + prior.log_density(moved)

    axes = step * np.eye(len(values))
    slopes = np.array([(mean_at(values + e) - mean_at(values - e)) / (2 * step) for e in axes])
    hessian = -np.array(
        [
            [
                log_posterior(values + a + b)
                - log_posterior(values + a - b)
                - log_posterior(values - a + b)
                + log_posterior(values - a - b)
                for b in axes
            ]
            for a in axes
        ]
    ) / (4 * step**2)
    expected = np.einsum("ia,ij,ja->a", slopes, np.linalg.inv(hessian), slopes)
    assert expected.max() > 1e-3
    np.testing.assert_allclose(found.at_arms.from_parameters, expected, rtol=0.1, atol=2e-5)


def test_the_factor_is_that_of_the_mixture(example) -> None:
    family, X, seen = example
    first, second = fit(family, X, seen), fit(replace(family, nu=None), X, seen)
    best, other = sorted((first, second), key=lambda fit: -fit.score)
    assert std_factor([best]) >= 1.0
    weight = 1.0 / (1.0 + np.exp(other.score - best.score))
    top = np.argsort(-best.at_arms.mean)[:20]
    total = weight * (best.at_arms.variance + best.at_arms.from_parameters)
    total += (1 - weight) * (other.at_arms.variance + other.at_arms.from_parameters)
    total += (1 - weight) * (other.at_arms.mean - best.at_arms.mean) ** 2
    ratio = total[top].sum() / best.at_arms.variance[top].sum()
    assert std_factor([first, second]) == pytest.approx(np.sqrt(ratio))
    far = replace(other, at_arms=replace(other.at_arms, mean=other.at_arms.mean + 100.0), score=best.score)
    assert std_factor([best, far]) == LARGEST_FACTOR


def test_predictions_are_wider_by_the_factor() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    opt = ma.Optimizer(ma.Pool(X), seed=0)
    opt.tell(arms=np.arange(40), rewards=X[:40].sum(axis=1) + rng.normal(size=40))
    opt.ask(1)
    mean, std = opt.predict([3])
    model, posterior = opt.model, opt.posterior
    assert model.std_factor > 1.01
    spread = model.transform.describe()["spread"]
    assert std[0] == pytest.approx(model.std_factor * np.sqrt(posterior.variance[3]) * spread)
    low, high = opt.interval([3], 0.5)
    reach = 0.6744898 * spread * np.hypot(std[0] / spread, model.noise_std)
    np.testing.assert_allclose([low[0], high[0]], [mean[0] - reach, mean[0] + reach])
    best = opt.best()
    np.testing.assert_allclose(
        [best.lower, best.upper], [best.mean - 1.6448536 * best.std, best.mean + 1.6448536 * best.std]
    )


def test_a_description_without_the_factor_is_read() -> None:
    """Runs saved before it existed."""
    X = np.random.default_rng(0).uniform(size=(30, 2))
    history = History(30)
    history.add(np.arange(30), X.sum(axis=1))
    model = learn(prepare(ma.Pool(X)), history, np.random.default_rng(0))
    described = model.describe()
    assert model_from(described) == model
    old = {k: v for k, v in described.items() if k not in ("std_factor", "largest_value")}
    assert model_from(old).std_factor == 1.0
