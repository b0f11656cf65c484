"""What every policy must guarantee in a run, as a test class to inherit.

    class TestMyPolicy(PolicyContract):
        def policy(self): return MyPolicy(kernel=RBF(0.3))

Override `pool` when the kernel takes other features than numbers. Run it with pytest; this module does not
import pytest.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from manyarms import errors, policies
from manyarms.choice.selection import BatchContext, FilledBatch, SelectionRule
from manyarms.kernels import RBF
from manyarms.policies import Policy
from manyarms.policies.plain import matching_policy, policy_from_plain, policy_to_plain
from manyarms.pool.pool import Pool
from manyarms.run.optimizer import Optimizer
from manyarms.run.trace import Batch
from manyarms.support.validation import Floats


class PolicyContract:
    """Plain settings, reproducible runs, eligible arms, sizes as requested, finite predictions."""

    seeds = (0, 1)
    n_arms = 50
    n_first = 30  # arms with a result before the policy chooses: more than any initial design has
    n_batches = 4

    def policy(self) -> Policy:
        """The policy under test."""
        raise NotImplementedError("override policy() to return the policy under test")

    def pool(self) -> Pool:
        """At least 45 candidates; two numbers each unless overridden."""
        return Pool(np.random.default_rng(11).random((self.n_arms, 2)))

    def values(self, pool: Pool) -> Floats:
        """The reward of each arm without noise."""
        return np.random.default_rng(12).normal(size=pool.n_arms)

    # ------------------------------------------------------------------ settings

    def test_settings_round_trip(self) -> None:
        """The settings are plain data, and the same settings make an equal policy."""
        policy = self.policy()
        settings = {field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}
        assert type(policy)(**settings) == policy, "the same settings make another policy"
        try:
            text = json.dumps(policy_to_plain(policy))
        except TypeError as problem:
            raise AssertionError(f"a setting is not plain data: {problem}") from None
        plain = json.loads(text)
        assert matching_policy(policy, plain, "contract") == policy
        if getattr(policies, plain["name"], None) is type(policy):
            assert policy_from_plain(plain, "contract") == policy
        assert type(policy).__name__ in repr(policy)

    def test_a_learned_model_keeps_the_settings(self) -> None:
        """`with_model` fills in kernel, noise, ridge and width, and keeps every other setting."""
        policy = self.policy()
        kernel = RBF() if isinstance(policy.kernel, str) else policy.kernel
        model = policy.with_model(kernel, 0.3)
        assert (model.noise_std, model.ridge) == (0.3, 0.3**2)
        assert type(model) is type(policy)
        for field in dataclasses.fields(policy):
            if field.name not in ("kernel", "noise_std", "ridge", "width"):
                assert getattr(model, field.name) == getattr(policy, field.name), field.name

    def test_a_run_changes_no_setting(self) -> None:
        """A policy is a value: a run does not change it."""
        policy = self.policy()
        before = repr(policy)
        self._steps(self._begun(policy=policy))
        assert repr(policy) == before
        assert policy == self.policy()

    # ------------------------------------------------------------------ reproducible runs

    def test_same_seed_same_arms(self) -> None:
        """All randomness of a run comes from its seed."""
        for seed in self.seeds:
            assert self._steps(self._new(seed)) == self._steps(self._new(seed)), "at the start of a run"
            assert self._steps(self._begun(seed)) == self._steps(self._begun(seed))

    def test_looking_changes_nothing(self) -> None:
        """`predict`, `interval`, `best` and `draw` do not change the arms that follow."""
        looked, plain = self._begun(), self._begun()
        for _ in range(self.n_batches):
            looked.predict()
            looked.interval([0])
            looked.best()
            looked.draw(2)
            assert self._steps(looked, 1) == self._steps(plain, 1)

    def test_a_failed_call_changes_nothing(self) -> None:
        """A failed ask, even after its arms were chosen, and a refused call do not change the run."""
        armed: list[bool] = []
        policy = _interruptible(self.policy(), armed)
        disturbed, plain = self._begun(policy=policy), self._begun(policy=policy)
        for _ in range(self.n_batches):
            armed.append(True)
            for call in (disturbed.ask, lambda: disturbed.ask(0), lambda: disturbed.tell([999], [1.0])):
                with _fails():
                    call()
            assert self._steps(disturbed, 1) == self._steps(plain, 1)

    def test_a_saved_run_continues_identically(self) -> None:
        """A run that was saved and loaded predicts and chooses the same as the original."""
        run = self._begun()
        self._steps(run, 2)
        batch = run.ask(3)
        run.tell(batch.tickets[:2], [0.5, -0.5])  # one result is pending
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.npz"
            run.save(path)
            loaded = Optimizer.load(path, policy=self.policy())
        for mine, other in zip(run.predict(), loaded.predict(), strict=True):
            np.testing.assert_array_equal(mine, other)
        assert self._steps(run) == self._steps(loaded)

    # ------------------------------------------------------------------ batches

    def test_a_batch_gives_its_reasons(self) -> None:
        """A batch has arms, the reason why it ended, and for each arm the reason why it was chosen."""
        run = self._begun()
        for _ in range(self.n_batches):
            batch = run.ask()
            assert len(batch) >= 1, "an empty batch"
            assert isinstance(batch.ended_because, str)
            assert batch.ended_because
            assert len(batch.why) == len(batch), "one reason per arm"
            assert all(isinstance(reason, str) and reason for reason in batch.why), batch.why
            assert 1 <= batch.ratio < np.inf, batch.ratio
            self._answer(run, batch)

    def test_every_arm_of_a_batch_is_eligible(self) -> None:
        """Only eligible arms are chosen, whether they are given by a mask or by indices."""
        run, rng = self._begun(), np.random.default_rng(0)
        for turn in range(self.n_batches):
            eligible = np.sort(rng.choice(run.pool.n_arms, size=6, replace=False))
            given = np.isin(np.arange(run.pool.n_arms), eligible) if turn % 2 else eligible
            for batch in (run.ask(eligible=given), run.ask(3, eligible=given)):
                assert set(batch) <= set(eligible.tolist()), (list(batch), eligible)
                self._answer(run, batch)

    def test_sizes_are_respected(self) -> None:
        """`ask(n)` returns n arms, even more than the pool has; `at_most` limits a batch."""
        for begin in (self._new, self._begun):
            run = begin(repeats="allow")
            for n in (1, 7, run.pool.n_arms + 5):
                batch = run.ask(n)
                assert len(batch) == n, (len(batch), n)
                self._answer(run, batch)
            for most in (1, 3, 50):
                batch = run.ask(at_most=most)
                assert 1 <= len(batch) <= most, (len(batch), most)
                self._answer(run, batch)

    def test_the_budget_is_never_exceeded(self) -> None:
        """Batches end with the budget, and nothing is handed out after it."""
        run, spent = self._begun(budget=9), 0
        while spent < 9:
            batch = run.ask()
            spent += len(batch)
            assert len(batch) >= 1
            assert spent == run.spent <= 9, spent
            self._answer(run, batch)
        _refused(errors.BudgetSpentError, run.ask)

    def test_repeats_are_respected(self) -> None:
        """With `repeats=2` every arm is pulled twice at most, those with earlier results included."""
        run = self._begun(repeats=2)
        for n in (5, None, run.pool.n_arms):
            self._answer(run, run.ask(n))
            assert run.history.counts.max() <= 2, "an arm was pulled a third time"

    def test_pending_pulls_count(self) -> None:
        """Arms whose results are pending are neither chosen again nor lost."""
        run = self._begun(repeats="forbid")
        seen = run.history.arms.tolist()
        while len(seen) < run.pool.n_arms:
            batch = run.ask(at_most=5)
            assert not set(batch) & set(seen), "an arm was chosen again"
            assert len(set(batch)) == len(batch) >= 1
            seen += list(batch)
        assert sorted(seen) == list(range(run.pool.n_arms))
        assert sorted(run.pending.values()) == sorted(seen[self.n_first :])
        _refused(errors.NothingToAskError, run.ask)

    def test_failed_arms_are_not_offered_again(self) -> None:
        """An arm whose trial failed is not in later batches."""
        run, lost = self._begun(max_failures=1), set[int]()
        for _ in range(self.n_batches):
            batch = run.ask(3)
            assert not set(batch) & lost, f"{set(batch) & lost} failed before"
            run.tell(batch, failed=True)
            lost |= set(batch)

    # ------------------------------------------------------------------ predictions

    def test_predictions_are_finite(self) -> None:
        """Every arm has a finite mean and a standard deviation that is not negative."""
        run = self._begun()
        for _ in range(self.n_batches):
            self._check_predictions(run)
            self._steps(run, 1)

    def test_widths_are_finite(self) -> None:
        """β is finite and not negative at every step."""
        run = self._begun()
        self._steps(run)
        assert all(0 <= record.width < np.inf for record in run.trace), [each.width for each in run.trace]

    def test_equal_rewards(self) -> None:
        """A run continues when all rewards are equal, whether zero or not."""
        for reward in (0.0, 3.0):
            run = self._new()
            run.tell(arms=np.arange(self.n_first), rewards=np.full(self.n_first, reward))
            for _ in range(self.n_batches):
                batch = run.ask(at_most=20)
                assert len(batch) >= 1, "an empty batch"
                run.tell(batch, np.full(len(batch), reward))
            self._check_predictions(run)

    def test_arms_can_be_added(self) -> None:
        """Arms that are added during a run are predicted, and can be chosen."""
        pool = self.pool()
        before = pool.n_arms - 5
        run = self._begun(pool=pool.first(before))
        self._steps(run, 2)
        added = run.add_arms(pool.features[before:], pool.ids[before:] if pool.has_ids else None)
        assert added.tolist() == list(range(before, pool.n_arms))
        self._check_predictions(run)
        batch = run.ask(5, eligible=added)
        assert len(batch) == 5
        assert set(batch) <= set(added.tolist())
        self._answer(run, batch)
        self._steps(run, 2)
        self._check_predictions(run)

    # ------------------------------------------------------------------ preparing a test

    def _new(
        self, seed: int = 0, *, policy: Policy | None = None, pool: Pool | None = None, **options: Any
    ) -> Optimizer:
        """A run without results."""
        return Optimizer(pool or self.pool(), policy or self.policy(), seed, **options)

    def _begun(self, seed: int = 0, **options: Any) -> Optimizer:
        """A run with the results of a few arms."""
        run = self._new(seed, **options)
        arms = np.arange(self.n_first)
        run.tell(arms=arms, rewards=self.values(run.pool)[arms])
        return run

    def _answer(self, run: Optimizer, batch: Batch) -> None:
        """Tell a batch noisy rewards, which depend on arm and ticket alone."""
        noise = [np.random.default_rng([13, ticket]).normal() for ticket in batch.tickets.tolist()]
        run.tell(batch, self.values(run.pool)[batch.arms] + 0.1 * np.array(noise))

    def _steps(self, run: Optimizer, batches: int | None = None) -> list[Any]:
        """Ask and tell; the batches."""
        seen = []
        for _ in range(self.n_batches if batches is None else batches):
            batch = run.ask(at_most=20)
            self._answer(run, batch)
            seen.append((batch.arms.tolist(), batch.ended_because, batch.ratio, batch.why))
        return seen

    def _check_predictions(self, run: Optimizer) -> None:
        mean, std = run.predict()
        assert mean.shape == std.shape == (run.pool.n_arms,)
        assert np.isfinite(mean).all(), "a mean is not finite"
        assert np.isfinite(std).all(), "a standard deviation is not finite"
        assert (std >= 0).all(), "a standard deviation is negative"


class _InterruptedError(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class _Interrupted:
    """A selection rule that can be set to fail once, after the batch was filled."""

    rest: SelectionRule
    armed: list[bool]

    def fill(self, context: BatchContext) -> FilledBatch:
        filled = self.rest.fill(context)
        if self.armed:
            self.armed.clear()
            raise _InterruptedError
        return filled


def _interruptible(policy: Policy, armed: list[bool]) -> Policy:
    """The policy with a selection rule that can be made to fail."""
    kind = type(policy)

    def selection_rule(self: Policy) -> SelectionRule:
        return _Interrupted(kind.selection_rule(self), armed)

    settings = {field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}
    made: Policy = type(kind.__name__, (kind,), {"selection_rule": selection_rule})(**settings)
    return made


@contextmanager
def _fails() -> Iterator[None]:
    try:
        yield
    except (_InterruptedError, errors.ManyarmsError):
        return
    raise AssertionError("the call was accepted")


def _refused(kind: type[errors.ManyarmsError], call: Callable[[], Any]) -> None:
    """The call must raise this error."""
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
