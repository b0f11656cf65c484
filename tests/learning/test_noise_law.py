"""Noise that differs between arms: the law that repeated results show, against plain computations."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

import manyarms as ma
from benchmarks.uneven_noise import table
from manyarms.learning import LearnedModel, learn, model_from, prepare
from manyarms.learning.compared import observations_at
from manyarms.learning.kernel_families import StationaryFamily
from manyarms.learning.marginal_likelihood import MEAN_VARIANCE, log_evidence
from manyarms.learning.noise_law import BY_FEATURES, BY_VALUE, Expansion, NoiseLaw
from manyarms.learning.reward_transforms import Standardised, arm_averages, targets
from manyarms.learning.scatter_laplace import Scatters, laplace
from manyarms.posterior.history import History
from manyarms.posterior.own_noise import OwnNoise
from manyarms.run.further_gain import _effects, gain_of
from manyarms.run.gap_estimate import posterior_covariance
from manyarms.support.archive import read_archive, write_archive

FAMILY = StationaryFamily((1.0, 1.0), (0, 0), nu=2.5)


# ---------------------------------------------------------------------- the evidence of scatters


@pytest.mark.parametrize("kappa", [1e6, 10.0, 4.0])
def test_the_likelihood_is_that_of_a_ratio_of_chi_squares(kappa: float) -> None:
    """Up to what depends on the scatters alone; for a large κ it is that of χ² variables."""
    freedom, scatters = np.array([1.0, 2.0, 5.0]), np.array([0.3, 4.0, 1.0])
    differences = []
    for latent in (np.zeros(3), np.array([0.5, -1.0, 2.0])):
        variances = np.exp(latent)
        plain = stats.betaprime.logpdf(scatters / variances / kappa, freedom / 2, kappa / 2)
        if kappa > 1e3:
            plain = stats.chi2.logpdf(scatters / variances, freedom) + math.log(kappa)
        differences.append(
            Scatters(scatters, freedom, kappa).log_likelihood(latent)
            - float((plain - np.log(kappa * variances)).sum())
        )
    assert differences[0] == pytest.approx(differences[1], abs=1e-4)


@pytest.mark.parametrize("kappa", [1e6, 4.0])
def test_slopes_and_curvatures_of_the_likelihood(kappa: float) -> None:
    seen, at, step = Scatters(np.array([0.0, 2.0]), np.array([1.0, 3.0]), kappa), np.array([0.4, -0.7]), 1e-4
    for place in range(2):
        move = step * np.eye(2)[place]
        values = [seen.log_likelihood(at + times * move) for times in (-1, 0, 1)]
        assert seen.slope(at)[place] == pytest.approx((values[2] - values[0]) / (2 * step), abs=1e-6)
        curvature = -(seen.slope(at + move) - seen.slope(at - move))[place] / (2 * step)
        assert seen.curvature(at)[place] == pytest.approx(curvature, abs=1e-6)


def test_the_evidence_of_a_straight_line_is_an_integral_over_level_and_slope() -> None:
    """Laplace's approximation against quadrature, for 30 arms whose log variance grows by one per unit."""
    rng = np.random.default_rng(0)
    z = np.linspace(-1.5, 1.5, 30)
    scatters = np.exp(z) * rng.chisquare(1, 30)
    seen = Scatters(scatters, np.ones(30), 1e6)
    found = laplace(9.0 + np.outer(z, z), 0.0, seen)

    def density(slope: float, level: float) -> float:
        prior = stats.norm.logpdf(level, 0, 3) + stats.norm.logpdf(slope, 0, 1)
        return math.exp(seen.log_likelihood(level + slope * z) + prior - found.log_evidence)

    integral, _ = integrate.dblquad(density, -3, 3, -3, 4, epsabs=1e-4)
    assert math.log(integral) == pytest.approx(0.0, abs=0.05)


# ---------------------------------------------------------------------- a plain Gaussian process


def some_law(features: np.ndarray) -> NoiseLaw:
    kernel, weights = FAMILY.kernel(np.array([0.5])), np.array([1.5, -1.0, 0.7])
    return NoiseLaw(Expansion(kernel, features[:3], weights), 0.1, -2.0, 1.0, BY_FEATURES)


def test_the_evidence_is_that_of_single_results_with_the_noise_of_the_law() -> None:
    """Up to a constant of the data, which is the same for all parameters and for all laws.

    Some results state their noise, and some are means of several measurements.
    """
    rng = np.random.default_rng(0)
    X, arms, rewards = rng.normal(size=(12, 2)), rng.integers(12, size=40), rng.normal(size=40)
    kind = rng.integers(3, size=40)
    noise = OwnNoise(np.where(kind == 2, 4.0, 1.0), np.where(kind == 1, 0.4, np.nan))
    history, law = History(12).recorded(arms, rewards, noise), some_law(X)
    unweighed, pool, differences = targets(history, Standardised()), ma.Pool(X), []
    everything, features = np.arange(len(unweighed.arms)), X[arm_averages(history).arms]
    for used in (law, replace(law, centre=1.0, high=2.0)):
        seen = observations_at(used.on(unweighed, pool), everything)
        surplus = used.log_weights(unweighed, everything, pool)
        for signal, learned, theta in ((1.0, 0.2, 0.3), (2.5, 0.05, -0.5), (0.4, 3.0, 1.0)):
            found = log_evidence(FAMILY.covariance_on(features)(np.array([theta])), signal, learned, seen)
            own = np.where(kind == 1, 0.4**2, learned * used.factors(X[arms]) / noise.replicates)
            K = FAMILY.kernel(np.array([theta])).matrix(X[arms], X[arms])
            C = signal * K + MEAN_VARIANCE + np.diag(own)
            plain = -0.5 * (rewards @ np.linalg.solve(C, rewards) + np.linalg.slogdet(2 * np.pi * C)[1])
            differences.append(found.value - surplus - plain)
    np.testing.assert_allclose(differences, differences[0], atol=1e-7)


def repeated(
    seed: int, kind: str, repeats: int = 3, n_arms: int = 60, **settings
) -> tuple[ma.Optimizer, np.ndarray]:
    """A run told `repeats` results of the first arms of a table, and the noise of each arm."""
    here, rng = table(seed, kind, 2 * n_arms), np.random.default_rng(seed)
    opt = ma.Optimizer(ma.Pool(here.features), ma.BKB(oversampling=1e9), **settings)
    arms = np.repeat(np.arange(n_arms), repeats)
    opt.tell(arms=arms, rewards=here.values[arms] + here.noise[arms] * rng.normal(size=len(arms)))
    return opt, here.noise


def plain_posterior(
    opt: ma.Optimizer, model: LearnedModel, seen: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f at all arms; `seen` are the arms and numbers of results of these averages."""
    X = opt.context.encoded_pool.features
    K = model.kernel.matrix(X[seen[0]], X[seen[0]])
    own = model.noise_std**2 * model.noise_law.factors(X[seen[0]]) / seen[1]
    cross = model.kernel.matrix(X, X[seen[0]])
    solved = np.linalg.solve(K + np.diag(own), cross.T)
    return solved.T @ values, model.kernel.diag(X) - np.einsum("ij,ji->i", cross, solved)


@pytest.mark.parametrize("minimize", [False, True])
def test_the_posterior_is_that_of_one_noise_variance_for_each_arm(minimize: bool) -> None:
    opt, _ = repeated(0, "grows 10 times", minimize=minimize)
    model, sign = opt.model, -1.0 if minimize else 1.0
    assert model.noise_law.depends_on == BY_VALUE
    order = np.argsort(opt.history.arms)
    arms, counts = opt.history.arms[order], opt.history.counts[order]
    averages = (opt.history.sums / opt.history.counts)[order]
    y = model.transform.forward(sign * averages) - model.mean
    mean, variance = plain_posterior(opt, model, (arms, counts), y)
    expected = sign * model.transform.inverse(mean + model.mean)
    np.testing.assert_allclose(opt.predict()[0], expected, atol=1e-6)
    own = model.noise_law.factors(opt.context.encoded_pool.features) * model.noise_std**2
    std = np.sqrt(model.std_factor**2 * variance + own)
    ends = [model.transform.inverse(mean + model.mean + side * 1.6448536 * std) for side in (-sign, sign)]
    np.testing.assert_allclose(opt.interval(np.arange(120)), sign * np.array(ends), atol=1e-5)
    told = opt.explain([100])[0]
    assert (told.lower, told.upper) == pytest.approx([each[0] for each in opt.interval([100])])


def test_results_between_two_fits_have_the_noise_of_the_law() -> None:
    opt, _ = repeated(1, "grows 10 times")
    opt.forget(opt.ask(1))
    model = opt.model
    opt.tell(arms=[80, 81, 80], rewards=[0.3, -0.2, 0.5], replicates=[1, 2, 1])
    assert opt.model == model  # not learned again
    order = np.argsort(opt.history.arms)
    arms, counts = opt.history.arms[order], opt.history.counts[order]
    averages = (opt.history.sums / opt.history.counts)[order]
    y = model.transform.forward(averages) - model.mean
    y[-2] = model.transform.forward(np.array([0.3, 0.5])).mean() - model.mean
    assert list(arms[-2:]) == [80, 81]
    mean, _ = plain_posterior(opt, model, (arms, np.append(counts[:-1], 2.0)), y)
    np.testing.assert_allclose(opt.predict()[0], model.transform.inverse(mean + model.mean), atol=1e-6)


def test_the_estimate_of_the_gap_counts_results_and_not_their_weights() -> None:
    opt, _ = repeated(0, "grows 10 times")
    assert opt.model.noise_law is not None
    assert opt.certificate().pulls == 180 != opt._looked_ahead().belief.state.pulls


def test_further_results_of_noisy_arms_are_expected_to_say_less() -> None:
    """What the results of two arms are expected to change, by the formula for noise of different variance."""
    opt, noise = repeated(0, "grows 10 times")
    opt.forget(opt.ask(1))
    state = opt.state
    belief, order = state.belief, np.argsort(noise)
    factors = belief.noise_factors(np.arange(120))
    assert np.corrcoef(np.log(factors), np.log(noise))[0, 1] > 0.8
    two = np.array([70, 90])
    covariance, own = posterior_covariance(belief, two), belief.state.ridge * factors[two]
    effects = _effects(covariance, np.arange(2), own)
    expected = covariance @ np.linalg.solve(covariance + np.diag(own), covariance)
    np.testing.assert_allclose(effects.T @ effects, expected, atol=1e-8)
    constant = replace(state, belief=replace(belief, model=replace(belief.model, noise_law=None)))
    gains = [gain_of(opt.context, each, order[-10:]).gain for each in (state, constant)]
    assert gains[0] < gains[1]  # of the noisiest arms


def test_candidates_are_left_out_with_the_noise_of_the_law() -> None:
    """The predictions of the chart of agreement, one Gaussian process for each arm left out."""
    opt, _ = repeated(0, "grows 10 times", n_arms=30)
    model, pairs = opt.model, ma.plots.predicted_data(opt).pairs
    order = np.argsort(opt.history.arms)
    arms, averages = opt.history.arms[order], (opt.history.sums / opt.history.counts)[order]
    X = opt.context.encoded_pool.features[arms]
    own = model.noise_std**2 * model.noise_law.factors(X) / 3.0
    C = model.kernel.matrix(X, X) + np.diag(own)
    y = model.transform.forward(averages) - model.mean
    for place, pair in enumerate(pairs):
        rest = np.arange(30) != place
        mean = C[place, rest] @ np.linalg.solve(C[np.ix_(rest, rest)], y[rest])
        expected = model.transform.inverse(np.array([mean + model.mean]))[0]
        assert pair.predicted == pytest.approx(expected, abs=1e-6)


def test_a_law_beside_old_results() -> None:
    here, rng = table(0, "grows 10 times", 160), np.random.default_rng(0)
    old = ma.PriorResults(here.features[80:], here.values[80:] + 0.3 * rng.normal(size=80))
    opt = ma.Optimizer(ma.Pool(here.features[:80]), seed=0, prior=old)
    arms = np.repeat(np.arange(60), 3)
    opt.tell(arms=arms, rewards=here.values[arms] + here.noise[arms] * rng.normal(size=180))
    assert opt.model.noise_law is not None
    factors = opt._looked_ahead().belief.noise_factors(np.arange(80))
    assert np.corrcoef(np.log(factors), np.log(here.noise[:80]))[0, 1] > 0.8


def test_a_law_in_a_box() -> None:
    """Points of a box are measured three times, with ten times as much noise on one side."""
    rng = np.random.default_rng(0)
    opt = ma.Optimizer(ma.Box([0.0, 0.0], [1.0, 1.0]), seed=0)
    for _ in range(3):
        batch = opt.ask(10)
        points = opt.points(batch)
        for turn in range(3):
            rewards = np.sin(4 * points[:, 1]) + 0.05 * 10 ** points[:, 0] * rng.normal(size=10)
            opt.tell(**({"arms": batch.arms} if turn else {"tickets": batch}), rewards=rewards)
    assert opt.model.noise_law.depends_on == BY_FEATURES
    assert len(opt.ask(3)) == 3


def test_an_estimator_weighs_all_rows_equally() -> None:
    pytest.importorskip("sklearn")
    from manyarms.sklearn import SparseGPRegressor

    here, rng = table(0, "grows 10 times", 60), np.random.default_rng(0)
    X, std = np.repeat(here.features, 3, axis=0), np.repeat(here.noise, 3)
    fitted = SparseGPRegressor(kernel="auto").fit(X, np.repeat(here.values, 3) + std * rng.normal(size=180))
    assert fitted.model_.noise_law is None


# ---------------------------------------------------------------------- when there is a law


def learned(seed: int, kind: str, draw: str = "normal", n_arms: int = 60, repeats: int = 2) -> LearnedModel:
    here, rng = table(seed, kind, n_arms), np.random.default_rng(1000 + seed)
    arms = np.repeat(np.arange(n_arms), repeats)
    noise = (
        rng.normal(size=len(arms)) if draw == "normal" else rng.standard_t(3, size=len(arms)) / math.sqrt(3)
    )
    history = History(n_arms).added(arms, here.values[arms] + here.noise[arms] * noise)
    return learn(prepare(ma.Pool(here.features)), history, np.random.default_rng(0))


def largest_allowed(n: int, share: float = 0.05, level: float = 0.01) -> int:
    """The number of laws among n runs that a share of `share` exceeds with probability `level`."""
    return int(stats.binom.ppf(1 - level, n, share))


@pytest.mark.parametrize("draw", ["normal", "heavy tails"])
@pytest.mark.parametrize("seeds", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_constant_noise_is_recognised(draw: str, seeds: int) -> None:
    """A law is used in at most 5 % of tables, at a significance level of 1 %; with heavy tails too."""
    used = sum(learned(seed, "constant", draw, n_arms=40).noise_law is not None for seed in range(seeds))
    assert used <= largest_allowed(seeds)


@pytest.mark.parametrize(
    ("kind", "depends_on"),
    [("grows 10 times", BY_VALUE), ("falls 7 times", BY_VALUE), ("along a column, 7 times", BY_FEATURES)],
)
def test_the_law_is_recovered(kind: str, depends_on: str) -> None:
    """120 arms in duplicate: the logarithm of the noise is known to 0.3 of 0.6 to 0.8 without the law."""
    for seed in range(3):
        model, here = learned(seed, kind, n_arms=120), table(seed, kind, 120)
        assert model.noise_law.depends_on == depends_on
        assert any("repeated results show that the noise depends on" in each for each in model.assumptions)
        middle = model.transform.forward(here.values)
        std = model.noise_std * np.sqrt(
            model.noise_law.factors(prepare(ma.Pool(here.features)).pool.features)
        )
        found = 0.5 * (model.transform.inverse(middle + std) - model.transform.inverse(middle - std))
        errors = np.log(found / here.noise)
        assert np.sqrt(np.mean(errors**2)) < 0.3 < 0.5 < np.log(here.noise).std()


@pytest.mark.parametrize("seed", [90, 103])
def test_a_law_that_undoes_a_wrong_scale_is_not_used(seed: int) -> None:
    """Constant noise; the averages are a little skewed, and a law repairs what a bent scale does to it."""
    model = learned(seed, "constant", n_arms=40)
    assert model.noise_law is None
    assert isinstance(model.transform, Standardised)


def test_few_repeated_results_say_nothing() -> None:
    model = learned(0, "grows 10 times", n_arms=5, repeats=2)
    assert model.noise_law is None
    assert "noise_law" not in model.describe()


@pytest.mark.parametrize("repeats", [1, 2])
def test_without_a_law_the_arms_are_those_of_a_constant_noise(repeats: int) -> None:
    """Without repeated results, and with those of a constant noise, to the last bit."""
    here = table(3, "constant" if repeats > 1 else "grows 10 times", 300)
    runs = []
    for constant in (False, True):
        prepared = replace(prepare(ma.Pool(here.features)), constant_noise=constant)
        rng = np.random.default_rng(0)
        runs.append(ma.Optimizer(prepared.pool, seed=1, prepared=prepared))
        for _ in range(6):
            batch = runs[-1].ask(8)
            for turn in range(repeats):
                rewards = here.values[batch.arms] + here.noise[batch.arms] * rng.normal(size=8)
                runs[-1].tell(**({"arms": batch.arms} if turn else {"tickets": batch}), rewards=rewards)
    np.testing.assert_array_equal(*(run.history.arms for run in runs))
    np.testing.assert_array_equal(*(run.predict() for run in runs))
    assert runs[0].model == runs[1].model


def test_a_noise_that_a_scale_of_the_rewards_absorbs_needs_no_law() -> None:
    """Noise proportional to values that span two orders of magnitude: constant on a logarithmic scale."""
    here, rng = table(0, "constant", 80), np.random.default_rng(0)
    arms = np.repeat(np.arange(80), 2)
    rewards = np.exp(1.5 * here.values[arms] + 0.2 * rng.normal(size=160))
    model = learn(prepare(ma.Pool(here.features)), History(80).added(arms, rewards), np.random.default_rng(0))
    assert model.transform.describe()["transform"] == "logarithm"
    assert model.noise_law is None


# ---------------------------------------------------------------------- intervals


def cover(seed: int, kind: str, constant: bool) -> tuple[float, float]:
    """The share of further results of new arms in their 90 % intervals, in the quiet and the noisy half."""
    here, rng = table(seed, kind, 500), np.random.default_rng(seed)
    prepared = replace(prepare(ma.Pool(here.features)), constant_noise=constant)
    opt = ma.Optimizer(prepared.pool, ma.BKB(oversampling=1e9), prepared=prepared)
    arms, new = np.repeat(np.arange(100), 3), np.arange(100, 500)
    opt.tell(arms=arms, rewards=here.values[arms] + here.noise[arms] * rng.normal(size=300))
    results = here.values[new] + here.noise[new] * rng.normal(size=400)
    lower, upper = opt.interval(new)
    inside = ((lower <= results) & (results <= upper))[np.argsort(here.noise[new])]
    return float(inside[:200].mean()), float(inside[200:].mean())


@pytest.mark.parametrize("kind", ["grows 10 times", "falls 7 times"])
@pytest.mark.parametrize("seeds", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_quiet_and_noisy_arms_are_covered_alike(kind: str, seeds: int) -> None:
    """100 arms in triplicate. A constant noise covers quiet arms too often and noisy ones too rarely."""
    before, law = (
        np.mean([cover(seed, kind, each) for seed in range(seeds)], axis=0) for each in (True, False)
    )
    assert before[0] - before[1] > 0.07
    assert law[0] - law[1] < before[0] - before[1] - 0.03
    assert np.abs(law - 0.9).max() < 0.05


# ---------------------------------------------------------------------- saved runs


def test_a_model_with_a_law_is_read_back() -> None:
    model = repeated(0, "grows 10 times")[0].model
    stream = io.BytesIO()
    write_archive(stream, {"format": "test", "version": 1, "model": model.describe()})
    stream.seek(0)
    again = model_from(read_archive(stream, "it", "test", 1)["model"])
    assert again == model
    X = np.random.default_rng(1).uniform(size=(5000, 4))
    np.testing.assert_array_equal(again.noise_law.factors(X), model.noise_law.factors(X))
    assert again != replace(model, noise_law=replace(model.noise_law, centre=7.0))
    assert model != replace(model, noise_law=None)


def test_a_saved_run_continues_with_the_same_law(tmp_path) -> None:
    opt, noise = repeated(2, "grows 10 times", n_arms=40)
    opt.forget(opt.ask(2))
    opt.tell(arms=[50, 51], rewards=[0.1, 0.2])  # not used yet
    opt.save(tmp_path / "run.npz")
    again = ma.Optimizer.load(tmp_path / "run.npz")
    for _ in range(4):
        batches = [each.ask(12) for each in (opt, again)]
        np.testing.assert_array_equal(batches[0].arms, batches[1].arms)
        for each in (opt, again):
            each.tell(batches[0], np.sin(batches[0].arms))
            each.tell(arms=batches[0].arms, rewards=np.sin(batches[0].arms) + 0.3 * noise[batches[0].arms])
    for mine, other in zip(opt.predict(), again.predict(), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert opt.model == again.model
