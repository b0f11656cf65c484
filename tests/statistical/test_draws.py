"""Thompson draws against the theory they are drawn from: mean, covariance, independence, maximiser.

Every test states its α; thresholds are Bonferroni over all the numbers it looks at. Seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import manyarms as ma
from manyarms.choice.prior_draws import CorrectedPrior
from manyarms.choice.thompson_draws import draw_functions
from tests.oracle import Ledger, exact

N, ALPHA, SCALE, RIDGE = 20_000, 1e-3, 3.0, 0.05
KERNEL = ma.RBF(0.3)
POOL = ma.Pool(np.random.default_rng(5).random((120, 2)))
POINTS = np.arange(0, 120, 4)  # 30 of them
FEATURES = {"rule": "features", "size": 25, "prior_size": 400}

POLICIES = {
    "exact": ma.GPTS(kernel=KERNEL, ridge=RIDGE),
    "points": ma.SGPTS(kernel=KERNEL, ridge=RIDGE, prior_size=400),
    "points-kdpp": ma.SGPTS(kernel=KERNEL, ridge=RIDGE, inducing="kdpp", size=12, prior_size=400),
    "points-landmarks": ma.SGPTS(kernel=KERNEL, ridge=RIDGE, prior_map="landmarks", prior_size=600),
    "features": ma.SGPTS(kernel=KERNEL, ridge=RIDGE, **FEATURES),
    "matern-features": ma.SGPTS(kernel=ma.Matern(0.6, nu=2.5), ridge=RIDGE, rule="features", size=40),
    "tanimoto": ma.SGPTS(kernel=ma.Tanimoto(), ridge=RIDGE, prior_map="landmarks", prior_size=600),
    "linear": ma.SGPTS(kernel=ma.Linear(bias=0.5), ridge=RIDGE),
}
# Too few prior features for the kernel: covariances are approximate, variances must be right all the same.
STARVED = {
    "few landmarks": ma.SGPTS(kernel=KERNEL, ridge=RIDGE, prior_map="landmarks", prior_size=40),
    "few bits": ma.SGPTS(kernel=ma.Tanimoto(), ridge=RIDGE, prior_map="landmarks", prior_size=40),
    "rough in the plane": ma.SGPTS(kernel=ma.Matern(0.3, nu=1.5), ridge=1e-3, prior_size=200),
    "few eigenfunctions": ma.SGPTS(kernel=KERNEL, ridge=RIDGE, rule="features", size=6, prior_size=12),
    "no eigenfunctions behind": ma.SGPTS(kernel=KERNEL, ridge=RIDGE, rule="features", size=6, prior_size=6),
    "few frequencies": ma.SGPTS(kernel=KERNEL, ridge=1e-3, prior_map="fourier", prior_size=20),
    "product": ma.SGPTS(kernel=ma.RBF(0.3) * ma.RBF(1.0), ridge=1e-4, prior_size=100),
}
BITS = ma.Pool(np.random.default_rng(6).random((120, 64)) < 0.3)


def quick_first(names: Iterable[str]) -> list[Any]:
    """One case is quick, the others are slow: 20 000 draws of each take about a second."""
    return [pytest.param(name, marks=pytest.mark.slow if place else ()) for place, name in enumerate(names)]


def trained(policy: ma.Policy) -> tuple[ma.Optimizer, ma.Pool]:
    """60 pulls of 24 arms, told at once, and taken in."""
    pool = BITS if isinstance(policy.kernel, ma.Tanimoto) else POOL
    opt, rng = ma.Optimizer(pool, policy, seed=1), np.random.default_rng(2)
    arms = rng.choice(60, size=24, replace=False)[rng.integers(24, size=60)]
    opt.tell(arms=arms, rewards=np.sin(5 * arms / 60) + 0.2 * rng.normal(size=60))
    opt.ask(1)
    return opt, pool


def sparse_covariance(opt: ma.Optimizer, pool: ma.Pool, kernel: ma.kernels.KernelLike) -> np.ndarray:
    """k(x, y) − z(x)ᵀz(y) + λ z(x)ᵀV⁻¹z(y), with V and z written out."""
    points, Z = pool.take(POINTS), opt.posterior.rows(POINTS)
    state = opt.posterior.state
    pulled = opt.posterior.rows(state.arms)
    V = (pulled.T * state.counts) @ pulled + RIDGE * np.eye(Z.shape[1])
    return kernel.matrix(points, points) - Z @ Z.T + RIDGE * Z @ np.linalg.solve(V, Z.T)


@pytest.mark.parametrize("name", quick_first({"points": POLICIES["points"]} | POLICIES))
def test_mean_and_covariance_of_20_000_draws(name: str) -> None:
    """30 means and 465 covariances, each within what α = 0.001 over all of them allows.

    The prior map's own error (1e-6 and less here, 1e-4 for Matérn) is far below the Monte-Carlo error.
    """
    opt, pool = trained(POLICIES[name])
    draws = draw_functions(opt.posterior, opt.prior, SCALE, N, np.random.default_rng(3)).values[:, POINTS]
    theory = SCALE**2 * sparse_covariance(opt, pool, POLICIES[name].kernel)
    z_means = (draws.mean(axis=0) - opt.posterior.mean[POINTS]) / np.sqrt(np.diag(theory) / N)
    assert np.abs(z_means).max() < stats.norm.isf(ALPHA / 60), z_means
    spread = np.sqrt((theory**2 + np.outer(np.diag(theory), np.diag(theory))) / N)
    z_entries = (np.cov(draws.T) - theory) / spread
    assert np.abs(z_entries).max() < stats.norm.isf(ALPHA / 930), np.abs(z_entries).max()


@pytest.mark.parametrize("name", quick_first(STARVED))
def test_variances_are_right_whatever_the_prior_map(name: str) -> None:
    """All 120 means and variances of 20 000 draws, α = 0.001 over all; the variance's error is √(2/N)."""
    opt, _ = trained(STARVED[name])
    draws = draw_functions(opt.posterior, opt.prior, SCALE, N, np.random.default_rng(3)).values
    theory = SCALE**2 * opt.posterior.variance
    z_means = (draws.mean(axis=0) - opt.posterior.mean) / np.sqrt(theory / N)
    z_variances = (draws.var(axis=0) / theory - 1) / np.sqrt(2 / N)
    assert np.abs(z_means).max() < stats.norm.isf(ALPHA / 480), z_means
    assert np.abs(z_variances).max() < stats.norm.isf(ALPHA / 480), z_variances


@pytest.mark.parametrize("name", ["points", "few landmarks", "few bits", "rough in the plane"])
def test_the_residual_kept_step_by_step_is_the_one_from_nothing(name: str) -> None:
    """v(x) = ‖p(x) − Cᵀz(x)‖² after 40 single steps against one matrix product, to 1e-8 of the prior."""
    policy = (POLICIES | STARVED)[name]
    pool = BITS if isinstance(policy.kernel, ma.Tanimoto) else POOL
    opt = ma.Optimizer(pool, policy, seed=1)
    for step in range(40):
        batch = opt.ask()
        opt.tell(batch, np.sin(batch.arms + step))
    prior, state = opt.prior, opt.posterior.state
    kept, correction = prior.variance(), prior.correction  # of the same version, before it is rebuilt
    anew = CorrectedPrior.of(prior.sampler, state)
    assert anew is not None
    assert kept == pytest.approx(anew.variance(), abs=1e-8)
    assert correction == pytest.approx(anew.correction, abs=1e-6)


def test_gp_ts_draws_from_the_exact_posterior() -> None:
    """Mean and variance behind GP-TS are those of the dense oracle, so the test above has the right ones."""
    opt, pool = trained(POLICIES["exact"])
    ledger = Ledger(pool.n_arms)
    for arm, pulls, total in zip(opt.history.arms, opt.history.counts, opt.history.sums, strict=True):
        ledger.counts[arm], ledger.sums[arm] = pulls, total
    truth = exact(KERNEL, pool.features, RIDGE, ledger)
    assert opt.posterior.mean == pytest.approx(truth.mean, abs=1e-7)
    assert opt.posterior.leverage == pytest.approx(truth.leverage, abs=1e-6)


@pytest.mark.parametrize(
    "name", quick_first(dict.fromkeys(["points", "exact", "features", "points-landmarks"]))
)
def test_draws_are_independent(name: str) -> None:
    """The correlation of a draw with the next one, at 30 points: |r|√N is standard normal, α = 0.001."""
    opt, _ = trained(POLICIES[name])
    draws = draw_functions(opt.posterior, opt.prior, 1.0, N, np.random.default_rng(4)).values[:, POINTS]
    scaled = (draws - draws.mean(axis=0)) / draws.std(axis=0)
    correlations = (scaled[:-1] * scaled[1:]).mean(axis=0) * np.sqrt(N)
    assert np.abs(correlations).max() < stats.norm.isf(ALPHA / 60), correlations


@pytest.mark.parametrize("rule", quick_first(dict.fromkeys(["points", "features"])))
def test_the_maximiser_is_distributed_as_under_the_exact_posterior(rule: str) -> None:
    """One feature, 40 arms, 6 pulls: where the maximum lies in 20 000 draws of each kind.

    Two-sample chi-square over the arms with at least 10 draws in all, the rest together; α = 0.001.
    """
    line = ma.Pool(np.linspace(0, 1, 40)[:, None])
    kernel, arms, rewards = ma.RBF(0.15), [2, 9, 14, 20, 31, 37], [0.1, 0.8, 0.5, -0.3, 0.9, 0.2]
    policy = ma.SGPTS(kernel=kernel, ridge=RIDGE, rule=rule, size=60, prior_size=120, oversampling=100.0)
    opt = ma.Optimizer(line, policy, seed=0)
    opt.tell(arms=arms, rewards=rewards)
    opt.ask(1)
    sparse = draw_functions(opt.posterior, opt.prior, 1.0, N, np.random.default_rng(7)).values.argmax(axis=1)

    K = kernel.matrix(line.features, line.features)
    noisy = K[np.ix_(arms, arms)] + RIDGE * np.eye(6)
    mean = K[:, arms] @ np.linalg.solve(noisy, rewards)
    covariance = K - K[:, arms] @ np.linalg.solve(noisy, K[arms])
    dense = (
        np.random.default_rng(8).multivariate_normal(mean, covariance, size=N, method="eigh").argmax(axis=1)
    )

    counts = np.array([np.bincount(where, minlength=40) for where in (sparse, dense)])
    often = counts.sum(axis=0) >= 10
    table = np.column_stack([counts[:, often], counts[:, ~often].sum(axis=1)])
    result = stats.chi2_contingency(table[:, table.sum(axis=0) > 0])
    assert result.pvalue > ALPHA, counts
