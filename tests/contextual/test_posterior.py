"""The streamed posterior agrees with a plain one that remembers every row."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.contextual import renew
from tests.contextual.rounds import Stream, play

KERNEL = ma.RBF(0.4)
RIDGE = 0.04


def plain(Z: np.ndarray, weights: np.ndarray, rewards: np.ndarray, z: np.ndarray, prior: np.ndarray):
    """Mean and variance of ridge regression on rows Z, at rows z, written out."""
    V = (Z.T * weights) @ Z + RIDGE * np.eye(Z.shape[1])
    mean = z @ np.linalg.solve(V, Z.T @ (weights * rewards))
    quadratic = np.einsum("ij,ji->i", z, np.linalg.solve(V, z.T))
    return mean, prior - np.einsum("ij,ij->i", z, z) + RIDGE * quadratic


def basis(points: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """k_S(x) whitened by the Cholesky factor of K_S."""
    factor = np.linalg.cholesky(KERNEL.matrix(points, points))
    return np.linalg.solve(factor, KERNEL.matrix(points, rows)).T


def told_one_by_one(bandit, rows, rewards, **more):
    """Each result is used before the next one is told; the inducing points after each of them."""
    points = []
    for row, reward in zip(rows, rewards, strict=True):
        bandit.tell(rows=row[None], rewards=[reward], **more)
        bandit.forget(bandit.ask(rows[:1]))
        points.append(bandit._state.model.embedding.points.copy())
    return points


def data(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.random((n, 2)), rng.normal(size=n), rng.random((30, 2))


@pytest.mark.parametrize("oversampling", [0.3, 2.0, 1e6])
def test_a_row_stays_what_it_was_when_its_result_was_used(oversampling):
    rows, rewards, new = data(80)
    bandit = ma.ContextualBandit(ma.BKB(kernel=KERNEL, ridge=RIDGE, oversampling=oversampling))
    points = told_one_by_one(bandit, rows, rewards)
    final = points[-1]
    assert 2 < len(final) <= 80
    Z = np.zeros((80, len(final)))
    for i, S in enumerate(points):
        np.testing.assert_array_equal(S, final[: len(S)])  # points are only appended
        Z[i, : len(S)] = basis(S, rows[i : i + 1])
    mean, variance = plain(Z, np.ones(80), rewards, basis(final, new), np.ones(30))
    found = bandit.predict(new)
    np.testing.assert_allclose(found[0], mean, atol=1e-7 * np.abs(mean).max())
    np.testing.assert_allclose(found[1] ** 2, variance, atol=1e-7)
    model = bandit._state.model
    missed = 80 - (Z**2).sum()
    np.testing.assert_allclose(model.missed, missed, atol=1e-7)
    assert np.isclose(model.log_det, np.linalg.slogdet(Z.T @ Z / RIDGE + np.eye(len(final)))[1])
    leverage = plain(Z, np.ones(80), rewards, Z, np.ones(80))[1] / RIDGE
    assert np.isclose(model.effective_dimension, leverage.sum())


def test_every_row_inducing_is_the_exact_process():
    rows, rewards, new = data(40)
    bandit = ma.ContextualBandit(ma.GPUCB(kernel=KERNEL, ridge=RIDGE))
    bandit.tell(rows=rows, rewards=rewards)
    noisy = KERNEL.matrix(rows, rows) + RIDGE * np.eye(40)
    cross = KERNEL.matrix(new, rows)
    mean = cross @ np.linalg.solve(noisy, rewards)
    variance = 1 - np.einsum("ij,ji->i", cross, np.linalg.solve(noisy, cross.T))
    found = bandit.predict(new)
    np.testing.assert_allclose(found[0], mean, atol=1e-7 * np.abs(mean).max())
    np.testing.assert_allclose(found[1] ** 2, variance, atol=1e-8)


def test_repeated_rows_are_counted_together():
    rows, rewards, new = data(12)
    at_once = ma.ContextualBandit(ma.GPUCB(kernel=KERNEL, ridge=RIDGE))
    at_once.tell(rows=np.repeat(rows, 5, axis=0), rewards=np.repeat(rewards, 5))
    averages = ma.ContextualBandit(ma.GPUCB(kernel=KERNEL, ridge=RIDGE))
    averages.tell(rows=rows, rewards=rewards, noise_std=np.sqrt(RIDGE / 5))
    for found, expected in zip(at_once.predict(new), averages.predict(new), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    at_once.ask(new)
    assert at_once.inducing_points == 12
    assert at_once.pulls == 60


def test_noise_of_a_single_result():
    """A result of noise_std s is a Gaussian process with s² in place of λ on its diagonal."""
    rows, rewards, new = data(20)
    noise = np.linspace(0.05, 2.0, 20)
    bandit = ma.ContextualBandit(ma.GPUCB(kernel=KERNEL, ridge=RIDGE))
    bandit.tell(rows=rows, rewards=rewards, noise_std=noise)
    noisy = KERNEL.matrix(rows, rows) + np.diag(noise**2)
    cross = KERNEL.matrix(new, rows)
    np.testing.assert_allclose(bandit.predict(new)[0], cross @ np.linalg.solve(noisy, rewards), atol=1e-8)


def test_dropping_points_projects_the_past_rows():
    """After a drop, the posterior is that of all past rows projected on the points that are left."""
    rows, rewards, new = data(60)
    bandit = ma.ContextualBandit(ma.GPUCB(kernel=KERNEL, ridge=RIDGE), max_inducing=None)
    bandit.tell(rows=rows, rewards=rewards)
    bandit.forget(bandit.ask(new))
    whole = bandit._state.model
    short, T = whole.limited(12)
    kept = short.embedding.points
    assert len(kept) == 10  # nine tenths of the limit
    assert T.shape == (10, whole.size)
    Z = basis(kept, rows)
    mean, variance = plain(Z, np.ones(60), rewards, basis(kept, new), np.ones(30))
    values = short.at(new, 1.0)
    np.testing.assert_allclose(values.mean, mean, atol=1e-6 * np.abs(mean).max())
    np.testing.assert_allclose(RIDGE * values.leverage, variance, atol=1e-7)
    np.testing.assert_allclose(short.missed, 60 - (Z**2).sum(), rtol=1e-4)


def test_the_dropped_points_explain_least():
    """Dropping one point loses M_ss/(K⁻¹)_ss of Σ‖z‖²: compared with each drop in turn."""
    rows, rewards, new = data(15)
    bandit = ma.ContextualBandit(ma.BKB(kernel=KERNEL, ridge=RIDGE))
    bandit.tell(rows=rows, rewards=rewards)
    bandit.forget(bandit.ask(new))
    model = bandit._state.model
    points = model.embedding.points
    left = [(basis(np.delete(points, s, axis=0), rows) ** 2).sum() for s in range(len(points))]
    short, _ = model._restricted(model.embedding, np.delete(np.arange(len(points)), int(np.argmax(left))))
    one_fewer, _ = model.limited(int(np.ceil(len(points) - 1)))
    assert len(one_fewer.embedding.points) <= len(points) - 1
    dropped = [s for s in range(len(points)) if not (one_fewer.embedding.points == points[s]).all(1).any()]
    assert int(np.argmax(left)) in dropped
    assert np.trace(short.regression.gram) == pytest.approx(max(left), rel=1e-6)


@pytest.mark.parametrize("oversampling", [1.0, 1e6])
def test_a_window_keeps_the_last_results_alone(oversampling):
    rows, rewards, new = data(90)
    policy = ma.BKB(kernel=KERNEL, ridge=RIDGE, oversampling=oversampling)
    bandit = ma.ContextualBandit(policy, window=25)
    points = told_one_by_one(bandit, rows, rewards)
    final = points[-1]
    Z = np.zeros((25, len(final)))
    for i, (S, row) in enumerate(zip(points[-25:], rows[-25:], strict=True)):
        Z[i, : len(S)] = basis(S, row[None])
    mean, variance = plain(Z, np.ones(25), rewards[-25:], basis(final, new), np.ones(30))
    found = bandit.predict(new)
    np.testing.assert_allclose(found[0], mean, atol=1e-6 * np.abs(mean).max())
    np.testing.assert_allclose(found[1] ** 2, variance, atol=1e-6)
    assert len(bandit._state.window) == 25


def test_a_window_also_slides_after_points_were_dropped():
    stream = Stream(0)
    bandit = ma.ContextualBandit(ma.BKB(kernel=stream.kernel, width=2.0), window=50, max_inducing=20)
    play(bandit, stream, 400)
    model, window = bandit._state.model, bandit._state.window
    Z = np.zeros((50, model.size))
    for i, one in enumerate(window):
        Z[i, : len(one.z)] = one.z
    np.testing.assert_allclose(model.regression.gram, Z.T @ Z, atol=1e-9)
    np.testing.assert_allclose(model.regression.moment, Z.T @ [one.total for one in window], atol=1e-9)
    V = Z.T @ Z + model.ridge * np.eye(model.size)
    np.testing.assert_allclose(model.regression.precision.apply(V), np.eye(model.size), atol=1e-7)


def test_forgetting_weighs_a_result_by_its_age_in_rounds():
    rows, rewards, new = data(30)
    bandit = ma.ContextualBandit(ma.GPUCB(kernel=KERNEL, ridge=RIDGE), forgetting=0.9)
    told_one_by_one(bandit, rows, rewards)
    weights = 0.9 ** np.arange(29, -1, -1)
    noisy = KERNEL.matrix(rows, rows) + RIDGE * np.diag(1 / weights)
    cross = KERNEL.matrix(new, rows)
    np.testing.assert_allclose(bandit.predict(new)[0], cross @ np.linalg.solve(noisy, rewards), atol=1e-6)


def test_a_late_result_has_the_weight_of_its_round():
    rows, rewards, new = data(30)
    bandit = ma.ContextualBandit(ma.GPUCB(kernel=KERNEL, ridge=RIDGE), forgetting=0.8)
    picks = [bandit.ask(row[None]) for row in rows]
    bandit.tell([pick.ticket for pick in picks], rewards)
    weights = 0.8 ** np.arange(29, -1, -1)
    noisy = KERNEL.matrix(rows, rows) + RIDGE * np.diag(1 / weights)
    cross = KERNEL.matrix(new, rows)
    np.testing.assert_allclose(bandit.predict(new)[0], cross @ np.linalg.solve(noisy, rewards), atol=1e-6)


@pytest.mark.parametrize("settings", [{"forgetting": 0.97}, {"window": 60}])
def test_a_drifting_reward_is_followed(settings):
    """The best arm changes after 300 rounds. Forgetting finds the new one; 2 seeds, each alone must."""
    rows = np.linspace(0, 1, 6)[:, None]
    for seed in range(2):
        noise = np.random.default_rng(seed).normal(size=600) * 0.1
        late = {}
        for name, more in (("stationary", {}), ("drift", settings)):
            policy = ma.BKB(kernel=ma.RBF(0.1), noise_std=0.1, width=2.0)
            bandit = ma.ContextualBandit(policy, seed, **more)
            chosen = []
            for t in range(600):
                truth = np.where(np.arange(6) == (1 if t < 300 else 4), 1.0, 0.2)
                truth[1] = 1.0 if t < 300 else 0.0
                pick = bandit.ask(rows)
                bandit.tell(pick, truth[pick.index] + noise[t])
                chosen.append(pick.index)
            late[name] = chosen[450:].count(4)
        assert late["drift"] > 100, late
        assert late["drift"] > late["stationary"], late


def test_rounding_errors_do_not_grow():
    """V⁻¹ after 2 500 updates against one computed from V."""
    stream = Stream(1)
    bandit = ma.ContextualBandit(ma.BKB(kernel=stream.kernel, width=2.0))
    play(bandit, stream, 2500)
    regression = bandit._state.model.regression
    V = regression.gram + regression.ridge * np.eye(regression.size)
    np.testing.assert_allclose(regression.precision.apply(V), np.eye(regression.size), atol=1e-8)
    np.testing.assert_allclose(
        V @ regression.vector, regression.moment, atol=1e-7 * np.abs(regression.moment).max()
    )


class Measured(ma.RBF):
    """A kernel that records the largest matrix that it was asked for."""

    largest = 0

    def matrix(self, X, Y):
        Measured.largest = max(Measured.largest, len(X) * len(Y))
        return super().matrix(X, Y)


def test_a_long_log_is_used_in_blocks_and_gives_the_exact_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows were compared with each other all at once: 20 000 of them took 3 GB."""
    monkeypatch.setattr(renew, "MOST_AT_ONCE", 64)
    rows, rewards, new = data(400)
    policy = ma.BKB(kernel=Measured(0.4), ridge=RIDGE, oversampling=1e6)
    bandit = ma.ContextualBandit(policy, max_inducing=None)
    bandit.tell(rows=rows, rewards=rewards)
    mean, std = bandit.predict(new)
    bandit.ask(new)
    size = bandit.inducing_points
    assert size < 300
    assert Measured.largest <= max(64 * 64, 64 * size)
    cross, noisy = KERNEL.matrix(new, rows), KERNEL.matrix(rows, rows) + RIDGE * np.eye(400)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(noisy, rewards), atol=1e-6)
    variance = 1.0 - np.einsum("ij,ji->i", cross, np.linalg.solve(noisy, cross.T))
    np.testing.assert_allclose(std**2, variance, atol=1e-6)
    assert bandit.pulls == 400
