"""What a run is asked to do: the pool, the requested policy, the seed and the rules of the run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from manyarms.errors import InvalidParameterError, UnsuitableKernelError
from manyarms.learning import Prepared, prepare
from manyarms.learning.prepared_pool import takes
from manyarms.policies import Policy, default_policy
from manyarms.pool.pool import Pool
from manyarms.run.eligibility import repeats_setting
from manyarms.support.random_streams import RandomStreams
from manyarms.support.validation import count

SETTINGS = ("seed", "budget", "repeats", "max_failures", "storage", "lazy", "minimize")


@dataclass(frozen=True)
class RunContext:
    """Everything about a run that no result changes. `policy` is as requested: its kernel may be "auto".

    `prepared` is what a learned model sees of the pool; None where the kernel is given.
    """

    pool: Pool
    policy: Policy
    seed: int
    budget: int | None
    repeats: str | int
    max_failures: int | None
    storage: DTypeLike
    lazy: bool
    minimize: bool
    prepared: Prepared | None

    @classmethod
    def checked(
        cls,
        pool: Pool,
        policy: Policy | None,
        seed: int,
        *,
        budget: int | None = None,
        repeats: str | int | None = None,
        max_failures: int | None = 1,
        storage: DTypeLike = np.float64,
        lazy: bool = True,
        minimize: bool = False,
        prepared: Prepared | None = None,
    ) -> RunContext:
        """From the user's own settings, which are those of `Optimizer`."""
        if not isinstance(pool, Pool):
            raise InvalidParameterError("pool", pool, "a manyarms.Pool")
        policy = default_policy() if policy is None else policy
        if not isinstance(policy, Policy):
            raise InvalidParameterError("policy", policy, "a policy such as manyarms.BBKB(kernel=…)")
        for name, flag in (("lazy", lazy), ("minimize", minimize)):
            if not isinstance(flag, bool):
                raise InvalidParameterError(name, flag, "True or False")
        learned = policy.kernel == "auto"
        if repeats is None:
            repeats = "fresh" if learned else "allow"
        return cls(
            pool=pool,
            policy=policy if learned else policy.on(pool),
            seed=RandomStreams(seed).seed,
            budget=None if budget is None else count("budget", budget),
            repeats=repeats_setting(repeats),
            max_failures=None if max_failures is None else count("max_failures", max_failures),
            storage=storage,
            lazy=lazy,
            minimize=minimize,
            prepared=_prepared(pool, policy, prepared) if learned else None,
        )

    @property
    def streams(self) -> RandomStreams:
        """Where everything random comes from."""
        return RandomStreams(self.seed)

    @property
    def sign(self) -> float:
        """Utility = sign · reward."""
        return -1.0 if self.minimize else 1.0

    @property
    def encoded_pool(self) -> Pool:
        """The pool whose features the kernel takes."""
        return self.pool if self.prepared is None else self.prepared.pool

    @property
    def keeps_promise(self) -> bool:
        """Whether the width β comes from a theorem, or was named by the user.

        Its bounds are then widened as far as a batch has gone past its ratio. The practical width of a
        learned model makes no such promise; widened by the size of a batch it would only explore
        (docs/measurements.md).
        """
        return self.prepared is None or self.policy.width != "auto"

    def settings(self) -> dict[str, Any]:
        """The settings of the run beside pool and policy, as plain data."""
        plain = {name: getattr(self, name) for name in SETTINGS}
        return plain | {"storage": np.dtype(self.storage).name}

    # ------------------------------------------------------------------ more arms

    def can_encode(self, pool: Pool, policy: Policy) -> bool:
        """Whether arms added behind the present ones can be encoded as these are, for the policy in use.

        Not where they differ in a column that was constant, have values between or beyond its few levels, or
        cannot be read by the learned kernel. The features must then be prepared again.
        """
        if self.prepared is None:
            return True
        more = self.prepared.encode(pool.features[self.pool.n_arms :])
        return self.prepared.suits(more) and takes(policy.covariance, more)

    def extended(self, pool: Pool) -> RunContext:
        """On a pool with more arms behind the present ones, encoded as these are."""
        if self.prepared is None:
            return replace(self, pool=pool)
        encoded = pool
        if self.prepared.pool is not self.pool:  # the features were rewritten
            more = self.prepared.encode(pool.features[self.pool.n_arms :])
            ids = pool.ids[self.pool.n_arms :] if pool.has_ids else None
            encoded = self.prepared.pool.extended(more, ids)
        return replace(self, pool=pool, prepared=self.prepared.extended(encoded))

    def prepared_again(self, pool: Pool) -> RunContext:
        """On a pool whose features are examined afresh."""
        return replace(self, pool=pool, prepared=_prepared(pool, self.policy, None))


def _prepared(pool: Pool, policy: Policy, prepared: Prepared | None) -> Prepared:
    """The pool as a learned model sees it, with the kernels that the policy can use.

    Fourier features exist for few kernels. An error where no kernel is left.
    """
    if prepared is not None and prepared.pool.n_arms != pool.n_arms:
        raise InvalidParameterError("prepared", prepared.pool, f"made of this pool of {pool.n_arms} arms")
    prepared = prepared or prepare(pool)
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
    return replace(prepared, families=tuple(kept))
