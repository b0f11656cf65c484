"""The certified width (theory §4.10) against dense matrices, and the inequalities that it rests on."""

from __future__ import annotations

import math

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import InvalidParameterError
from tests.oracle import Ledger, covariance_of_pulls, sparse
from tests.runs import Problem

POOR = 0.02  # an oversampling q̄ far below what BKB Theorem 1 asks for


def run_of(problem: Problem, pulls: int, policy=ma.BKB, **settings) -> ma.Optimizer:
    opt = ma.Optimizer(problem.pool, policy(**problem.settings(**settings)), seed=problem.seed)
    problem.run(opt, pulls)
    return opt


def ledger_of(opt: ma.Optimizer) -> Ledger:
    ledger, history = Ledger(opt.pool.n_arms), opt.history
    ledger.counts[history.arms], ledger.sums[history.arms] = history.counts, history.sums
    return ledger


def dense_width(problem: Problem, opt: ma.Optimizer, given) -> tuple[float, float, float]:
    """β written out with K and Q over the pulls, log det(K/λ + I), and its bound by Q and the trace."""
    features, ledger = problem.pool.features, ledger_of(opt)
    found = sparse(problem.kernel, features, given["ridge"], opt.posterior.inducing, ledger)
    trace = float(ledger.counts @ found.residual)
    K = covariance_of_pulls(problem.kernel, features, ledger)
    log_det = np.linalg.slogdet(K / given["ridge"] + np.eye(len(K)))[1]
    bound = found.log_det + trace / given["ridge"]
    noise = given["noise_std"] * math.sqrt(bound + 2 * math.log(1 / given["delta"]))
    beta = noise + (math.sqrt(given["ridge"]) + math.sqrt(trace)) * given["norm_bound"]
    return beta, log_det, bound


@pytest.mark.parametrize("oversampling", [POOR, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_width_is_that_of_dense_matrices_and_bounds_the_determinant_of_k(seed, oversampling):
    problem = Problem(seed, n_arms=150, n_features=3)
    opt = run_of(problem, 40, oversampling=oversampling, compaction=1.0)
    opt.ask()  # uses the last result
    beta, log_det, bound = dense_width(problem, opt, problem.settings())
    assert opt.state.belief.proved_width() == pytest.approx(beta, rel=1e-6)
    assert opt.trace[-1].width == pytest.approx(beta, rel=1e-6)
    assert log_det <= bound * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_without_noise_the_bias_is_bounded_for_any_sketch(seed):
    """|f − μ̃| ≤ (√λ + √tr(K−Q)) F σ̃ holds without any probability; √λ F alone is not enough here."""
    problem = Problem(seed, n_arms=200, n_features=2, noise_std=0.0)
    ridge = 1e-3
    posterior = ma.Posterior(problem.pool, problem.kernel, ridge)
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, 200, size=80)
    posterior.update(inducing=arms[:3], arms=arms, rewards=problem.truth[arms])
    error, std = np.abs(problem.truth - posterior.mean), np.sqrt(posterior.leverage)
    missed = math.sqrt(posterior.state.residual_trace)
    assert (error <= (math.sqrt(ridge) + missed) * std + 1e-9).all()
    assert (error > math.sqrt(ridge) * std).any()


def test_on_an_exact_posterior_it_is_the_exact_width():
    problem = Problem(1, n_arms=100)
    widths = [
        [record.width for record in run_of(problem, 30, ma.GPUCB, width=width).trace]
        for width in ("exact", "certified")
    ]
    assert widths[0] == pytest.approx(widths[1], rel=1e-6)


def test_it_is_the_default_width_on_a_sketch_with_a_given_kernel():
    problem = Problem(2, n_arms=100)
    for policy in (ma.BKB, ma.BBKB):
        default = run_of(problem, 30, policy)
        named = run_of(problem, 30, policy, width="certified")
        assert [record.width for record in default.trace] == [record.width for record in named.trace]
    assert ma.BBKB().with_model(problem.kernel, 0.1).width == ma.BBKB.practical


def test_a_batch_beyond_its_ratio_is_widened_by_the_realised_ratio():
    """With β·√(R/C̃) every hallucinated band contains the band of the last feedback."""
    problem = Problem(3, n_arms=200)
    opt = run_of(problem, 30, ma.BBKB, batch_ratio=1.5)
    opt.ask(40)
    belief = opt.state.belief
    overlay = ma.posterior.hallucination.Hallucination(belief.posterior)
    for arm in opt.pending.values():
        overlay.pull(arm)
    ratio = overlay.realised_ratio()
    assert ratio > 1.5
    widened = belief.width() * math.sqrt(ratio / 1.5)
    needed = belief.proved_width() * np.sqrt(belief.state.leverage)
    assert (widened * np.sqrt(overlay.leverage()) >= needed * (1 - 1e-9)).all()


@pytest.mark.parametrize(
    "policy", [ma.SoRUCB, ma.RFFTS, ma.QFFTS, lambda **given: ma.SGPTS(rule="features", **given)]
)
def test_policies_outside_the_proof_refuse_it(policy):
    with pytest.raises(InvalidParameterError, match="certified"):
        policy(kernel=ma.RBF(0.3), width="certified")
