"""Every check of the policy contract can fail: for each there is a policy that breaks it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import manyarms as ma
from manyarms.choice.selection import BatchContext, FilledBatch, UpperBounds
from manyarms.choice.widths import Width
from manyarms.kernels import KernelLike
from manyarms.policies import Policy
from manyarms.pool.pool import Pool
from manyarms.posterior.sparse_gp import SparseGP
from manyarms.posterior.state import PosteriorState
from manyarms.support.frozen import replace_field
from manyarms.testing import PolicyContract

CALLS: Counter[Any] = Counter()  # state outside of any run, which two of the policies below depend on


def filled(arms: list[int]) -> FilledBatch:
    return FilledBatch(arms, "broken", 1.0, ["broken"] * len(arms))


def eligible(context: BatchContext) -> list[int]:
    return context.allowed.open_arms().tolist()


def size_of(context: BatchContext) -> int:
    return context.limit if context.exactly and context.limit else 1


@dataclass(frozen=True)
class Rule:
    """A selection rule made of a function."""

    function: Callable[[BatchContext], FilledBatch]

    def fill(self, context: BatchContext) -> FilledBatch:
        return self.function(context)


def choosing(function: Callable[[BatchContext], FilledBatch]) -> type[Policy]:
    """Policies that choose arms by this function."""

    @dataclass(frozen=True, kw_only=True)
    class Broken(Policy):
        def selection_rule(self) -> Any:
            return Rule(function)

    return Broken


# ---------------------------------------------------------------------- broken settings


@dataclass(frozen=True, kw_only=True)
class Doubling(Policy):
    factor: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        replace_field(self, "factor", 2 * self.factor)


@dataclass(frozen=True, kw_only=True)
class Opaque(Policy):
    score: Callable[[float], float] = abs


@dataclass(frozen=True, kw_only=True)
class Dropping(Policy):
    def with_model(self, kernel: KernelLike, noise_std: float) -> Policy:
        return type(self)(kernel=kernel, noise_std=noise_std)


@dataclass(frozen=True, kw_only=True)
class Changing(Policy):
    calls: int = 0

    def selection_rule(self) -> Any:
        replace_field(self, "calls", self.calls + 1)
        return UpperBounds()


# ---------------------------------------------------------------------- broken choices


def by_an_own_generator(context: BatchContext) -> FilledBatch:
    return filled([int(np.random.default_rng().choice(eligible(context)))])


def remembering(context: BatchContext) -> FilledBatch:
    """Another arm at each call on a pool, which is not part of the run's state."""
    pool = context.posterior.pool
    CALLS[pool] += 1
    return filled([CALLS[pool] % pool.n_arms] * size_of(context))


@dataclass(frozen=True, kw_only=True)
class Watched(Policy):
    """Chooses by how often the width was looked at, which `best` does."""

    def width_function(self) -> Width:
        CALLS["width"] += 1
        return super().width_function()

    def selection_rule(self) -> Any:
        return Rule(lambda context: filled([CALLS["width"] % context.posterior.pool.n_arms]))


def without_reasons(context: BatchContext) -> FilledBatch:
    return replace(UpperBounds().fill(context), why=[])


def ignoring_what_is_allowed(context: BatchContext) -> FilledBatch:
    return filled([int(np.argmax(context.posterior.mean))] * size_of(context))


def ignoring_the_limit(context: BatchContext) -> FilledBatch:
    return filled([eligible(context)[0]] * 4)


def lost_without_a_maximum(context: BatchContext) -> FilledBatch:
    if np.ptp(context.posterior.mean) == 0:
        return filled([])
    return UpperBounds().fill(context)


def knowing_45_arms(context: BatchContext) -> FilledBatch:
    known = [arm for arm in eligible(context) if arm < 45] or [0]
    return filled((known * size_of(context))[: size_of(context)])


# ---------------------------------------------------------------------- broken predictions


class Undefined(SparseGP):
    def advanced(self, state: PosteriorState, *pulls: Any) -> PosteriorState:
        state = super().advanced(state, *pulls)
        for shard in state.over_pool.shards.shards:
            shard.versions[state.over_pool.number].values.mean[7] = np.nan
        return state


@dataclass(frozen=True, kw_only=True)
class UndefinedMean(Policy):
    def process(self, pool: Pool, rng: np.random.Generator, storage: Any = np.float64) -> SparseGP:
        assert self.ridge is not None
        return Undefined(pool, self.covariance, self.ridge)


@dataclass(frozen=True, kw_only=True)
class NegativeWidth(Policy):
    def width_function(self) -> Width:
        return lambda seen, given: -1.0


BROKEN: list[tuple[type[Policy], str]] = [
    (Doubling, "test_settings_round_trip"),
    (Opaque, "test_settings_round_trip"),
    (Dropping, "test_a_learned_model_keeps_the_settings"),
    (Changing, "test_a_run_changes_no_setting"),
    (choosing(by_an_own_generator), "test_same_seed_same_arms"),
    (Watched, "test_looking_changes_nothing"),
    (choosing(remembering), "test_a_failed_call_changes_nothing"),
    (choosing(remembering), "test_a_saved_run_continues_identically"),
    (choosing(without_reasons), "test_a_batch_gives_its_reasons"),
    (choosing(ignoring_what_is_allowed), "test_every_arm_of_a_batch_is_eligible"),
    (choosing(ignoring_the_limit), "test_sizes_are_respected"),
    (choosing(ignoring_the_limit), "test_the_budget_is_never_exceeded"),
    (choosing(ignoring_what_is_allowed), "test_repeats_are_respected"),
    (choosing(ignoring_what_is_allowed), "test_pending_pulls_count"),
    (choosing(ignoring_what_is_allowed), "test_failed_arms_are_not_offered_again"),
    (UndefinedMean, "test_predictions_are_finite"),
    (NegativeWidth, "test_widths_are_finite"),
    (choosing(lost_without_a_maximum), "test_equal_rewards"),
    (choosing(knowing_45_arms), "test_arms_can_be_added"),
]


@pytest.mark.parametrize(("broken", "check"), BROKEN, ids=[check for _, check in BROKEN])
def test_the_contract_catches_broken_policies(broken: type[Policy], check: str) -> None:
    class Suite(PolicyContract):
        def policy(self) -> Policy:
            return broken(kernel=ma.RBF(0.3), delta=0.02, width=2.0)

    CALLS.clear()
    with pytest.raises(AssertionError):
        getattr(Suite(), check)()


def test_every_check_has_a_policy_that_breaks_it() -> None:
    assert {check for _, check in BROKEN} == {name for name in dir(PolicyContract) if name.startswith("test")}


def test_a_remembering_policy_passes_where_memory_does_not_matter() -> None:
    """The failures above are due to the fault: the same policy keeps the rest of the contract."""

    class Suite(PolicyContract):
        def policy(self) -> Policy:
            return choosing(remembering)(kernel=ma.RBF(0.3))

    CALLS.clear()
    for check in ("test_same_seed_same_arms", "test_looking_changes_nothing", "test_predictions_are_finite"):
        getattr(Suite(), check)()
