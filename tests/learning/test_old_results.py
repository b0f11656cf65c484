"""Old results: the model agrees with a plain Gaussian process, and unrelated ones are not used."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import InvalidFeaturesError, InvalidParameterError, InvalidRewardError
from manyarms.learning.kernel_families import StationaryFamily
from manyarms.learning.marginal_likelihood import Observations, log_evidence
from manyarms.learning.old_family import WithOldResults


def smooth(seed: int, d: int = 3):
    """A random smooth function of unit variance."""
    rng = np.random.default_rng(seed)
    W, phase, a = rng.normal(size=(40, d)) * 3, rng.uniform(0, 2 * np.pi, 40), rng.normal(size=40)
    return lambda X: np.cos(X @ W.T + phase) @ a / np.sqrt(20)


def data(seed: int, related: bool, n_old: int = 80, n: int = 40):
    rng = np.random.default_rng(seed)
    X, Z, f = rng.uniform(size=(200, 3)), rng.uniform(size=(n_old, 3)), smooth(seed)
    g = f if related else smooth(seed + 1000)
    old = ma.PriorResults(Z, 20.0 - 3.0 * g(Z) + 0.2 * rng.normal(size=n_old))  # another offset and sign
    return X, f(X), old, np.arange(n), f(X[:n]) + 0.1 * rng.normal(size=n)


def test_the_derivatives_of_the_family() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 4))
    family = WithOldResults(StationaryFamily((1.0, 2.0), (0, 1), nu=2.5), 2, (2, 3))
    seen, covariance_at = Observations(np.ones(15), rng.normal(size=15)), family.covariance_on(X)

    def evidence(values):
        return log_evidence(covariance_at(values[:-2]), *np.exp(values[-2:]).tolist(), seen)

    at, step = np.array([0.1, -0.3, 0.5, -0.7, 0.2, -1.0]), 1e-5
    slopes = [
        (evidence(at + step * each).value - evidence(at - step * each).value) / (2 * step)
        for each in np.eye(6)
    ]
    np.testing.assert_allclose(evidence(at).gradient, slopes, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(covariance_at(at[:4]).matrix, family.kernel(at[:4]).matrix(X, X), atol=1e-12)


def test_the_posterior_is_that_of_the_stated_model() -> None:
    """reward = m + b u + g + noise with u the mean of a plain Gaussian process of the old results."""
    X, _, old, arms, rewards = data(1, related=True)
    opt = ma.Optimizer(ma.Pool(X), ma.BKB(oversampling=1e9), prior=old)
    opt.tell(arms=arms, rewards=rewards)
    mean, _ = opt.predict()
    model, encode = opt.model, opt.context.prepared.encode
    (source,) = encode.means
    assert len(source.points) == len(old)
    rows = encode(X)
    np.testing.assert_allclose(
        rows[:, 3], source.kernel.matrix(source.encode(X), source.points) @ source.weights
    )
    base, linear = model.kernel.kernel.parts
    w, s2, u = linear.variance, model.kernel.variance, rows[:, 3]
    K = s2 * (base.kernel.matrix(rows[:, :3], rows[arms, :3]) + w * np.outer(u, u[arms]))
    y = model.transform.forward(rewards) - model.mean
    plain = K @ np.linalg.solve(K[arms] + model.noise_std**2 * np.eye(len(arms)), y)
    np.testing.assert_allclose(mean, model.transform.inverse(plain + model.mean), atol=1e-6)


@pytest.mark.parametrize("related", [True, False])
def test_related_old_results_are_used_and_unrelated_ones_are_not(related: bool) -> None:
    """The errors at arms without a new result, with and without the old results, over six seeds.

    Related: the error falls in every seed (probability 2⁻⁶ by chance). Unrelated: it rises by at most 5 %.
    """
    ratios = []
    for seed in range(6):
        X, y, old, arms, rewards = data(10 + seed, related)
        errors = []
        for prior in ((), old):
            opt = ma.Optimizer(ma.Pool(X), prior=prior)
            opt.tell(arms=arms, rewards=rewards)
            errors.append(np.sqrt(np.mean((opt.predict()[0][40:] - y[40:]) ** 2)))
        ratios.append(errors[1] / errors[0])
    assert max(ratios) < 1.0 if related else np.mean(ratios) < 1.05


def test_they_are_never_offered_and_are_not_results_of_the_run() -> None:
    X, _, old, _, _ = data(3, related=True)
    both = ma.PriorResults(np.vstack([old.features, X[:5]]), np.append(old.values, np.zeros(5)))
    opt = ma.Optimizer(ma.Pool(X), prior=both)
    assert not len(opt.history)
    offered = np.concatenate([opt.ask(50).arms for _ in range(4)])
    assert set(offered.tolist()) == set(range(200))  # every candidate, also those with an old result


def test_the_first_arms_are_good_ones_by_the_old_results() -> None:
    X, y, old, _, _ = data(4, related=True)
    opt = ma.Optimizer(ma.Pool(X), prior=ma.PriorResults(old.features, -old.values))
    first = opt.ask(6).arms
    assert y[first].mean() > np.quantile(y, 0.9)
    low = ma.Optimizer(ma.Pool(X), prior=ma.PriorResults(old.features, -old.values), minimize=True)
    assert y[low.ask(6).arms].mean() < np.quantile(y, 0.1)


def test_several_sources() -> None:
    X, y, good, arms, rewards = data(5, related=True)
    bad = data(6, related=False)[2]
    opt = ma.Optimizer(ma.Pool(X), prior=[bad, good])
    opt.tell(arms=arms, rewards=rewards)
    assert any("source 2 used" in each or "source 1, 2 used" in each for each in opt.model.assumptions)
    assert np.corrcoef(opt.predict()[0], y)[0, 1] > 0.95


def test_saved_runs_keep_them_and_added_arms_get_them(tmp_path) -> None:
    X, _, old, arms, rewards = data(7, related=True)
    opt = ma.Optimizer(ma.Pool(X[:150]), prior=old)
    opt.tell(arms=arms, rewards=rewards, noise_std=0.1)
    opt.forget(opt.ask(3))
    opt.add_arms(X[150:])
    opt.save(tmp_path / "run.npz")
    again = ma.Optimizer.load(tmp_path / "run.npz")
    for mine, other in zip(opt.predict(), again.predict(), strict=True):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(opt.ask(4).arms, again.ask(4).arms)
    whole = ma.Optimizer(ma.Pool(X), prior=old)
    np.testing.assert_allclose(opt.context.prepared.encode(X), whole.context.prepared.encode(X), atol=0.2)


def test_columns_of_frames_are_matched_by_name() -> None:
    pd = pytest.importorskip("pandas")
    X, _, old, _, _ = data(8, related=True)
    pool = ma.Pool(pd.DataFrame(X, columns=["a", "b", "c"]))
    frame = pd.DataFrame(old.features, columns=["a", "b", "c"])[["c", "a", "b"]].assign(other=1.0)
    np.testing.assert_array_equal(ma.PriorResults(frame, old.values).rows_for(pool), old.features)
    with pytest.raises(InvalidParameterError, match="old results with a column 'b'"):
        ma.Optimizer(pool, prior=ma.PriorResults(frame.drop(columns="b"), old.values))


COLOURS = np.array(["red", "green", "blue"])


def mixed(n: int, seed: int):
    """A frame of numbers and a category, and values that depend on both."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    x, kind = rng.random((n, 2)), rng.integers(3, size=n)
    frame = pd.DataFrame({"a": x[:, 0], "colour": pd.Categorical(COLOURS[kind]), "b": x[:, 1]})
    return frame, np.sin(5 * x[:, 0]) + np.array([0.0, 1.0, -1.0])[kind] * x[:, 1]


def test_numbers_and_categories_in_the_library_and_in_saved_runs(tmp_path) -> None:
    frame, f = mixed(150, 0)
    others, g = mixed(90, 1)
    old = ma.PriorResults(others[["colour", "b", "a"]], 30 + 4 * g)
    pool = ma.Pool(frame)
    assert old.rows_for(pool)[0].tolist() == others.iloc[0].tolist()
    opt = ma.Optimizer(pool, seed=0, prior=old)
    first = opt.ask(5)
    assert f[first.arms].mean() > np.quantile(f, 0.7)
    opt.tell(first, f[first.arms])
    opt.save(tmp_path / "run")
    again = ma.Optimizer.load(tmp_path / "run", pool=pool)
    for _ in range(3):
        batch, other = opt.ask(5), again.ask(5)
        assert batch.arms.tolist() == other.arms.tolist()
        opt.tell(batch, f[batch.arms])
        again.tell(other, f[other.arms])
    rows = [[cell if isinstance(cell, str) else float(cell) for cell in row] for row in others.to_numpy()]
    assert ma.PriorResults(rows, g).rows_for(ma.Pool(frame)).tolist() == rows


def test_columns_of_another_kind_are_named() -> None:
    frame, _ = mixed(60, 2)
    others, g = mixed(20, 3)
    swapped = others.assign(b=others["colour"], colour=others["b"])
    with pytest.raises(
        InvalidFeaturesError, match="column 'colour' of the pool holds texts, theirs does not"
    ):
        ma.Optimizer(ma.Pool(frame), prior=ma.PriorResults(swapped, g))
    with pytest.raises(InvalidFeaturesError, match="rows of numbers and texts"):
        ma.PriorResults(ma.Pool([object() for _ in range(5)]), np.ones(5))
    with pytest.raises(InvalidFeaturesError, match="rows of numbers and texts"):
        ma.PriorResults(["ACGT", "ACGA", "TTTT"], np.ones(3))


def test_wrong_old_results_are_refused() -> None:
    X, _, old, _, _ = data(9, related=True)
    pool, Z, y = ma.Pool(X), old.features, old.values
    with pytest.raises(InvalidRewardError, match="nan"):
        ma.PriorResults(Z, np.where(np.arange(80) == 3, np.nan, y))
    with pytest.raises(InvalidFeaturesError):
        ma.PriorResults(np.where(Z > 0.99, np.nan, Z), y)
    with pytest.raises(InvalidRewardError, match="80 rewards"):
        ma.PriorResults(Z, y[:5])
    with pytest.raises(InvalidParameterError, match="at least 3 old results"):
        ma.PriorResults(Z[:2], y[:2])
    with pytest.raises(InvalidParameterError, match="noise_std"):
        ma.PriorResults(Z, y, noise_std=0.0)
    with pytest.raises(InvalidParameterError, match="rows of 3 features"):
        ma.Optimizer(pool, prior=ma.PriorResults(Z[:, :2], y))
    with pytest.raises(InvalidFeaturesError, match="column 0 of the pool holds numbers, theirs does not"):
        ma.Optimizer(pool, prior=ma.PriorResults(np.full((4, 3), "red"), y[:4]))
    with pytest.raises(InvalidParameterError, match="left out where the kernel is given"):
        ma.Optimizer(pool, ma.BBKB(kernel=ma.RBF(1.0), noise_std=0.1), prior=old)
    with pytest.raises(InvalidParameterError, match="left out with QFFTS"):
        ma.Optimizer(pool, ma.QFFTS(), prior=old)
    with pytest.raises(InvalidParameterError, match="PriorResults, or a list of them"):
        ma.Optimizer(pool, prior=[(Z, y)])
    with pytest.raises(InvalidParameterError, match="left out for a box"):
        ma.Optimizer(ma.Box([0.0], [1.0]), prior=old)
    bits = np.random.default_rng(0).integers(0, 256, size=(50, 64)).astype(np.uint8)
    with pytest.raises(InvalidParameterError, match="rows of numbers and categories"):
        ma.Optimizer(ma.Pool(bits), prior=ma.PriorResults(bits[:10], y[:10]))
