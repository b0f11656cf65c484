"""Regret: the no-regret algorithms learn, the sparse ones as well as the exact one, the others do not.

Problems are drawn from the model (‖f‖ = 1, noise of standard deviation 0.1); every algorithm sees the
same noise at the same pull. Seeds are fixed; α is stated at each test.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import manyarms as ma
from tests.runs import Problem

NO_REGRET = {
    "GPUCB": ma.GPUCB,
    "GPBUCB": ma.GPBUCB,
    "BKB": ma.BKB,
    "BBKB": ma.BBKB,
    "BBKB-local": lambda **settings: ma.BBKB(local=True, **settings),
    "MiniGPUCB": ma.MiniGPUCB,
}


def regret(policy, seed: int, pulls: int, n_features: int, **changes) -> np.ndarray:
    problem = Problem(seed, n_arms=1000, n_features=n_features)
    opt = ma.Optimizer(problem.pool, policy(**problem.settings(width=2.0, **changes)), seed=seed)
    return problem.regret(problem.run(opt, pulls))


@pytest.mark.slow
@pytest.mark.parametrize("n_features", [2, 8])
@pytest.mark.parametrize("name", NO_REGRET)
def test_average_regret_falls_with_the_horizon(name, n_features):
    """R_T/T at T = 250, 1000, 4000 falls in each of 3 seeds: under no fall, a chance of (1/6)³ < 0.005."""
    for seed in range(3):
        total = regret(NO_REGRET[name], seed, 4000, n_features)
        averages = [total[T - 1] / T for T in (250, 1000, 4000)]
        assert averages[0] > averages[1] > averages[2], (seed, averages)


@pytest.mark.slow
@pytest.mark.parametrize("n_features", [2, 8])
@pytest.mark.parametrize("name", ["BKB", "BBKB"])
def test_sparse_regret_is_within_15_percent_of_exact(name, n_features):
    """Paired over 20 seeds, T = 500: the upper end of the 99 % interval of the ratio's mean is below 1.15."""
    ratios = [
        regret(NO_REGRET[name], seed, 500, n_features)[-1] / regret(ma.GPUCB, seed, 500, n_features)[-1]
        for seed in range(20)
    ]
    mean, error = np.mean(ratios), np.std(ratios, ddof=1) / np.sqrt(20)
    assert mean + stats.t.ppf(0.99, 19) * error < 1.15, (mean, error, ratios)


@pytest.mark.slow
def test_sor_ucb_is_starved_and_its_regret_linear():
    """Over 10 seeds its average regret does not fall from T = 100 to 1000, and is 4 times GP-UCB's.

    A seed that happens to start at a good arm stays there too, hence means, not every seed by itself.
    """
    starved, exact = (
        np.array([regret(policy, seed, 1000, 2)[[99, 999]] for seed in range(10)]).mean(axis=0)
        for policy in (ma.SoRUCB, ma.GPUCB)
    )
    assert starved[1] / 1000 > 0.8 * starved[0] / 100, starved
    assert starved[1] > 4 * exact[1], (starved, exact)


@pytest.mark.slow
def test_eps_greedy_keeps_paying_for_its_random_arms():
    """From T = 1000 to 4000 EpsGreedy pays at least 8 % of the random regret a step; BBKB pays less.

    Mean over 5 seeds; with explore = 0.1 the expected payment is 10 %, its standard error below 0.3 %.
    """
    paid, careful, random = [], [], []
    for seed in range(5):
        greedy, ucb = (regret(policy, seed, 4000, 2) for policy in (ma.EpsGreedy, ma.BBKB))
        problem = Problem(seed, n_arms=1000, n_features=2)
        random.append(np.mean(problem.truth.max() - problem.truth))
        paid.append((greedy[-1] - greedy[999]) / 3000)
        careful.append((ucb[-1] - ucb[999]) / 3000)
    assert np.mean(paid) > 0.08 * np.mean(random), (paid, random)
    assert np.mean(careful) < 0.5 * np.mean(paid), (careful, paid)


@pytest.mark.parametrize("policy", [ma.BKB, ma.BBKB])
def test_the_sketch_stays_within_theorem_1_and_grows_with_d_eff_not_with_t(policy):
    """A fresh draw has |S| ≤ 3(1 + κ²/λ) q̄ d_eff (BKB Theorem 1); the kept sketch at most 4 times a draw."""
    for seed in range(3):
        problem = Problem(seed, n_arms=800)
        opt = ma.Optimizer(problem.pool, policy(**problem.settings(width=2.0)), seed=seed)
        problem.run(opt, 1200)
        for record in opt.trace:
            bound = 3 * (1 + 1 / 0.2) * 2.0 * max(record.effective_dimension, 1.0)
            assert record.dictionary_size <= 4 * bound, record
        early, late = (next(r for r in opt.trace if r.tickets[-1] >= t) for t in (300, 1190))
        assert late.dictionary_size < 2 * early.dictionary_size, "four times the pulls, not twice the sketch"


def test_the_number_of_renewals_of_bbkb_is_of_the_order_of_d_eff():
    """BBKB Theorem 1 (2): O(d_eff) renewals. Here fewer than (C̃/(C̃−1)) Σ log-growth, and far below t."""
    for seed in range(3):
        problem = Problem(seed, n_arms=800)
        opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings(width=2.0)), seed=seed)
        problem.run(opt, 1500)
        # Each full batch has Σσ̃²_fb > C̃ − 1 = 1, and the whole run Σσ̃²_fb ≤ 3·C̃·log det (spec §1).
        total = 6 * opt.posterior.state.log_det
        assert len(opt.trace) <= total + 2, (len(opt.trace), total)
        assert len(opt.trace) < 1500 / 5
