"""What a run takes the rewards to be: a kernel and a noise that were given, or that it learns as it goes.

With `kernel="auto"` the pool is prepared once (scales, encodings), a model is learned from the results and
learned again as they grow in number, and rewards are transformed for it. Everything that crosses between
the user's units and the model's goes through here. With a kernel given, both are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manyarms.choice.exploration import WithExploration
from manyarms.choice.final_batch import FinalBatch
from manyarms.choice.selection import SelectionRule, UpperBounds
from manyarms.errors import InvalidParameterError, UnsuitableKernelError
from manyarms.learning import LearnedModel, Prepared, Targets, learn, prepare, should_refit
from manyarms.learning.prepared_pool import takes
from manyarms.policies import Policy
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from manyarms.support.validation import Floats


@dataclass(frozen=True)
class Modelled:
    """A pool and a policy as the model sees them; `prepared` and `model` are None when nothing is learned."""

    pool: Pool
    asked: Policy
    prepared: Prepared | None = None
    model: LearnedModel | None = None

    @classmethod
    def start(
        cls, pool: Pool, policy: Policy, rng: np.random.Generator, prepared: Prepared | None = None
    ) -> Modelled:
        """Before any result; `prepared` where the pool has been looked at before."""
        if policy.kernel != "auto":
            return cls(pool, policy.on(pool))
        if prepared is not None and prepared.pool.n_arms != pool.n_arms:
            raise InvalidParameterError("prepared", prepared.pool, f"made of this pool of {pool.n_arms} arms")
        prepared = _usable(policy, prepared or prepare(pool))
        return cls(pool, policy, prepared, learn(prepared, History(pool.n_arms), rng))

    @property
    def seen_pool(self) -> Pool:
        """The pool whose features the kernel takes."""
        return self.pool if self.prepared is None else self.prepared.pool

    @property
    def policy(self) -> Policy:
        """The policy with the learned kernel, noise and practical width in it."""
        if self.model is None:
            return self.asked
        return self.asked.with_model(self.model.kernel, self.model.noise_std).on(self.seen_pool)

    @property
    def widens(self) -> bool:
        """Whether bounds grow with how far a batch has gone past its ratio.

        That keeps the promise of a width that has one. The practical width of a learned model has none,
        and grown by the size of a plate it would only explore (docs/measurements.md).
        """
        return self.model is None or self.asked.width != "auto"

    def selection_rule(self, last: bool = False) -> SelectionRule:
        """The policy's; where bounds promise nothing, plates have scouts, and the last one harvests."""
        chosen = self.policy.selection_rule()
        if self.widens or not isinstance(chosen, UpperBounds):
            return chosen
        return FinalBatch(chosen) if last else WithExploration(chosen)

    def suits(self, pool: Pool) -> bool:
        """Whether arms added behind the present ones can be seen as these are.

        Not where they differ in a column that was constant, have values between or beyond its few steps, or
        cannot be taken by the learned kernel: codes were learned, and now there are numbers. Features are
        then to be prepared anew.
        """
        if self.prepared is None:
            return True
        more = self.prepared.encode(pool.features[self.pool.n_arms :])
        return self.prepared.suits(more) and takes(self.policy.covariance, more)

    def extended(self, pool: Pool) -> Modelled:
        """On a pool with more arms behind the present ones."""
        if self.prepared is None:
            return replace(self, pool=pool)
        seen = pool
        if self.prepared.pool is not self.pool:  # something was rewritten
            more = self.prepared.encode(pool.features[self.pool.n_arms :])
            ids = pool.ids[self.pool.n_arms :] if pool.has_ids else None
            seen = self.prepared.pool.extended(more, ids)
        return replace(self, pool=pool, prepared=self.prepared.extended(seen))

    # ------------------------------------------------------------------ learning

    def due(self, history: History) -> bool:
        """Whether it is time to learn the model again."""
        return self.model is not None and len(history) > 0 and should_refit(self.model, history)

    def relearned(self, history: History, rng: np.random.Generator) -> Modelled:
        """With the model for what has been told so far."""
        assert self.prepared is not None
        return replace(self, model=learn(self.prepared, history, rng, previous=self.model))

    def targets(self, history: History) -> Targets:
        """All results on the model's scale, one entry per different arm."""
        assert self.model is not None
        return self.model.targets(history)

    # ------------------------------------------------------------------ units

    def values(self, rewards: Floats) -> Floats:
        """Rewards on the model's scale."""
        if self.model is None:
            return rewards
        return self.model.transform.forward(rewards) - self.model.mean

    def rewards(self, values: Floats) -> Floats:
        """Values of the model in the user's units."""
        if self.model is None:
            return values
        return self.model.transform.inverse(np.asarray(values) + self.model.mean)

    def spread(self, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
        """A mean and a standard deviation in the user's units; half of mean ± std where the map bends."""
        if self.model is None:
            return mean, std
        return self.rewards(mean), 0.5 * (self.rewards(mean + std) - self.rewards(mean - std))


def _usable(policy: Policy, prepared: Prepared) -> Prepared:
    """With the kernels alone that the policy can take: Fourier features exist for few of them.

    Found out before anything is asked, and an error where there is none.
    """
    if type(policy).feature_map is Policy.feature_map:
        return prepared
    kept, problems = [], []
    for family in prepared.families:
        asked = policy.with_model(family.kernel(family.typical), 1.0).on(prepared.pool)
        try:
            asked.feature_map(prepared.pool, np.random.default_rng(0))
        except UnsuitableKernelError as problem:
            problems.append(problem)
        else:
            kept.append(family)
    if not kept:
        raise problems[0]
    return replace(prepared, families=tuple(kept))
