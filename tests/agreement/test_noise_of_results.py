"""Results of different noise: the posterior of a Gaussian process with one noise variance per result."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import InvalidParameterError
from tests.runs import Problem

KERNEL, RIDGE = ma.RBF(0.4), 0.04
FULL = {"kernel": KERNEL, "ridge": RIDGE, "noise_std": 0.2}
POLICIES = {
    "GPUCB": ma.GPUCB(**FULL),
    "GPBUCB": ma.GPBUCB(**FULL),
    "BKB": ma.BKB(oversampling=1e9, **FULL),
    "BBKB": ma.BBKB(oversampling=1e9, **FULL),
    "BBKB-local": ma.BBKB(oversampling=1e9, local=True, **FULL),
    "MiniGPUCB": ma.MiniGPUCB(**FULL),
    "GPTS": ma.GPTS(**FULL),
    "SGPTS": ma.SGPTS(oversampling=1e9, **FULL),
    "AsyncTS": ma.AsyncTS(oversampling=1e9, **FULL),
    "EpsGreedy": ma.EpsGreedy(**FULL),
}
LINEAR = {
    "OFUL": ma.OFUL(ridge=RIDGE, noise_std=0.2),
    "SOFUL": ma.SOFUL(size=5, ridge=RIDGE, noise_std=0.2),
}


def results(seed: int = 0):
    """Repeated arms, each result with its own noise."""
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, 40, size=30)
    return arms, rng.normal(size=30), np.exp(rng.uniform(np.log(0.05), np.log(2.0), size=30))


def expected(kernel, features, arms, rewards, noise):
    noisy = kernel.matrix(features[arms], features[arms]) + np.diag(noise**2)
    cross = kernel.matrix(features, features[arms])
    variance = kernel.diag(features) - np.einsum("ij,ji->i", cross, np.linalg.solve(noisy, cross.T))
    return cross @ np.linalg.solve(noisy, rewards), np.sqrt(np.maximum(variance, 0.0))


@pytest.mark.parametrize("name", [*POLICIES, *LINEAR])
def test_every_policy_has_the_posterior_with_these_noises(name):
    problem, (arms, rewards, noise) = Problem(0, n_arms=40), results()
    policy = (POLICIES | LINEAR)[name]
    opt = ma.Optimizer(problem.pool, policy)
    for part in (slice(0, 11), slice(11, 12), slice(12, None)):  # used in three feedbacks
        opt.tell(arms=arms[part], rewards=rewards[part], noise_std=noise[part])
        opt.forget(opt.ask())
    mean, std = expected(policy.kernel, problem.pool.features, arms, rewards, noise)
    found = opt.predict()
    np.testing.assert_allclose(found[0], mean, atol=1e-6 * np.abs(mean).max())
    np.testing.assert_allclose(found[1], std, atol=1e-5)


def test_noise_by_ticket_saved_and_in_any_order(tmp_path):
    problem = Problem(1, n_arms=60)
    runs = [ma.Optimizer(problem.pool, POLICIES["BBKB"], seed=1) for _ in range(2)]
    for turn in range(4):
        batches = [run.ask(5) for run in runs]
        np.testing.assert_array_equal(batches[0].arms, batches[1].arms)
        rewards, noise = problem.rewards(batches[0]), 0.1 * (1.0 + np.arange(5))
        runs[0].tell(batches[0], rewards, noise_std=noise)
        for i in (3, 0, 4, 1, 2):
            runs[1].tell(batches[1].tickets[[i]], rewards[[i]], noise_std=noise[i])
        if turn == 1:  # with results that are not used yet
            runs[1].save(tmp_path / "run.npz")
            runs[1] = ma.Optimizer.load(tmp_path / "run.npz")
    for mine, other in zip(runs[0].predict(), runs[1].predict(), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_the_policy_s_noise_is_weight_one_and_little_weight_still_counts():
    problem = Problem(1, n_arms=60)
    plain, given = (ma.Optimizer(problem.pool, POLICIES["BKB"]) for _ in range(2))
    plain.tell(arms=[1, 2, 3], rewards=[0.1, 0.2, 0.3])
    given.tell(arms=[1, 2, 3], rewards=[0.1, 0.2, 0.3], noise_std=0.2)
    np.testing.assert_allclose(plain.predict(), given.predict(), rtol=1e-12)
    weak = ma.Optimizer(problem.pool, POLICIES["BKB"])
    weak.tell(arms=[1], rewards=[5.0], noise_std=100.0)
    assert weak.ask().why == ("upper bound",)  # one result, although its weight is far below 1
    assert weak.posterior.state.pulls == 1
    assert abs(weak.predict([1])[0][0]) < 0.01


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf, "x", [0.1, 0.2], [[0.1]], True])
def test_wrong_noise_is_refused(wrong):
    opt = ma.Optimizer(Problem(1, n_arms=60).pool, POLICIES["BKB"])
    opt.ask()
    state = opt.state
    with pytest.raises(InvalidParameterError, match="noise_std"):
        opt.tell([0], [1.0], noise_std=wrong)
    assert opt.state is state


def test_where_the_noise_of_results_has_no_meaning_it_is_refused():
    opt = ma.Optimizer(Problem(1, n_arms=60).pool, ma.BPE(kernel=KERNEL, horizon=100))
    for name in ("noise_std", "replicates"):
        with pytest.raises(InvalidParameterError, match=f"{name} must be left out"):
            opt.tell(arms=[0], rewards=[1.0], **{name: 2})
        assert not len(opt.history)
