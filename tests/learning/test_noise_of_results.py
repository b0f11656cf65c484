"""A learned model with results of different noise: the evidence and the posterior of one row per result."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import InvalidParameterError
from manyarms.learning.kernel_families import StationaryFamily
from manyarms.learning.map_fit import fit
from manyarms.learning.marginal_likelihood import MEAN_VARIANCE, Observations, log_evidence
from manyarms.learning.reward_transforms import Standardised, arm_averages, targets
from manyarms.posterior.history import History
from manyarms.posterior.own_noise import OwnNoise

FAMILY = StationaryFamily((1.0, 1.0), (0, 0), nu=2.5)


def results(seed: int = 0, n_arms: int = 12, n: int = 40):
    """Repeated arms; a third of the results with a stated noise, a third means of several measurements."""
    rng = np.random.default_rng(seed)
    arms, kind = rng.integers(n_arms, size=n), rng.integers(3, size=n)
    stds = np.where(kind == 1, np.exp(rng.uniform(-2.0, 0.5, size=n)), np.nan)
    replicates = np.where(kind == 2, rng.integers(2, 9, size=n), 1).astype(float)
    return rng.normal(size=(n_arms, 2)), arms, rng.normal(size=n), OwnNoise(replicates, stds)


def variances(noise: OwnNoise, learned: float) -> np.ndarray:
    return np.where(np.isnan(noise.stds), learned / noise.replicates, noise.stds**2)


def observations(history: History) -> Observations:
    seen = targets(history, Standardised())
    freedom, scatter = float((seen.results - 1).sum()), float(seen.scatters.sum())
    return Observations(seen.counts, seen.means, freedom, scatter, seen.noise_floor, seen.stated)


def plain_log_evidence(features, rewards, own_variances, signal, theta) -> float:
    """log N(y | 0, K + τ²11ᵀ + diag(variances)), one row per result."""
    C = signal * FAMILY.kernel(theta).matrix(features, features) + MEAN_VARIANCE + np.diag(own_variances)
    sign, log_det = np.linalg.slogdet(2 * np.pi * C)
    assert sign == 1
    return float(-0.5 * (rewards @ np.linalg.solve(C, rewards) + log_det))


def test_the_evidence_is_that_of_single_results_with_their_own_noise() -> None:
    """Up to a constant of the data, so that differences between parameters are compared."""
    X, arms, rewards, noise = results()
    history = History(len(X)).recorded(arms, rewards, noise)
    seen = observations(history)
    assert len(seen) > len(history)  # some arms have a row of each kind
    differences = []
    for signal, learned, theta in ((1.0, 0.2, [0.3]), (2.5, 0.01, [-0.5]), (0.4, 3.0, [1.0])):
        theta = np.array(theta)
        found = log_evidence(
            FAMILY.covariance_on(X[arm_averages(history).arms])(theta), signal, learned, seen
        )
        assert found is not None
        plain = plain_log_evidence(X[arms], rewards, variances(noise, learned), signal, theta)
        differences.append(found.value - plain)
    np.testing.assert_allclose(differences, differences[0], atol=1e-7)


def test_the_gradient_with_stated_noise() -> None:
    X, arms, rewards, noise = results(1)
    history = History(len(X)).recorded(arms, rewards, noise)
    seen, covariance_at = observations(history), FAMILY.covariance_on(X[arm_averages(history).arms])

    def value(logs: np.ndarray):
        return log_evidence(covariance_at(logs[:1]), *np.exp(logs[1:]).tolist(), seen)

    at, step = np.array([0.2, 0.3, -1.5]), 1e-5
    slopes = [
        (value(at + step * each).value - value(at - step * each).value) / (2 * step) for each in np.eye(3)
    ]
    np.testing.assert_allclose(value(at).gradient, slopes, rtol=1e-6, atol=1e-6)


def test_the_noise_is_learned_from_the_results_without_a_stated_one() -> None:
    """The data are drawn from the model with σ = 0.3, so that the estimate lies within 3 standard errors."""
    rng = np.random.default_rng(2)
    X, arms = rng.normal(size=(60, 2)), np.repeat(np.arange(60), 5)
    f = np.linalg.cholesky(FAMILY.kernel(np.array([0.3])).matrix(X, X) + 1e-9 * np.eye(60)) @ rng.normal(
        size=60
    )
    stated = np.where(np.arange(300) % 5 == 4, 1.5, np.nan)
    replicates = np.where(np.arange(300) % 5 == 3, 4.0, 1.0)
    std = np.where(np.isnan(stated), 0.3 / np.sqrt(replicates), stated)
    rewards = f[arms] + std * rng.normal(size=300)
    told, blind = (
        observations(History(60).recorded(arms, rewards, noise))
        for noise in (OwnNoise(replicates, stated), OwnNoise.usual(300))
    )
    rows = np.repeat(np.arange(60), 2)  # an arm has a row of each kind
    found = fit(FAMILY, X[rows], told)
    assert abs(np.log(found.noise / 0.09)) < 3 * np.sqrt(2 / 180)
    assert fit(FAMILY, X, blind).noise > 3 * found.noise  # as it was before noise could be stated


def optimizer(features, **settings):
    return ma.Optimizer(ma.Pool(features), ma.BKB(oversampling=1e9), **settings)


@pytest.mark.parametrize("minimize", [False, True])
def test_the_posterior_is_that_of_one_row_per_result(minimize: bool) -> None:
    X, arms, rewards, noise = results(3, n_arms=20)
    opt = optimizer(X, minimize=minimize)
    stds = [None if np.isnan(std) else std for std in noise.stds]
    opt.tell(arms=arms, rewards=rewards, noise_std=stds, replicates=noise.replicates.astype(int))
    mean, std = opt.predict()
    model = opt.model
    transform, sign = model.transform, -1.0 if minimize else 1.0
    seen = targets(opt.state.history, transform)
    kernel, at = model.kernel, X[seen.arms]
    own = np.where(seen.stated > 0, seen.stated, model.noise_std**2 / seen.counts)
    C = kernel.matrix(at, at) + np.diag(own)
    cross = kernel.matrix(X, at)
    plain = cross @ np.linalg.solve(C, seen.means - model.mean)
    np.testing.assert_allclose(mean, sign * transform.inverse(plain + model.mean), atol=1e-6)
    assert (seen.stated > 0).sum() > 3
    assert np.isfinite(std).all()


def test_single_results_between_two_fits_weigh_as_stated() -> None:
    """A result told after the fit has the effect that the same noise has in a plain Gaussian process."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 2))
    opt = optimizer(X)
    opt.tell(arms=np.arange(30), rewards=np.sin(X[:30, 0]) + 0.1 * rng.normal(size=30))
    opt.forget(opt.ask(1))
    model = opt.model
    before = model.transform.forward(opt.predict()[0]) - model.mean
    opt.tell(arms=[40, 41], rewards=[0.9, -0.2], noise_std=[0.7, None], replicates=[1, 3])
    after = model.transform.forward(opt.predict()[0]) - model.mean
    assert opt.model == model  # not learned again
    transform = model.transform
    seen, values = targets(opt.state.history, transform), np.array([0.9, -0.2])
    assert sorted(seen.arms) == [*range(30), 40, 41]
    chord = 0.5 * (transform.forward(np.array([1.6])) - transform.forward(np.array([0.2])))[0]
    noise = model.noise_std**2
    own = np.append(np.full(30, noise), [chord**2, noise / 3])
    at = X[[*range(30), 40, 41]]
    y = transform.forward(np.append(opt.history.sums[:30], values)) - model.mean
    plain = model.kernel.matrix(X, at) @ np.linalg.solve(model.kernel.matrix(at, at) + np.diag(own), y)
    np.testing.assert_allclose(after, plain, atol=1e-7)
    assert np.abs(after - before).max() > 0.01


def test_a_stated_noise_keeps_a_lucky_result_from_being_believed() -> None:
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(80, 2))
    runs = {}
    for name, noise in (("stated", 5.0), ("blind", None)):
        opt = optimizer(X)
        rewards = np.append(np.sin(3 * X[:40, 0]), 3.0)
        opt.tell(arms=np.append(np.arange(40), 60), rewards=rewards, noise_std=[*[None] * 40, noise])
        runs[name] = opt.predict([60])[0][0]
        assert opt.best().arm != 60 or name == "blind"
    assert abs(runs["stated"] - np.sin(3 * X[60, 0])) < 0.2 < 1.0 < runs["blind"]


def test_all_noises_stated_is_an_assumption_about_the_next_one() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(40, 2))
    opt = optimizer(X)
    opt.tell(arms=np.arange(30), rewards=X[:30, 0] + 0.2 * rng.normal(size=30), noise_std=0.2)
    assert "every result has a stated noise: that of a result without one is assumed" in opt.model.assumptions
    lower, upper = opt.interval([3])
    assert (upper - lower)[0] == pytest.approx(2 * 1.645 * 0.2, rel=0.5)


def test_saved_runs_keep_the_noise_of_results(tmp_path) -> None:
    X, arms, rewards, noise = results(7, n_arms=30, n=60)
    stds = [None if np.isnan(std) else std for std in noise.stds]
    opt = optimizer(X)
    opt.tell(arms=arms[:45], rewards=rewards[:45], noise_std=stds[:45], replicates=noise.replicates[:45])
    opt.forget(opt.ask(2))
    opt.tell(arms=arms[45:], rewards=rewards[45:], noise_std=stds[45:], replicates=noise.replicates[45:])
    opt.save(tmp_path / "run.npz")  # with results that are not used yet
    again = ma.Optimizer.load(tmp_path / "run.npz")
    for mine, other in zip(opt.predict(), again.predict(), strict=True):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(opt.state.history.own, again.state.history.own)
    np.testing.assert_array_equal(opt.ask(3).arms, again.ask(3).arms)


def test_replicates_with_a_given_noise() -> None:
    """A mean of r measurements has the weight of r pulls with this reward."""
    X = np.random.default_rng(8).normal(size=(30, 2))
    mean, single = (ma.Optimizer(ma.Pool(X), ma.BKB(kernel=ma.RBF(1.0), noise_std=0.3)) for _ in range(2))
    mean.tell(arms=[2, 5], rewards=[0.4, 1.0], replicates=[3, 1])
    single.tell(arms=[2, 2, 2, 5], rewards=[0.4, 0.4, 0.4, 1.0])
    np.testing.assert_allclose(mean.predict(), single.predict(), atol=1e-9)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"noise_std": [0.1, np.nan]}, "noise_std must be"),
        ({"noise_std": [0.1, 0.0]}, "noise_std must be"),
        ({"noise_std": [0.1, "x"]}, "noise_std must be"),
        ({"noise_std": [0.1, 0.2, 0.3]}, "noise_std must be one positive number, or 2 of them"),
        ({"noise_std": 1e-120}, "noise_std must be between 1e-100 and 1e"),
        ({"replicates": [2, 0]}, "replicates must be"),
        ({"replicates": 1.5}, "replicates must be a whole number"),
        ({"replicates": [2, 3], "noise_std": [None, 0.1]}, "replicates must be left out where noise_std"),
    ],
)
def test_wrong_noise_is_refused(given, words) -> None:
    opt = optimizer(np.random.default_rng(9).normal(size=(30, 2)))
    batch = opt.ask(2)
    state = opt.state
    with pytest.raises(InvalidParameterError, match=words):
        opt.tell(batch, [1.0, 2.0], **given)
    assert opt.state is state
