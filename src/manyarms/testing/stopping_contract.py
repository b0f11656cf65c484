"""What every stopping rule must guarantee, as a test class to inherit.

    class TestMyRule(StoppingRuleContract):
        def rule(self): return MyRule(bound=2.0)

Run it with pytest; this module does not import pytest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.choice.stopping import Meter, Pick, StoppingRule
from manyarms.kernels import RBF
from manyarms.policies.base import Sparse
from manyarms.pool.pool import Pool
from manyarms.posterior.hallucination import Hallucination
from manyarms.posterior.posterior import Posterior
from manyarms.run.optimizer import Optimizer
from manyarms.support.validation import Floats


class StoppingRuleContract:
    """Equal for equal settings, deterministic, batches that end with a reason, a ratio that never falls."""

    seeds = (0, 1, 2)
    n_arms = 40
    longest = 200  # arms within which a batch ends on its own
    n_batches = 4

    def rule(self) -> StoppingRule:
        """The rule under test."""
        raise NotImplementedError("override rule() to return the stopping rule under test")

    # ------------------------------------------------------------------ the rule as a value

    def test_rule_describes_itself(self) -> None:
        """Equal settings make equal rules, and `repr` names the rule."""
        assert self.rule() == self.rule(), "two rules with the same settings differ"
        assert repr(self.rule()) == repr(self.rule())
        assert type(self.rule()).__name__ in repr(self.rule()), repr(self.rule())

    def test_a_batch_changes_no_setting(self) -> None:
        """The meter holds the counts: batches do not change the rule."""
        rule = self.rule()
        before = repr(rule)
        self._batches(self._run(0, rule=rule))
        assert rule == self.rule()
        assert repr(rule) == before

    # ------------------------------------------------------------------ meters

    def test_same_picks_same_verdicts(self) -> None:
        """Meters depend on the posterior and on the picks alone, and not on each other."""
        for seed in self.seeds:
            rule, run = self.rule(), self._run(seed)
            first, second = self._meter(rule, run.posterior), self._meter(rule, run.posterior)
            for pick in self._picks(run.posterior, seed):
                assert (first.add(pick), first.ratio) == (second.add(pick), second.ratio)

    def test_reasons_are_named(self) -> None:
        """`add` returns None or a reason in words."""
        for seed in self.seeds:
            run = self._run(seed)
            meter = self._meter(self.rule(), run.posterior)
            for pick in self._picks(run.posterior, seed):
                verdict = meter.add(pick)
                assert verdict is None or (isinstance(verdict, str) and verdict.strip()), repr(verdict)
                assert verdict is None or "\n" not in verdict, repr(verdict)

    def test_the_ratio_never_falls(self) -> None:
        """The ratio is 1 before the first pick, finite, and no pick reduces it, even after the end."""
        for seed in self.seeds:
            run = self._run(seed)
            meter = self._meter(self.rule(), run.posterior)
            assert meter.ratio == 1.0
            for pick in self._picks(run.posterior, seed):
                before = meter.ratio
                meter.add(pick)
                assert before <= meter.ratio < np.inf, (before, meter.ratio)

    def test_counted_picks_enter_the_ratio(self) -> None:
        """`count` changes the ratio as `add` does."""
        for seed in self.seeds:
            rule, run = self.rule(), self._run(seed)
            added, counted = self._meter(rule, run.posterior), self._meter(rule, run.posterior)
            for pick in self._picks(run.posterior, seed):
                added.add(pick)
                counted.count(pick)
            np.testing.assert_allclose(counted.ratio, added.ratio, rtol=1e-12)

    def test_the_posterior_is_only_read(self) -> None:
        """A meter changes neither the posterior nor the hallucinated pulls."""
        run = self._run(0)
        overlay = Hallucination(run.posterior)
        overlay.pull(3)
        before = _copied(run.posterior, overlay)
        meter = self.rule().meter(run.posterior, overlay)
        for pick in self._picks(run.posterior, 0):
            meter.add(pick)
            assert meter.ratio >= 1
        for mine, other in zip(_copied(run.posterior, overlay), before, strict=True):
            np.testing.assert_array_equal(mine, other)

    def test_more_information_never_lengthens_a_batch(self) -> None:
        """Picks with larger variances end the batch after as many picks or fewer."""
        for seed in self.seeds:
            run = self._run(seed)
            picks, lengths = self._picks(run.posterior, seed), []
            for scale in (0.5, 1.0, 4.0):
                scaled = [
                    replace(
                        pick,
                        feedback_leverage=scale * pick.feedback_leverage,
                        current_leverage=scale * pick.current_leverage,
                    )
                    for pick in picks
                ]
                lengths.append(_length(self._meter(self.rule(), run.posterior), scaled))
            assert lengths == sorted(lengths, reverse=True), lengths

    # ------------------------------------------------------------------ batches

    def test_batches_end_with_a_reason(self) -> None:
        """A batch ends for the reason that the rule returns, after few results and after many."""
        for seed in self.seeds:
            run = self._run(seed)
            for _ in range(self.n_batches):
                batch = run.ask(at_most=self.longest)
                assert 1 <= len(batch) < self.longest, f"{len(batch)} arms: the rule does not end a batch"
                posterior, overlay = run.posterior, Hallucination(run.posterior)
                picks = [_picked(posterior, overlay, arm) for arm in batch]
                meter = self._meter(self.rule(), posterior)
                verdicts = [meter.add(pick) for pick in picks]
                assert verdicts == [None] * (len(batch) - 1) + [batch.ended_because], verdicts
                run.tell(batch, np.zeros(len(batch)))

    def test_at_most_caps_a_batch(self) -> None:
        """A batch limited by `at_most` is the beginning of the batch that the rule would have ended."""
        for seed in self.seeds:
            whole = self._run(seed).ask()
            for most in (1, 2, len(whole)):
                batch = self._run(seed).ask(at_most=most)
                assert list(batch) == list(whole)[:most], (list(batch), list(whole))
                reason = whole.ended_because if most >= len(whole) else "limit"
                assert batch.ended_because == reason, batch.ended_because

    def test_pulls_still_out_never_lengthen_a_batch(self) -> None:
        """Without new results, a further batch is no longer than the one before."""
        for seed in self.seeds:
            run = self._run(seed)
            lengths = [len(run.ask(at_most=self.longest)) for _ in range(self.n_batches)]
            assert lengths == sorted(lengths, reverse=True), lengths

    # ------------------------------------------------------------------ preparing a test

    def _run(self, seed: int, rule: StoppingRule | None = None) -> Optimizer:
        """A run under the rule, with the results of some arms; more of them for a larger seed."""
        pool = Pool(np.random.default_rng([21, seed]).random((self.n_arms, 2)))
        policy = _UnderRule(kernel=RBF(0.3), width=2.0, rule=rule or self.rule())
        run = Optimizer(pool, policy, seed)
        arms = np.random.default_rng([22, seed]).integers(0, self.n_arms, size=5 + 10 * seed)
        run.tell(arms=arms, rewards=np.sin(arms))
        run.forget(run.ask(1))  # the results become part of the posterior
        return run

    def _meter(self, rule: StoppingRule, posterior: Posterior) -> Meter:
        return rule.meter(posterior, Hallucination(posterior))

    def _picks(self, posterior: Posterior, seed: int, size: int = 60) -> list[Pick]:
        """Random arms with the variances that a batch of them would show."""
        overlay = Hallucination(posterior)
        arms = np.random.default_rng([23, seed]).integers(0, self.n_arms, size=size).tolist()
        return [_picked(posterior, overlay, arm) for arm in arms]

    def _batches(self, run: Optimizer) -> None:
        for _ in range(self.n_batches):
            batch = run.ask(at_most=self.longest)
            run.tell(batch, np.sin(batch.arms))


@dataclass(frozen=True, kw_only=True)
class _UnderRule(Sparse):
    """Upper bounds on a sketch, in batches that end by the given rule."""

    rule: Any

    def stopping_rule(self) -> StoppingRule:
        rule: StoppingRule = self.rule
        return rule


def _picked(posterior: Posterior, overlay: Hallucination, arm: int) -> Pick:
    """The pick of an arm, which is then part of the overlay."""
    pick = Pick(arm, float(posterior.leverage[arm]), float(overlay.leverage([arm])[0]))
    overlay.pull(arm)
    return pick


def _length(meter: Meter, picks: list[Pick]) -> int:
    """After how many picks the batch ends; one more than there are if it does not."""
    return next((size for size, pick in enumerate(picks, 1) if meter.add(pick) is not None), len(picks) + 1)


def _copied(posterior: Posterior, overlay: Hallucination) -> list[Floats]:
    return [
        posterior.mean.copy(),
        posterior.leverage.copy(),
        overlay.leverage(),
        np.array(overlay.pulls, dtype=np.float64),
    ]
