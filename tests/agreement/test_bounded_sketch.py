"""A policy with `max_inducing`: which arms stay in the sketch; the posterior is the one on these arms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import manyarms as ma
from manyarms.errors import InvalidParameterError
from manyarms.sketch.at_most import AtMost
from manyarms.sketch.inducing import Candidates, LeverageScores
from tests import oracle

RIDGE = 1e-4


def candidates(n: int, before: np.ndarray | None = None) -> Candidates:
    """Arms 10, 11, … with a leverage that lets all of them in, and results that rise with the number."""
    inclusion = np.full(n, -1.0) if before is None else before
    arms = 10 + np.arange(n)
    return Candidates(arms, np.ones(n), np.ones(n), inclusion, lambda: np.eye(n), 0, np.arange(n) / n)


def test_a_draw_that_is_small_enough_is_that_of_the_other_rule() -> None:
    scores = LeverageScores(0.5)
    here = replace(candidates(40), leverage=np.linspace(0.1, 1.0, 40))
    expected = scores.draw(here, np.random.default_rng(3))
    found = AtMost(scores, 40).draw(here, np.random.default_rng(3))
    np.testing.assert_array_equal(found.arms, expected.arms)
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)


def test_a_thinned_draw_has_the_best_arms_and_the_others_with_equal_probability() -> None:
    """4 000 draws: each of the 20 other arms is in 4/20 of them (χ², 19 degrees of freedom, α = 0.001)."""
    rule, rng, times = AtMost(LeverageScores(2.0), 8), np.random.default_rng(0), np.zeros(24)
    for _ in range(4000):
        drawn = rule.draw(candidates(24), rng).arms
        assert len(drawn) == len(set(drawn.tolist())) == 8
        assert set(range(30, 34)) <= set(drawn.tolist())
        times[drawn - 10] += 1
    expected = 4000 * 4 / 20
    assert (times[20:] == 4000).all()
    # Drawing 4 of 20 without replacement makes the counts vary less than independent ones: 1 − 4/20 of that.
    assert ((times[:20] - expected) ** 2 / (expected * (1 - 4 / 20))).sum() < 43.82


def test_new_arms_join_a_thinned_draw_until_it_is_a_quarter_larger() -> None:
    rule, rng = AtMost(LeverageScores(2.0), 8), np.random.default_rng(1)
    drawn = rule.draw(candidates(24), rng).arms
    for n in (25, 26, 27):
        before = np.zeros(n)
        before[drawn - 10], before[-1] = 0.3, -1.0
        again = rule.draw(candidates(n, before), rng)
        if n < 27:
            np.testing.assert_array_equal(again.arms, [*drawn, 10 + n - 1])
            np.testing.assert_array_equal(again.probabilities, [*np.full(len(drawn), 0.3), 1.0])
        else:
            assert len(again.arms) == 8
        drawn = again.arms


class Run:
    """A run whose leverage scores ask for every arm: the kernel is narrow and the noise small."""

    def __init__(self, policy: ma.Policy, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.features = rng.random((120, 3))
        self.truth = np.cos(5 * self.features).sum(axis=1)
        self.opt = ma.Optimizer(ma.Pool(self.features), policy, seed=seed, repeats="forbid")
        self.ledger = oracle.Ledger(120)

    def step(self, n: int = 1) -> np.ndarray:
        """Ask, which uses the results so far, compare with the oracle, and tell."""
        batch = self.opt.ask(n)
        found = self.opt.posterior
        expected = oracle.sparse(ma.RBF(0.2), self.features, RIDGE, found.inducing, self.ledger)
        oracle.assert_agrees(found, expected, f"after {self.opt.history.pulls} pulls")
        self.opt.tell(batch, self.truth[batch.arms])
        self.ledger.pull(batch.arms, self.truth[batch.arms])
        return batch.arms


def policy(**settings: object) -> ma.Policy:
    return ma.BKB(kernel=ma.RBF(0.2), noise_std=RIDGE**0.5, width=1.0, **settings)


@pytest.mark.parametrize("n", [1, 7])
def test_the_sketch_stays_small_and_the_posterior_is_the_one_on_its_arms(n: int) -> None:
    run, free, sizes = Run(policy(max_inducing=16)), Run(policy()), []
    for _ in range(70 // n):
        run.step(n)
        free.step(n)
        sizes.append(len(run.opt.posterior.inducing))
    assert max(sizes) <= 20
    assert min(sizes[-30 // n :]) >= 14  # up to two of the arms drawn may lie in the span of the others
    assert len(free.opt.posterior.inducing) > 40


def test_a_bounded_run_continues_bit_for_bit(tmp_path: Path) -> None:
    run = Run(policy(max_inducing=10))
    for _ in range(25):
        run.step()
    run.opt.save(tmp_path / "run.npz")
    loaded = Run(policy(max_inducing=10))
    loaded.opt, loaded.ledger = (
        ma.Optimizer.load(tmp_path / "run.npz", ma.Pool(run.features)),
        run.ledger.copy(),
    )
    assert loaded.opt.policy == run.opt.policy
    for _ in range(20):
        np.testing.assert_array_equal(run.step(), loaded.step())
    np.testing.assert_array_equal(run.opt.predict()[0], loaded.opt.predict()[0])


def test_a_table_of_results_at_once_is_thinned_to_the_best() -> None:
    run = Run(policy(max_inducing=16))
    arms = np.arange(100)
    run.opt.tell(arms=arms, rewards=run.truth[:100])
    run.opt.ask()
    inducing = set(run.opt.posterior.inducing.tolist())
    assert len(inducing) <= 16
    assert set(np.argsort(-run.truth[:100])[:8].tolist()) <= inducing


def test_the_rate_of_a_bounded_sketch_is_not_promised() -> None:
    bounded = ma.BKB(kernel=ma.RBF(0.3), noise_std=0.1, oversampling="theory", max_inducing=50)
    run = ma.Optimizer(ma.Pool(np.linspace(0, 1, 30)[:, None]), bounded)
    for _ in range(3):
        run.tell(run.ask(), [0.5])
    certificate = run.certificate()
    failing = [each for each in certificate.conditions if each.status == "does not hold"]
    assert [each.needed_for for each in failing] == ["sublinear regret"]
    assert "leverage scores" in failing[0].text


@pytest.mark.parametrize("wrong", [0, -3, 2.5, "many", True])
def test_wrong_bounds_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidParameterError, match="max_inducing"):
        ma.BBKB(max_inducing=wrong)


def test_a_contextual_bandit_has_a_bound_of_its_own() -> None:
    with pytest.raises(InvalidParameterError, match=r"max_inducing.*ContextualBandit"):
        ma.ContextualBandit(ma.BKB(kernel=ma.RBF(), max_inducing=10))
