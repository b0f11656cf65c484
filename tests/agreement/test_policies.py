"""The algorithms are the same parts put together differently, so special cases must coincide."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

import manyarms as ma
from manyarms.choice.selection import UpperBounds
from manyarms.choice.stopping import EveryStep, GlobalRatio, InformationGain, LocalRatio, Pick, ProductRatio
from manyarms.choice.widths import authors_bkb
from manyarms.posterior.hallucination import Hallucination
from manyarms.sketch.inducing import AllPulled
from tests.runs import Problem


@dataclass(frozen=True, kw_only=True)
class ExactBBKB(ma.BBKB):
    """BBKB with the dictionary of all pulled arms."""

    def inducing_rule(self):
        return AllPulled()


@pytest.mark.parametrize("seed", range(4))
def test_bbkb_held_to_batches_of_one_is_bkb(seed):
    problem = Problem(seed)
    common = problem.settings(width="bkb")  # BKB's width, no factor C̃
    single = ma.Optimizer(problem.pool, ma.BBKB(**common, batch_ratio=1.0), seed=seed)
    bkb = ma.Optimizer(problem.pool, ma.BKB(**common), seed=seed)
    assert problem.run(single, 150) == problem.run(bkb, 150)
    assert {len(record.arms) for record in single.trace} == {1}


@pytest.mark.parametrize("seed", range(4))
def test_a_dictionary_of_all_pulled_arms_is_gp_bucb_and_gp_ucb(seed):
    problem = Problem(seed)
    common = problem.settings(width=2.0)
    whole = ma.Optimizer(problem.pool, ExactBBKB(**common, batch_ratio=1.0), seed=seed)
    exact = ma.Optimizer(problem.pool, ma.GPUCB(**common), seed=seed)
    assert problem.run(whole, 100) == problem.run(exact, 100)

    @dataclass(frozen=True, kw_only=True)
    class ProductBBKB(ExactBBKB):
        def stopping_rule(self):
            return ProductRatio(self.batch_ratio)

    batched = ma.Optimizer(problem.pool, ProductBBKB(**common), seed=seed)
    bucb = ma.Optimizer(problem.pool, ma.GPBUCB(**common), seed=seed)
    assert problem.run(batched, 150) == problem.run(bucb, 150)


def test_enough_oversampling_makes_bkb_exact():
    problem = Problem(0)
    sparse = ma.Optimizer(problem.pool, ma.BKB(**problem.settings(width=2.0, oversampling=1e9)), seed=0)
    exact = ma.Optimizer(problem.pool, ma.GPUCB(**problem.settings(width=2.0)), seed=0)
    assert problem.run(sparse, 120) == problem.run(exact, 120)


@pytest.mark.parametrize("seed", range(6))
def test_bbkb_batches_are_never_shorter_than_gp_bucbs_on_the_same_history(seed):
    problem = Problem(seed)
    opt = ma.Optimizer(problem.pool, ma.GPUCB(**problem.settings(width=2.0)), seed=seed)
    for pulls in (5, 20, 80):
        problem.run(opt, pulls)
        sizes = {}
        for rule in (GlobalRatio(2.0), InformationGain(2.0), ProductRatio(2.0)):
            overlay = Hallucination(opt.posterior)
            meter, size, reason = rule.meter(opt.posterior, overlay), 0, None
            while reason is None and size < 200:
                current = overlay.leverage()
                arm = int(np.argmax(opt.posterior.mean + 0.9 * np.sqrt(current)))
                reason = meter.add(Pick(arm, float(opt.posterior.leverage[arm]), float(current[arm])))
                overlay.pull(arm)
                size += 1
            sizes[type(rule).__name__] = size
        assert sizes["GlobalRatio"] >= sizes["InformationGain"] >= sizes["ProductRatio"], sizes


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2))])
def test_lemma_4_holds_in_every_batch_of_a_real_run(seed, local):
    """σ̃²_fb(x)/ratio ≤ σ̃²_t(x) ≤ σ̃²_fb(x) for all x, ratio ≤ C̃ before the last pick."""
    problem = Problem(seed)
    opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings(local=local)), seed=seed)
    longest = 0
    for _ in range(60):
        batch = opt.ask(at_most=40)
        before, overlay = opt.posterior.leverage, Hallucination(opt.posterior)
        for place, arm in enumerate(batch.arms.tolist()):
            overlay.pull(arm)
            after = overlay.leverage()
            total = 1 + before[batch.arms[: place + 1]].sum()
            bound = total if not local else max(2.0, batch.ratio)
            assert (after <= before * (1 + 1e-12)).all()
            assert (after >= before / bound - 1e-12).all()
            if not local and place + 1 < len(batch):
                assert total <= 2.0
        longest = max(longest, len(batch))
        opt.tell(batch, problem.rewards(batch))
    assert longest > 2, "the run must hold real batches for this to mean anything"


@pytest.mark.parametrize("room", [2**16, 2**29], ids=["little memory", "enough"])
def test_the_ratio_of_the_local_rule_is_the_largest_plain_sum(room):
    """1 + max_i Σ_s c(x_i, x_s)²/σ̃²_fb(x_i) with the posterior covariance c (LocalRatio)."""
    rng = np.random.default_rng(0)
    features = rng.random((3000, 2))
    pool = ma.Pool(features, max_memory=room)
    opt = ma.Optimizer(pool, ma.BBKB(local=True), seed=0)
    for size in (10, 40, 25):
        batch = opt.ask(size)
        posterior = opt.posterior
        arms = batch.arms
        rows = posterior.rows(np.arange(3000))
        covariance = rows @ posterior.state.weights.precision.apply(rows[arms].T)
        inner = posterior.kernel.matrix(posterior.pool.features, posterior.pool.features[arms])
        covariance += (inner - rows @ rows[arms].T) / posterior.ridge
        shares = covariance**2 / posterior.leverage[:, None]
        largest = 1 + shares.sum(axis=1).max()
        assert largest > 2.0, "a rule that looks only when it must may report a limit below the bound"
        meter = LocalRatio(2.0).meter(posterior, Hallucination(posterior))
        for arm in arms.tolist():
            meter.count(Pick(arm, float(posterior.leverage[arm]), np.nan))
        assert meter.ratio == pytest.approx(largest, rel=1e-9)
        spectral = 1 + np.linalg.eigvalsh(covariance[arms])[-1]
        if "upper bound" in batch.why:
            assert batch.ratio == pytest.approx(spectral, rel=1e-9), "of a given size: the realised ratio"
        assert spectral <= 1 + posterior.leverage[arms].sum()
        opt.tell(batch, np.sin(5 * features[arms, 0]))


def test_mini_gp_ucb_repeats_its_choice_as_often_as_the_variance_allows():
    problem = Problem(1)
    opt = ma.Optimizer(
        problem.pool, ma.MiniGPUCB(**problem.settings(width=2.0, growth=2.0)), seed=0, budget=400
    )
    problem.run(opt, 400)
    for record in opt.trace[1:]:
        assert len(set(record.arms.tolist())) == 1
    assert len(opt.trace) < 200 < 400 == sum(len(record.arms) for record in opt.trace)
    assert {record.ended_because for record in opt.trace[1:-1]} == {"repeats of one arm"}
    assert opt.trace[-1].ended_because == "limit", "the budget cuts the last run of repeats short"
    batch_sizes = [len(record.arms) for record in opt.trace]
    assert max(batch_sizes) >= 10, batch_sizes


def test_incremental_and_union_dictionaries_run_and_stay_small():
    problem = Problem(2)
    for inducing in ("incremental", "union", "fresh"):
        opt = ma.Optimizer(problem.pool, ma.BKB(**problem.settings(inducing=inducing)), seed=0)
        problem.run(opt, 200)
        assert 0 < opt.posterior.state.sketch_size <= len(opt.history)


def test_horizon_extension_redraws_and_goes_on():
    problem = Problem(5)
    opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings(oversampling=0.05)), seed=0)
    problem.run(opt, 150)
    before, pulls = opt.posterior.state.sketch_size, opt.posterior.state.pulls
    opt.extend_horizon(oversampling=1e6)
    assert opt.policy.oversampling == 1e6
    assert opt.posterior.state.pulls >= pulls, "no result is lost"
    assert opt.posterior.state.sketch_size > before
    exact = ma.Posterior(problem.pool, problem.kernel, 0.2)
    state = opt.posterior.state
    for arm, count, total in zip(state.arms, state.counts, state.sums, strict=True):
        exact.update([arm], [arm] * int(count), [total / count] * int(count))
    np.testing.assert_allclose(opt.posterior.mean, exact.mean, atol=1e-6)
    problem.run(opt, 50)


def test_compaction_of_one_keeps_fresh_draws_only():
    problem = Problem(7)
    opt = ma.Optimizer(problem.pool, ma.BKB(**problem.settings(compaction=1.0, oversampling=0.3)), seed=0)
    problem.run(opt, 120)
    drawn = set(opt.state.belief.memory.drawn.tolist())
    assert set(opt.posterior.inducing.tolist()) <= drawn


def test_compaction_bounds_the_sketch():
    problem = Problem(8, n_arms=500)
    keep = ma.Optimizer(problem.pool, ma.BKB(**problem.settings(compaction=50.0, oversampling=0.2)), seed=0)
    compact = ma.Optimizer(problem.pool, ma.BKB(**problem.settings(compaction=1.5, oversampling=0.2)), seed=0)
    problem.run(keep, 300)
    problem.run(compact, 300)
    sizes, kept = ([record.dictionary_size for record in run.trace] for run in (compact, keep))
    assert any(later < earlier for earlier, later in itertools.pairwise(sizes)), "it was compacted"
    assert sum(sizes) < sum(kept)


def test_a_compaction_waits_until_it_pays_and_no_longer():
    """The sketch is rebuilt on d arms once the columns of old arms have cost d² numbers per arm."""
    problem = Problem(9, n_arms=600)
    policy = ma.BKB(**problem.settings(compaction=1.2, oversampling=0.5))
    opt = ma.Optimizer(problem.pool, policy, seed=0)
    rebuilt = waited = 0
    for _ in range(200):
        before = opt.state.belief
        problem.run(opt, 1)
        after = opt.state.belief
        size, drawn = before.state.sketch_size, len(after.memory.drawn)
        extended = np.array_equal(after.state.inducing[:size], before.state.inducing)
        rebuilt, waited = rebuilt + (not extended), waited + (extended and size > 1.2 * drawn)
        if not extended:
            assert size + 1 > 1.2 * drawn
            assert before.memory.excess >= drawn**2
            assert after.memory.excess == 0
        elif size > 1.2 * drawn:
            assert before.memory.excess < drawn**2
    assert rebuilt > 5
    assert waited > 5


def test_authors_alias_means_the_policys_own_form():
    problem = Problem(0)
    assert ma.BKB(**problem.settings(width="authors")).width_function() is authors_bkb
    assert ma.BBKB(**problem.settings(width="authors")).width_function() is not authors_bkb


def test_policies_are_values():
    problem = Problem(0)
    policy = ma.BBKB(**problem.settings())
    assert policy == ma.BBKB(**problem.settings())
    assert replace(policy, batch_ratio=3.0).ratio_bound == 3.0
    assert isinstance(policy.selection_rule(), UpperBounds)
    assert isinstance(ma.BKB(**problem.settings()).stopping_rule(), EveryStep)


@pytest.mark.parametrize("seed", range(4))
def test_the_local_rule_ends_a_batch_exactly_when_some_ratio_passes_the_bound(seed):
    """Every ratio summed up at every pick, against the meter that looks only when it must."""
    problem = Problem(seed, n_arms=400)
    opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings(width=1.0, local=True)), seed=seed)
    checked = 0
    for _ in range(25):
        batch = opt.ask(at_most=400)
        state, Z = opt.posterior.state, opt.posterior.rows(np.arange(400))
        covariances, leverage = Z @ state.weights.precision.apply(Z.T), state.leverage
        K = problem.kernel.matrix(problem.pool.features, problem.pool.features)
        covariances = covariances + (K - Z @ Z.T) / 0.2
        ratios, total, ends = np.ones(400), 1.0, []
        for arm in batch.arms:
            share = covariances[:, arm] ** 2 / leverage
            ratios, total = ratios + share, total + leverage[arm]
            ends.append(total > 2.0 and ratios.max() > 2.0)
        assert not any(ends[:-1])
        if batch.ended_because == "local variance ratio":
            assert ends[-1]
            checked += 1
        opt.tell(batch, problem.rewards(batch))
    assert checked > 5
