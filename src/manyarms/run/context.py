"""The fixed part of a run: the pool, the requested policy, the seed and the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from manyarms.choice.selection import UpperBounds
from manyarms.engines.base import Engine
from manyarms.engines.local import DEFAULT
from manyarms.errors import InvalidParameterError, UnsuitableKernelError
from manyarms.learning import Prepared, prepare
from manyarms.learning.prepared_pool import takes
from manyarms.policies import BPE, Policy, default_policy
from manyarms.pool.costs import ArmCosts, Costs
from manyarms.pool.pool import Pool
from manyarms.posterior.storage import AUTO, automatic_storage
from manyarms.run.eligibility import repeats_setting
from manyarms.run.prior_results import PriorResults, checked_prior, with_prior
from manyarms.sketch.inducing import AllPulled
from manyarms.support.random_streams import RandomStreams
from manyarms.support.validation import count

SETTINGS = ("seed", "budget", "repeats", "failures", "max_failures", "storage", "lazy", "minimize")
LEARN, DROP = "learn", "drop"  # what is done with failures
AUTOMATIC = "auto"
MOST_FAILURES = 3  # of an arm that may be offered again because failures look random


@dataclass(frozen=True)
class RunContext:
    """Everything about a run that results do not change. `policy` is as requested: its kernel may be "auto".

    `prepared` is the pool as prepared for a learned model, or None if the kernel is given. `prior` are the
    old results that it also learns from.
    """

    pool: Pool
    policy: Policy
    seed: int
    budget: int | None
    repeats: str | int
    max_failures: int | str | None
    storage: DTypeLike
    lazy: bool
    minimize: bool
    prepared: Prepared | None
    failures: str = DROP
    engine: Engine = DEFAULT
    costs: ArmCosts | None = None
    prior: tuple[PriorResults, ...] = ()

    @classmethod
    def checked(
        cls,
        pool: Any,
        policy: Policy | None,
        seed: int,
        *,
        budget: int | None = None,
        repeats: str | int | None = None,
        failures: str = DROP,
        max_failures: int | str | None = AUTOMATIC,
        storage: DTypeLike = AUTO,
        lazy: bool = True,
        minimize: bool = False,
        prepared: Prepared | None = None,
        engine: Engine | None = None,
        costs: Costs | None = None,
        prior: PriorResults | Sequence[PriorResults] = (),
    ) -> RunContext:
        """The context for these settings, which are those of `Optimizer`, after checking them."""
        if not isinstance(pool, Pool):
            raise InvalidParameterError("pool", pool, "a manyarms.Pool")
        policy = default_policy() if policy is None else policy
        if not isinstance(policy, Policy):
            raise InvalidParameterError("policy", policy, "a policy such as manyarms.BBKB()")
        for name, flag in (("lazy", lazy), ("minimize", minimize)):
            if not isinstance(flag, bool):
                raise InvalidParameterError(name, flag, "True or False")
        if isinstance(storage, str) and storage == AUTO:
            storage = automatic_storage(pool, sketched=not isinstance(policy.inducing_rule(), AllPulled))
        learned = policy.kernel == "auto"
        if repeats is None:
            repeats = "fresh" if learned else "allow"
        sources = checked_prior(prior, policy, pool)
        sign = -1.0 if minimize else 1.0
        return cls(
            pool=pool,
            policy=policy if learned else policy.on(pool),
            seed=RandomStreams(seed).seed,
            budget=checked_budget(policy, budget),
            repeats=repeats_setting(repeats),
            failures=checked_failures(failures),
            max_failures=checked_max_failures(max_failures),
            storage=storage,
            lazy=lazy,
            minimize=minimize,
            prepared=_prepared(pool, policy, prepared, sources, sign) if learned else None,
            engine=_engine(engine),
            costs=_checked_costs(costs, pool, policy),
            prior=sources,
        )

    @property
    def streams(self) -> RandomStreams:
        """The random streams of the run, which depend only on the seed."""
        return RandomStreams(self.seed)

    @property
    def sign(self) -> float:
        """The sign with which rewards become utilities: −1 if they are minimised, otherwise 1."""
        return -1.0 if self.minimize else 1.0

    @property
    def encoded_pool(self) -> Pool:
        """The pool with the features that the kernel is evaluated on."""
        return self.pool if self.prepared is None else self.prepared.pool

    @property
    def uses_practical_width(self) -> bool:
        """Whether β is the practical width of a learned model, not one of a theorem or chosen by the user.

        Other widths are widened when a batch exceeds its variance ratio, which keeps their bounds valid. The
        practical width has no guarantee to keep; widening it in large batches would only add exploration
        (docs/measurements.md).
        """
        return self.prepared is not None and self.policy.width == "auto"

    def settings(self) -> dict[str, Any]:
        """The settings other than pool and policy, as plain data."""
        plain = {name: getattr(self, name) for name in SETTINGS}
        return plain | {"storage": np.dtype(self.storage).name}

    # ------------------------------------------------------------------ more arms

    def can_encode(self, pool: Pool, policy: Policy) -> bool:
        """Whether the arms that `pool` adds can be encoded like the present ones, for the policy in use.

        They cannot if they vary in a column that was constant, have new values in a column with few levels,
        or are not valid input for the learned kernel. The features must then be prepared again.
        """
        if self.prepared is None:
            return True
        more = self.prepared.encode(pool.features[self.pool.n_arms :])
        return self.prepared.suits(more) and takes(policy.covariance, more)

    @property
    def planned_pulls(self) -> int | None:
        """The number of pulls that the budgets allow, the cost budget at the average cost; None: no limit."""
        paid = None if self.costs is None else self.costs.pulls()
        return min((each for each in (self.budget, paid) if each is not None), default=None)

    def extended(self, pool: Pool) -> RunContext:
        """The context on a pool with additional arms, which are encoded like the present ones."""
        if self.prepared is None:
            return replace(self, pool=pool)
        encoded = pool
        if self.prepared.pool is not self.pool:  # the features were re-encoded
            more = self.prepared.encode(pool.features[self.pool.n_arms :])
            ids = pool.ids[self.pool.n_arms :] if pool.has_ids else None
            encoded = self.prepared.pool.extended(more, ids)
        return replace(self, pool=pool, prepared=self.prepared.extended(encoded))

    def prepared_again(self, pool: Pool) -> RunContext:
        """The context on a pool whose features are prepared again from scratch."""
        return replace(self, pool=pool, prepared=_prepared(pool, self.policy, None, self.prior, self.sign))


def checked_budget(policy: Policy, budget: int | None) -> int | None:
    """The budget of a run of this policy; BPE, which plans its batches for a horizon, cannot go beyond it."""
    if budget is None:
        return None
    budget = count("budget", budget)
    if isinstance(policy, BPE) and budget > policy.horizon:
        rule = f"at most {policy.horizon}, the horizon that BPE plans its batches for"
        raise InvalidParameterError("budget", budget, rule)
    return budget


def checked_failures(failures: Any) -> str:
    """The checked setting: "learn" or "drop"."""
    if failures not in (LEARN, DROP):
        raise InvalidParameterError("failures", failures, "'learn' or 'drop'")
    return str(failures)


def checked_max_failures(given: Any) -> int | str | None:
    """The checked setting: a number, None for no limit, or "auto"."""
    if isinstance(given, str):
        if given != AUTOMATIC:
            rule = "'auto', None, or the number of failures after which an arm is not offered again"
            raise InvalidParameterError("max_failures", given, rule)
        return given
    return None if given is None else count("max_failures", given)


def _checked_costs(costs: Costs | None, pool: Pool, policy: Policy) -> ArmCosts | None:
    if costs is None:
        return None
    if not isinstance(costs, Costs):
        raise InvalidParameterError("costs", costs, "a manyarms.Costs")
    if costs.per_cost:
        check_per_cost(policy)
    return costs.on(pool)


def check_per_cost(policy: Policy) -> None:
    """Raise an error unless arms can be chosen by value per cost in place of this policy's upper bounds."""
    if not isinstance(policy.selection_rule(), UpperBounds):
        rule = "used with a policy that chooses by upper bounds, such as manyarms.BBKB()"
        raise InvalidParameterError("per_cost", type(policy).__name__, rule)


def _engine(engine: Engine | None) -> Engine:
    if engine is None:
        return DEFAULT
    if not callable(getattr(engine, "place", None)):
        raise InvalidParameterError("engine", engine, "an engine such as manyarms.engines.Local()")
    return engine


def _prepared(
    pool: Pool, policy: Policy, prepared: Prepared | None, prior: tuple[PriorResults, ...], sign: float
) -> Prepared:
    """The pool as prepared for a learned model, with the kernel families that the policy can use.

    For example, Fourier features exist only for some kernels. It is an error if no family is left.
    """
    if prepared is not None and prepared.pool.n_arms != pool.n_arms:
        raise InvalidParameterError(
            "prepared", prepared.pool, f"prepared from this pool of {pool.n_arms} arms"
        )
    prepared = prepared or prepare(pool)
    if prior:
        return with_prior(prepared, pool, prior, sign)
    if type(policy).feature_map is Policy.feature_map:
        return prepared
    kept, problems = [], []
    for family in prepared.families:
        candidate = policy.with_model(family.kernel(family.typical), 1.0).on(prepared.pool)
        try:
            candidate.feature_map(prepared.pool, np.random.default_rng(0))
        except UnsuitableKernelError as problem:
            problems.append(problem)
        else:
            kept.append(family)
    if not kept:
        raise problems[0]
    return replace(prepared, families=tuple(kept), ways=())
