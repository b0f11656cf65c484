"""Inducing rules draw each arm with the probability they state, and leverage sampling keeps its guarantee.

Frequencies are compared with p by exact two-sided binomial tests, one per arm, at a family-wise level of
α = 1e-3 (Bonferroni); seeds are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import manyarms as ma
from manyarms.errors import InvalidParameterError
from manyarms.sketch.inducing import (
    AllPulled,
    Candidates,
    IncrementalLeverage,
    LeverageScores,
    UniformInclusion,
    theoretical_oversampling,
)
from tests.oracle import Ledger, exact
from tests.runs import Problem

ALPHA, DRAWS = 1e-3, 4000
COUNTS = np.array([1.0, 1, 2, 3, 5, 8, 13, 40, 1, 2])
LEVERAGE = np.array([0.3, 0.02, 0.05, 0.1, 0.04, 0.01, 0.004, 0.02, 0.9, 1e-6])
CANDIDATES = Candidates(
    arms=np.arange(100, 110),
    counts=COUNTS,
    leverage=LEVERAGE,
    inclusion=np.full(10, -1.0),
    covariance=lambda: np.eye(10),
)


def frequencies(rule: Any, candidates: Candidates, seed: int) -> np.ndarray:
    """How often each candidate was drawn."""
    rng, times = np.random.default_rng(seed), np.zeros(len(candidates.arms), dtype=int)
    for _ in range(DRAWS):
        times += np.isin(candidates.arms, rule.draw(candidates, rng).arms)
    return times


def assert_binomial(times: np.ndarray, p: np.ndarray, trials: np.ndarray | int = DRAWS) -> None:
    for seen, chance, n in zip(times, p, np.broadcast_to(trials, times.shape), strict=True):
        found = binomtest(int(seen), int(n), float(chance)).pvalue
        message = f"drawn {seen} of {n} times, p = {chance:.5f}, p-value {found:.2e}"
        assert found > ALPHA / len(times), message


EXPECTED = {
    "one draw": (LeverageScores(2.0), np.minimum(1, COUNTS * 2.0 * LEVERAGE)),
    "one draw, q̄ = 0.5": (LeverageScores(0.5), np.minimum(1, COUNTS * 0.5 * LEVERAGE)),
    "union of draws": (
        LeverageScores(2.0, draws="union"),
        1 - (1 - np.minimum(1, 2.0 * LEVERAGE)) ** COUNTS,
    ),
    "uniform": (UniformInclusion(0.15), 1 - 0.85**COUNTS),
    "uniform, p = 0": (UniformInclusion(0.0), np.zeros(10)),
    "uniform, p = 1": (UniformInclusion(1.0), np.ones(10)),
    "all pulled": (AllPulled(), np.ones(10)),
    "incremental, all new": (IncrementalLeverage(2.0), np.minimum(1, COUNTS * 2.0 * LEVERAGE)),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_arm_enters_with_its_probability(name: str) -> None:
    rule, p = EXPECTED[name]
    assert_binomial(frequencies(rule, CANDIDATES, seed=len(name)), p)
    drawn = rule.draw(CANDIDATES, np.random.default_rng(0))
    assert drawn.probabilities == pytest.approx(p[drawn.arms - 100], rel=1e-12)


@pytest.mark.parametrize("name", ["one draw", "union of draws", "uniform"])
def test_arms_enter_independently_of_each_other(name: str) -> None:
    """Var|S| = Σ p(1 − p), within 4 standard errors (α < 1e-4) of a sample variance of 4000 sizes."""
    rule, p = EXPECTED[name]
    rng = np.random.default_rng(5)
    sizes = [len(rule.draw(CANDIDATES, rng).arms) for _ in range(DRAWS)]
    expected, found = float((p * (1 - p)).sum()), float(np.var(sizes))
    assert abs(found / expected - 1) < 4 * np.sqrt(2 / DRAWS), (
        f"variance {found:.4f}, expected {expected:.4f}"
    )


def test_incremental_rule_keeps_with_the_ratio_and_never_brings_back() -> None:
    """Kept arms stay with p_{t+1}/p_t, dropped ones stay out, arms pulled since enter with p."""
    now = np.minimum(1, COUNTS * 2.0 * LEVERAGE)
    before = np.array([-1.0, 0.5, 0.0, 0.9, 0.3, 0.0, -1.0, 1.0, 0.8, 0.01])
    chance = np.where(before > 0, np.minimum(1, now / np.where(before > 0, before, 1)), 0.0)
    chance[before < 0] = now[before < 0]
    rule, candidates = IncrementalLeverage(2.0), replace(CANDIDATES, inclusion=before)
    times = frequencies(rule, candidates, seed=11)
    assert not times[before == 0].any()
    assert_binomial(times, chance)
    drawn = rule.draw(candidates, np.random.default_rng(0))
    recorded = np.where(before > 0, np.minimum(now, before), now)
    assert drawn.probabilities == pytest.approx(recorded[drawn.arms - 100])


def test_incremental_rule_over_two_draws_includes_with_the_smaller_probability() -> None:
    """Drawn with p_1, kept with p_2/p_1: in the second draw with min(p_1, p_2)."""
    rule, rng = IncrementalLeverage(2.0), np.random.default_rng(12)
    first_leverage = LEVERAGE * np.linspace(0.7, 3.0, 10)
    times = np.zeros(10, dtype=int)
    for _ in range(DRAWS):
        first = rule.draw(replace(CANDIDATES, leverage=first_leverage), rng)
        inclusion = np.zeros(10)
        inclusion[first.arms - 100] = first.probabilities
        times[rule.draw(replace(CANDIDATES, inclusion=inclusion), rng).arms - 100] += 1
    p = [np.minimum(1, COUNTS * 2.0 * leverage) for leverage in (first_leverage, LEVERAGE)]
    assert_binomial(times, np.minimum(*p))


# ---------------------------------------------------------------------- the guarantee

EPSILON, DELTA = 0.5, 0.1
ACCURACY = (1 + EPSILON) / (1 - EPSILON)
N_ARMS, STAGES, STAGE = 1100, 4, 450
KERNEL, RIDGE = ma.Matern(5.0, nu=0.5), 400.0  # λ ≥ 1, and large enough for p < 1 at the theoretical q̄


@dataclass(frozen=True)
class Run:
    """One sequence of pulls, in stages, with the exact leverage after each."""

    features: np.ndarray
    arms: np.ndarray  # STAGES × STAGE
    exact: list[np.ndarray]


@cache
def pulls() -> Run:
    rng = np.random.default_rng(21)
    features, arms = rng.random((N_ARMS, 1)), rng.integers(N_ARMS, size=(STAGES, STAGE))
    ledger, leverages = Ledger(N_ARMS), []
    for stage in arms:
        ledger.pull(stage, np.zeros(STAGE))
        leverages.append(exact(KERNEL, features, RIDGE, ledger).leverage)
    return Run(features, arms, leverages)


def sampled_run(rule: LeverageScores, seed: int, keep_old: bool) -> tuple[list[float], float]:
    """BKB's loop in stages; the worst ratio σ̃²/σ² or σ²/σ̃² after each, and the share of arms in S at the end.

    Probabilities come from the sparse posterior before the update, as the algorithm has them.
    """
    run, rng = pulls(), np.random.default_rng(seed)
    posterior, ledger, worst = ma.Posterior(ma.Pool(run.features), KERNEL, RIDGE), Ledger(N_ARMS), []
    for arms, truth in zip(run.arms, run.exact, strict=True):
        ledger.pull(arms, np.zeros(STAGE))
        pulled = ledger.pulled
        counts, leverage = ledger.counts[pulled], posterior.leverage[pulled]
        drawn = rule.draw(Candidates(pulled, counts, leverage, np.zeros(0), lambda: np.eye(0)), rng).arms
        old = posterior.inducing if keep_old else drawn[:0]
        posterior.rebuild(np.concatenate([old, drawn]), arms, np.zeros(STAGE))
        ratio = posterior.leverage / truth
        worst.append(float(max(ratio.max(), 1 / ratio.min())))
    return worst, len(drawn) / len(pulled)


@pytest.mark.parametrize(
    ("draws", "keep_old", "runs"),
    [
        ("one", False, 2),
        pytest.param("one", False, 50, marks=pytest.mark.slow),
        pytest.param("union", False, 50, marks=pytest.mark.slow),
        pytest.param("one", True, 50, marks=pytest.mark.slow),
    ],
)
def test_leverage_sampling_at_the_theoretical_oversampling_is_accurate(
    draws: Any, keep_old: bool, runs: int
) -> None:
    """BKB Theorem 1: σ²/α ≤ σ̃² ≤ ασ² for all arms after every stage, α = 3; also with old points kept."""
    rule = LeverageScores(theoretical_oversampling(STAGES * STAGE, DELTA, EPSILON), draws)
    for seed in range(runs):
        worst, share = sampled_run(rule, seed, keep_old)
        assert max(worst) <= ACCURACY, f"seed {seed}: worst ratios by stage {worst}, allowed {ACCURACY}"
        assert share < 0.9, f"seed {seed}: {share:.2f} of the arms drawn, so nothing was tested"


@pytest.mark.parametrize("policy", [ma.BKB, ma.BBKB, ma.SGPTS])
def test_the_schedule_of_theory_is_the_printed_value_at_the_present_number_of_pulls(policy) -> None:
    chosen = policy(kernel=ma.RBF(), oversampling="theory", delta=0.01)
    assert chosen.oversampling_at(1) == pytest.approx(72 * np.log(4 / 0.01))
    assert chosen.oversampling_at(1000) == pytest.approx(theoretical_oversampling(1000, 0.01))
    counts, leverage = np.array([30.0, 70.0]), np.array([1e-6, 1e-5])
    expected = np.minimum(1.0, theoretical_oversampling(100, 0.01) * counts * leverage)
    assert chosen.inducing_rule().probabilities(counts, leverage) == pytest.approx(expected)
    with pytest.raises(InvalidParameterError, match="oversampling"):
        policy(kernel=ma.RBF(), oversampling="practice")


def test_with_the_schedule_of_theory_the_sketch_grows_and_a_loaded_run_continues(tmp_path) -> None:
    problem = Problem(4, n_arms=200, n_features=3)
    sizes = {}
    for oversampling in (2.0, "theory"):
        policy = ma.BKB(**problem.settings(), oversampling=oversampling, compaction=1.0)
        opt = ma.Optimizer(problem.pool, policy, seed=4)
        problem.run(opt, 150)
        sizes[oversampling] = opt.trace[-1].dictionary_size
    assert sizes["theory"] > sizes[2.0]
    opt.save(tmp_path / "run.npz")
    again = ma.Optimizer.load(tmp_path / "run.npz")
    assert again.policy.oversampling == "theory"
    assert problem.run(again, 10) == problem.run(opt, 10)


def test_theoretical_oversampling_is_the_printed_value() -> None:
    """6α log(4T/δ)/ε², which is 72 log(4T/δ) at ε = ½ (theory §3.2)."""
    assert theoretical_oversampling(1000, 0.01) == pytest.approx(72 * np.log(4 * 1000 / 0.01))
    assert theoretical_oversampling(50, 0.1, 0.25) == pytest.approx(6 * (5 / 3) * np.log(2000) * 16)
