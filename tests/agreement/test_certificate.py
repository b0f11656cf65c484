"""Certificates against dense matrices and against the truth; their kind, conditions, units and sign."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import NoResultsError
from manyarms.run.gap_estimate import posterior_covariance
from tests.oracle import Ledger, hallucinated, sparse
from tests.runs import Problem

RATE = "sublinear regret"


def run_of(problem: Problem, pulls: int, policy=ma.BBKB, minimize: bool = False, repeats=None, **settings):
    given = problem.settings(**settings)
    opt = ma.Optimizer(problem.pool, policy(**given), seed=problem.seed, minimize=minimize, repeats=repeats)
    problem.run(opt, pulls)
    return opt


def ledger_of(opt: ma.Optimizer) -> Ledger:
    ledger, history = Ledger(opt.pool.n_arms), opt.history
    ledger.counts[history.arms], ledger.sums[history.arms] = history.counts, history.sums
    return ledger


def status(certificate: ma.Certificate, words: str) -> str:
    (found,) = (each.status for each in certificate.conditions if words in each.text)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_gap_and_regret_are_those_of_dense_bounds_arm_by_arm(seed):
    problem = Problem(seed, n_arms=80)
    opt = run_of(problem, 40, ma.BKB, oversampling=0.3, compaction=1.0)
    found, ledger, given = opt.certificate(), ledger_of(opt), problem.settings()
    inducing = opt._looked_ahead().belief.state.inducing
    dense = sparse(problem.kernel, problem.pool.features, given["ridge"], inducing, ledger)
    trace = ledger.counts @ dense.residual
    explored = dense.log_det + trace / given["ridge"] + 2 * math.log(1 / given["delta"])
    beta = given["noise_std"] * math.sqrt(explored) + math.sqrt(given["ridge"]) + math.sqrt(trace)
    upper = dense.mean + beta * np.sqrt(dense.leverage)
    lower = dense.mean - beta * np.sqrt(dense.leverage)
    behind = [max(0.0, max(upper[y] for y in range(80) if y != x) - lower[x]) for x in range(80)]
    assert (found.kind, found.confidence, found.pulls) == ("certificate", 1 - given["delta"], 40)
    assert found.arm == opt.best().arm
    assert found.gap == pytest.approx(behind[found.arm], rel=1e-6)
    assert found.regret == pytest.approx(
        sum(n * b for n, b in zip(ledger.counts, behind, strict=True)), rel=1e-6
    )
    assert found.best_value_bound == pytest.approx(upper.max(), rel=1e-6)
    assert found.recommended_value_bound == pytest.approx(lower[found.arm], rel=1e-6)
    assert found.width == pytest.approx(beta / math.sqrt(given["ridge"]), rel=1e-6)
    assert found.residual_trace == pytest.approx(trace / given["ridge"], rel=1e-6, abs=1e-9)
    assert found.effective_dimension == pytest.approx(ledger.counts @ dense.leverage, rel=1e-6)


@pytest.mark.parametrize("policy", [ma.BBKB, ma.GPUCB, ma.SGPTS, ma.EpsGreedy])
@pytest.mark.parametrize("minimize", [False, True])
def test_the_truth_is_within_the_certificate_whichever_policy_chose_the_arms(policy, minimize):
    for seed in range(3):
        problem = Problem(seed, n_arms=150)
        opt = run_of(problem, 60, policy, minimize, width=1.0)
        found, utility = opt.certificate(), problem.truth * (-1 if minimize else 1)
        behind = utility.max() - utility
        assert found.kind == "certificate"
        assert behind[found.arm] <= found.gap
        assert opt.history.counts @ behind[opt.history.arms] <= found.regret
        sign = -1 if minimize else 1
        assert sign * found.best_value_bound >= utility.max()
        assert sign * found.recommended_value_bound <= utility[found.arm]


def test_minimising_is_maximising_the_negative():
    problem = Problem(7, n_arms=100)
    low = run_of(problem, 30, minimize=True).certificate()
    problem.truth, problem._noise = -problem.truth, -problem._noise
    high = run_of(problem, 30).certificate()
    mirrored = replace(
        high,
        best_value_bound=-high.best_value_bound,
        recommended_value_bound=-high.recommended_value_bound,
    )
    assert low == mirrored


def test_the_gap_falls_as_results_accumulate():
    problem = Problem(8, n_arms=100)
    gaps = [run_of(problem, pulls).certificate().gap for pulls in (20, 200, 2000)]
    assert gaps[0] > gaps[1] > gaps[2]


def test_the_conditions_say_what_holds_and_what_does_not():
    problem = Problem(9, n_arms=60)
    good = run_of(problem, 20, ma.GPUCB).certificate()
    assert {each.status for each in good.conditions if each.needed_for == RATE} == {"holds"}
    assert status(good, "kernel") == status(good, "noise is") == status(good, "norm") == "assumed"
    assert status(good, "missing") == "holds"
    bad = run_of(problem, 20, width=2.0, repeats="forbid")
    bad.ask(5)
    found = bad.certificate()
    assert found.realised_ratio > 1
    assert {each.status for each in found.conditions if each.needed_for == RATE} == {"does not hold"}
    assert status(found, "missing") == "assumed"
    theory = run_of(problem, 20, oversampling="theory").certificate()
    assert status(theory, "oversampling") == "holds"


def test_a_certificate_changes_nothing_and_survives_saving(tmp_path):
    problem = Problem(10, n_arms=80)
    plain, asked = run_of(problem, 20), run_of(problem, 20)
    asked.certificate()
    asked.save(tmp_path / "run.npz")
    loaded = ma.Optimizer.load(tmp_path / "run.npz")
    assert loaded.certificate() == asked.certificate()
    assert problem.run(plain, 20) == problem.run(asked, 20)


def test_without_results_there_is_no_certificate():
    with pytest.raises(NoResultsError):
        ma.Optimizer(ma.Pool([[0.0], [1.0]]), ma.BKB(kernel=ma.RBF())).certificate()


def test_one_arm_has_no_gap():
    opt = ma.Optimizer(ma.Pool([[0.0]]), ma.BKB(kernel=ma.RBF()))
    opt.tell(opt.ask(), [1.0])
    assert (opt.certificate().gap, opt.certificate().regret) == (0.0, 0.0)


# ---------------------------------------------------------------------- estimates


def test_a_guessed_norm_or_a_model_outside_the_proof_gives_an_estimate():
    problem = Problem(11, n_arms=80)
    for settings in ({"norm_bound": "double"}, {"policy": ma.SoRUCB}, {"policy": ma.RFFTS}):
        assert run_of(problem, 20, **settings).certificate().kind == "estimate"
    assert run_of(problem, 20, ma.OFUL, kernel=ma.Linear()).certificate().kind == "certificate"


def test_draws_of_an_estimate_have_the_covariance_of_the_posterior():
    """One more pull of y takes C(x, y)²/(C(y, y) + λ) off the variance of x, which gives |C(x, y)| back."""
    problem = Problem(12, n_arms=40, n_features=3)
    opt = run_of(problem, 30, ma.BKB, oversampling=0.3, compaction=1.0)
    belief, given = opt._looked_ahead().belief, problem.settings()
    C = posterior_covariance(belief, np.arange(40))
    assert np.diag(C) == pytest.approx(belief.state.variance, rel=1e-6)
    args = (problem.kernel, problem.pool.features, given["ridge"], belief.state.inducing, ledger_of(opt))
    for y in range(5):
        fall = np.diag(C) - given["ridge"] * hallucinated(*args, [y])
        assert C[:, y] ** 2 / (C[y, y] + given["ridge"]) == pytest.approx(fall, abs=1e-9)


@pytest.mark.parametrize("minimize", [False, True])
def test_a_learned_model_gives_an_estimate_in_the_users_units(minimize):
    problem, sign = Problem(13, n_arms=300), -1 if minimize else 1
    opt = ma.Optimizer(problem.pool, seed=13, minimize=minimize, budget=100)
    for _ in range(3):
        batch = opt.ask(20)
        opt.tell(batch, 1000 * sign * problem.rewards(batch) + 5000)
    found = opt.certificate()
    assert (found.kind, found.confidence) == ("estimate", 0.95)
    assert found == opt.certificate()
    low, high = sorted((found.best_value_bound, found.recommended_value_bound))
    assert 3000 < low < high < 7000
    assert sign * (found.best_value_bound - found.recommended_value_bound) > 0
    assert 0 <= found.gap < 2000
    assert found.regret > 0
