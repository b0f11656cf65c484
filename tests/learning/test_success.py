"""The probability of success: its approximation, what it depends on, and when to try an arm again."""

from __future__ import annotations

import math

import numpy as np
import pytest

import manyarms as ma
from manyarms.learning import prepare
from manyarms.learning.binomial_laplace import laplace, logistic
from manyarms.learning.outcomes import Outcomes
from manyarms.learning.repeated_failures import (
    _MEANS,
    _STRENGTHS,
    _WEIGHTS,
    success_after,
    times_worth_trying,
)
from manyarms.learning.success_kernels import Parts
from manyarms.learning.success_model import learn_success
from manyarms.posterior.history import History


def outcomes(successes, failures) -> Outcomes:
    return Outcomes(np.arange(len(successes)), np.array(successes, float), np.array(failures, float))


def learned(pool: ma.Pool, arms: np.ndarray, ok: np.ndarray):
    prepared = prepare(pool)
    order = np.argsort(arms)
    found = Outcomes(arms[order], ok[order].astype(float), (~ok[order]).astype(float))
    parts = Parts.of(prepared, arms[:1])
    return learn_success(prepared.pool, found, parts, np.random.default_rng(0))


def test_outcomes_join_history_and_failures():
    found = Outcomes.of(History(9).added([4, 4, 2], [1.0, 2.0, 3.0]), {7: 2, 2: 1})
    assert found.arms.tolist() == [2, 4, 7]
    assert found.successes.tolist() == [1, 2, 0]
    assert found.failures.tolist() == [1, 0, 2]
    assert (found.n_trials, found.n_failed) == (6, 3)
    assert found.once().successes.tolist() == [1, 1, 0]
    assert found.once().failures.tolist() == [1, 0, 1]


@pytest.mark.parametrize("mean", [-2.0, 1.0])
def test_the_mode_has_no_slope_and_the_evidence_is_that_of_laplace(mean):
    rng = np.random.default_rng(3)
    X = rng.random((25, 2))
    K = 4.0 + 3 * ma.RBF(0.4).matrix(X, X)
    s, f = rng.integers(3, size=25).astype(float), rng.integers(3, size=25).astype(float)
    found = laplace(K, mean, s, f)
    g = mean + K @ found.weights
    p = logistic(g)
    assert np.allclose(s - (s + f) * p - np.linalg.solve(K + 1e-12 * np.eye(25), g - mean), 0, atol=1e-4)
    log_likelihood = float(s @ np.log(p) + f @ np.log1p(-p))
    W = (s + f) * p * (1 - p)
    plain = log_likelihood - 0.5 * found.weights @ (g - mean) - 0.5 * np.linalg.slogdet(np.eye(25) + K * W)[1]
    assert found.log_evidence == pytest.approx(plain, abs=1e-8)


def test_the_evidence_is_near_the_integral():
    """One arm with 6 successes and 3 failures, by numerical integration over its log odds."""
    grid = np.linspace(-15, 15, 20_001)
    p = logistic(grid)
    density = np.exp(-0.5 * (grid - 1.0) ** 2 / 4) / math.sqrt(2 * math.pi * 4) * p**6 * (1 - p) ** 3
    exact = math.log(density.sum() * (grid[1] - grid[0]))
    assert laplace(np.array([[4.0]]), 1.0, np.array([6.0]), np.array([3.0])).log_evidence == pytest.approx(
        exact, abs=0.03
    )


def test_extreme_outcomes_do_not_diverge():
    K = 4.0 + 9 * np.ones((60, 60))
    found = laplace(K, 1.0, np.zeros(60), np.full(60, 500.0))
    assert np.isfinite(found.log_evidence)
    assert logistic(1.0 + K @ found.weights).max() < 0.01


def test_success_after_failures_is_that_of_a_plain_sum():
    """The same by log Γ, arm by arm; a shared probability is the binomial likelihood."""
    found = outcomes([1, 1, 0, 3, 0, 2], [0, 1, 1, 0, 2, 1])
    posterior = {}
    for nu, weight in zip(_STRENGTHS, _WEIGHTS, strict=True):
        for m in _MEANS:
            a, b, total = nu * m, nu * (1 - m), math.log(weight)
            for s, f in zip(found.successes, found.failures, strict=True):
                if nu > 1e6:
                    total += s * math.log(m) + f * math.log(1 - m)
                else:
                    total += math.lgamma(a + s) - math.lgamma(a) + math.lgamma(b + f) - math.lgamma(b)
                    total += math.lgamma(nu) - math.lgamma(nu + s + f)
            posterior[nu, m] = math.exp(total)
    norm = sum(posterior.values())
    plain = [sum(w * nu * m / (nu + k) for (nu, m), w in posterior.items()) / norm for k in range(4)]
    assert success_after(found, 3) == pytest.approx(plain, rel=1e-5)


def test_arms_are_tried_again_unless_failed_arms_fail_again():
    first = outcomes([1] * 20 + [0] * 5, [0] * 20 + [1] * 5)
    assert times_worth_trying(first, 3) >= 2, "nothing was tried again yet: one more trial is worth it"
    succeed = outcomes([1] * 30, [0] * 20 + [1] * 10)
    assert times_worth_trying(succeed, 3) == 3
    never = outcomes([1] * 20 + [0] * 5, [0] * 20 + [2] * 5)
    assert times_worth_trying(never, 3) == 1


@pytest.mark.parametrize("kind", ["numbers", "category", "words", "bits"])
def test_a_dependence_on_one_column_is_found(kind):
    rng = np.random.default_rng(5)
    x = rng.random((500, 6))
    labels = rng.integers(4, size=500)
    if kind == "category":
        pool = ma.Pool([[*map(float, row), "abcd"[c]] for row, c in zip(x, labels, strict=True)])
        p = np.where(labels == 2, 0.05, 0.95)
    elif kind == "words":
        table = np.array(
            [["abcd"[c], "uvw"[int(3 * r[0])], "xyz"[int(3 * r[1])]] for r, c in zip(x, labels, strict=True)]
        )
        pool, p = ma.Pool(table), np.where(labels == 2, 0.05, 0.95)
    elif kind == "bits":
        pool = ma.Pool((rng.random((500, 200)) < 0.2).astype(np.uint8))
        shared = pool.features[:, :40].sum(axis=1)
        p = np.where(shared > np.median(shared) + 3, 0.0, 1.0)
        arms = rng.choice(500, 80, replace=False)
        found = learned(pool, arms, rng.random(80) < p[arms])
        assert not found.columns, "bits are compared as a whole"
        return
    else:
        pool, p = ma.Pool(x), np.where(x[:, 4] > 0.7, 0.05, 0.95)
    arms = rng.choice(500, 80, replace=False)
    found = learned(pool, arms, rng.random(80) < p[arms])
    assert found.depends
    assert found.dependence > 0.9
    predicted = found.probabilities(prepare(pool).pool.take(np.arange(500)))
    assert predicted[p > 0.5].mean() > 0.8
    assert predicted[p < 0.5].mean() < 0.35


def test_random_failures_look_random():
    """30 % random failures in 40 runs: with a posterior probability above 1/2 as the bar, at most 6 mistakes.

    A test of ten per cent mistakes would have more than 8 with a probability of 4 %.
    """
    mistakes = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        pool = ma.Pool(rng.random((200, 5)))
        mistakes += learned(pool, np.arange(60), rng.random(60) < 0.7).depends
    assert mistakes <= 6


def test_with_hardly_any_failure_nothing_depends():
    pool = ma.Pool(np.random.default_rng(0).random((50, 2)))
    for ok in ([True] * 20, [True] * 19 + [False], [False] * 20, [False] * 19 + [True]):
        found = learned(pool, np.arange(20), np.array(ok))
        assert not found.depends
        assert found.constant == pytest.approx((sum(ok) + 1) / 22)
        assert found.probabilities(pool.features).tolist() == [found.constant] * 50


class Opposite(ma.kernels.Kernel):
    """Not a covariance: every arm is as unlike the others as it is like itself."""

    def matrix(self, X, Y):
        return 2.0 * (np.asarray(X)[:, :1] == np.asarray(Y)[:, 0]) - 1.0

    def diag(self, X):
        return np.ones(len(X))


def test_what_is_no_covariance_explains_nothing():
    pool = ma.Pool(np.random.default_rng(0).random((60, 2)))
    found = outcomes([1] * 30 + [0] * 30, [0] * 30 + [1] * 30)
    learned_from = learn_success(pool, found, Parts((Opposite(),)), np.random.default_rng(0))
    assert not learned_from.depends
    assert learned_from.constant == pytest.approx(0.5)


def test_a_dependence_on_two_of_eight_columns_is_found():
    rng = np.random.default_rng(7)
    pool = ma.Pool(rng.random((600, 8)))
    corner = (pool.features[:, 1] > 0.45) & (pool.features[:, 6] < 0.55)
    arms = rng.choice(600, 120, replace=False)
    found = learned(pool, arms, ~corner[arms])
    assert set(found.columns) == {1, 6}
    predicted = found.probabilities(pool.features)
    assert np.mean((predicted > 0.5) == ~corner) > 0.85
