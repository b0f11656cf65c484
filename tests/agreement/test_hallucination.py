"""Hallucinated pulls condition the whole posterior covariance, whatever their order and storage."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.posterior.covariance import PulledCovariance
from manyarms.posterior.hallucination import Hallucination
from tests.oracle import Ledger, hallucinated
from tests.runs import Problem

RIDGE = 0.2


def halfway(problem: Problem) -> tuple[ma.Posterior, Ledger]:
    """A posterior whose sketch spans 12 of the 20 arms pulled."""
    posterior = ma.Posterior(problem.pool, problem.kernel, RIDGE)
    posterior.update(range(12), range(20), np.zeros(20))
    ledger = Ledger(problem.pool.n_arms)
    ledger.pull(range(20), np.zeros(20))
    return posterior, ledger


@pytest.mark.parametrize("seed", range(5))
def test_long_alternating_batches_agree_with_the_dense_covariance(seed):
    """500 pulls of a few arms in random order: directions are merged by arm many times."""
    problem = Problem(seed, n_arms=60)
    posterior, ledger = halfway(problem)
    rng, pending = np.random.default_rng(seed), []
    overlay = Hallucination(posterior)
    overlay.watch(range(30))
    for step in range(500):
        arm = int(rng.choice([3, 7, 25, 40, 59]))
        before = overlay.leverage([arm])[0]
        overlay.pull(arm)
        pending.append(arm)
        assert overlay.leverage_before[-1] == pytest.approx(before, rel=1e-8)
        if step == 250:
            overlay.watch(range(30, 60))
        if step % 50 == 0:
            expected = hallucinated(
                problem.kernel, problem.pool.features, RIDGE, posterior.inducing, ledger, pending
            )
            np.testing.assert_allclose(overlay.leverage(), expected, rtol=1e-7)
            np.testing.assert_allclose(overlay.leverage([1, 40]), expected[[1, 40]], rtol=1e-7)
            np.testing.assert_allclose(overlay.watched_leverage, expected[overlay.watched], rtol=1e-7)
    assert overlay._n_past < 50, "one direction per different arm, not per pull"


@pytest.mark.parametrize("seed", range(5))
def test_with_every_pulled_arm_inducing_they_are_real_pulls(seed):
    problem = Problem(seed, n_arms=80)
    rng = np.random.default_rng(seed)
    told, pending = rng.integers(80, size=15), rng.integers(80, size=25)
    posterior = ma.Posterior(problem.pool, problem.kernel, RIDGE)
    posterior.update(told, told, np.zeros(15))
    overlay = Hallucination(posterior)
    for arm in pending.tolist():
        overlay.pull(arm)
    exact = ma.Posterior(problem.pool, problem.kernel, RIDGE)
    everything = np.concatenate([told, pending])
    exact.update(everything, everything, np.zeros(40))
    np.testing.assert_allclose(overlay.leverage(), exact.leverage, rtol=1e-6)


def test_an_arm_outside_the_span_loses_its_variance():
    """Through z alone it kept its residual however often it was pending."""
    problem = Problem(0, n_arms=60)
    posterior, _ = halfway(problem)
    arm = int(np.argmax(posterior.leverage))
    overlay = Hallucination(posterior)
    overlay.pull(arm, times=2)
    before = posterior.leverage[arm]
    assert overlay.leverage([arm])[0] == pytest.approx(before / (1 + 2 * before), rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_realised_ratio_bounds_every_variance_and_is_attained(seed):
    problem = Problem(seed, n_arms=60)
    posterior, _ = halfway(problem)
    overlay, rng, total = Hallucination(posterior), np.random.default_rng(seed), 1.0
    assert overlay.realised_ratio() == 1.0
    for step in range(30):
        arm = int(rng.integers(60))
        overlay.pull(arm)
        total += posterior.leverage[arm]
        found = (posterior.leverage / overlay.leverage()).max()
        assert found <= overlay.realised_ratio() * (1 + 1e-9)
        assert overlay.realised_ratio() <= total * (1 + 1e-9)
        if not step:
            assert overlay.realised_ratio() == pytest.approx(found)
    alone = Hallucination(posterior)
    alone.pull(7, times=50)
    ratio = posterior.leverage[7] / alone.leverage([7])[0]
    assert alone.realised_ratio() == pytest.approx(ratio)


@pytest.mark.parametrize("seed", range(5))
def test_the_excess_is_that_of_the_realised_ratio_and_rarely_needs_it(seed, monkeypatch):
    problem, computed = Problem(seed, n_arms=60), []
    posterior, _ = halfway(problem)
    overlay, rng = Hallucination(posterior), np.random.default_rng(seed)
    plain = Hallucination.realised_ratio
    monkeypatch.setattr(Hallucination, "realised_ratio", lambda self: computed.append(1) or plain(self))
    for _ in range(40):
        overlay.pull(int(rng.integers(60)))
        allowed = 1.0 + float(rng.exponential(plain(overlay)))
        assert overlay.excess(allowed) == max(1.0, plain(overlay) / allowed)
        assert overlay.excess(np.inf) == 1.0
    assert 0 < len(computed) < 40
    overlay.undo(20)
    assert overlay.excess(1.0) == plain(overlay)


def test_many_different_pulls_use_an_iterative_eigenvalue():
    problem = Problem(1, n_arms=400)
    posterior = ma.Posterior(problem.pool, problem.kernel, RIDGE)
    posterior.update(range(5), range(5), np.zeros(5))
    overlay = Hallucination(posterior)
    for arm in range(250):
        overlay.pull(arm)
    apart = PulledCovariance(posterior)
    for arm in range(250):
        apart.add(arm)
    C = apart.with_all(apart.rows_of(np.arange(250)))
    assert overlay.realised_ratio() == pytest.approx(1 + np.linalg.eigvalsh(C)[-1], rel=1e-8)


@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize("kernel", [ma.RBF(0.3), ma.Matern(0.5, nu=0.5), ma.Linear(bias=1.0), ma.RBF(5.0)])
def test_variances_only_fall_and_never_below_what_pulls_of_an_arm_alone_explain(kernel, storage):
    """Near-dependent arms and single precision: no negative variance and no rise."""
    rng = np.random.default_rng(0)
    features = rng.random((200, 2))
    features[100:] = features[:100] + 1e-7 * rng.random((100, 2))
    posterior = ma.Posterior(ma.Pool(features), kernel, 1e-3, storage=storage)
    posterior.update(range(0, 40, 2), range(40), np.zeros(40))
    overlay, before = Hallucination(posterior), posterior.leverage.copy()
    slack = 1e-9 if storage == "float64" else 1e-4
    for arm in rng.integers(200, size=60).tolist():
        overlay.pull(arm)
        now = overlay.leverage()
        assert (now >= 0).all()
        assert (now <= before + slack * posterior.leverage.max()).all()
        before = now


@pytest.mark.parametrize("policy", [ma.RFFTS(kernel=ma.RBF(0.3)), ma.SoRUCB(kernel=ma.RBF(0.3)), ma.OFUL()])
def test_without_a_residual_pulls_act_through_z_alone(policy):
    problem = Problem(2, n_arms=50)
    opt = ma.Optimizer(problem.pool, policy, seed=0)
    problem.run(opt, 20)
    posterior = opt.posterior
    overlay = Hallucination(posterior)
    for arm in (3, 30, 3):
        overlay.pull(arm)
    Z = posterior.rows(np.arange(50))
    C = Z @ posterior.state.weights.precision.apply(Z.T)
    for arm in (3, 30, 3):
        C = C - np.outer(C[:, arm], C[arm]) / (1 + C[arm, arm])
    np.testing.assert_allclose(overlay.leverage(), np.diag(C), rtol=1e-6, atol=1e-9)


def test_undo_takes_back_and_the_posterior_never_moves():
    problem = Problem(0, n_arms=60)
    posterior = ma.Posterior(problem.pool, problem.kernel, RIDGE)
    posterior.update([1, 2], [1, 2, 2], [0.1, 0.2, 0.3])
    before = posterior.leverage.copy()
    overlay = Hallucination(posterior)
    overlay.watch([5, 6])
    for arm in (4, 4, 5, 4):
        overlay.pull(arm)
    overlay.undo(2)
    assert overlay.pulls == [4, 4]
    assert len(overlay.leverage_before) == 2
    other = Hallucination(posterior)
    other.pull(4, times=2)
    np.testing.assert_allclose(overlay.leverage(), other.leverage(), rtol=1e-12)
    np.testing.assert_allclose(overlay.watched_leverage, other.leverage([5, 6]), rtol=1e-12)
    assert (posterior.leverage == before).all()
