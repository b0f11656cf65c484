"""What a run believes at a time: the policy and model in use, the posterior, and what draws start from."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from manyarms.choice.prior_draws import CorrectedPrior
from manyarms.choice.widths import RunStatistics
from manyarms.learning import LearnedModel
from manyarms.policies import Policy
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.sparse_gp import SparseGP
from manyarms.posterior.state import PosteriorState
from manyarms.run.context import RunContext
from manyarms.run.tickets import relabelled
from manyarms.support.validation import Ints


@dataclass(frozen=True)
class Memory:
    """What is carried from one feedback to the next beside the posterior."""

    norm_bound: float  # F: the policy's, or what guess-and-double has reached
    triple_log_sum: float = 0.0  # Σ log(1 + 3σ̃²_fb(x_s))
    log_sum: float = 0.0  # Σ log(1 + σ̃²_fb(x_s)) without the first feedback
    drawn: tuple[int, ...] = ()  # the last inducing draw, and the probability each arm had
    probabilities: tuple[float, ...] = ()
    renewals: int = 0  # since the sketch was last built from nothing
    drawn_from: int = 0  # different arms that the last inducing draw chose from

    def relabelled(self, label: Callable[[Ints], Ints]) -> Memory:
        """The same with other numbers for the arms."""
        return replace(self, drawn=tuple(relabelled(self.drawn, label)))

    def to_plain(self) -> dict[str, Any]:
        """Numbers and lists."""
        return dataclasses.asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Memory:
        """What `to_plain` wrote."""
        return cls(
            **{**plain, "drawn": tuple(plain["drawn"]), "probabilities": tuple(plain["probabilities"])}
        )


@dataclass(frozen=True)
class Belief:
    """A posterior with the policy and the model behind it, as of the last feedback.

    `policy` is the requested one with a learned kernel, noise and width filled in; `model` is None where the
    kernel was given. `prior` is None for policies that draw nothing, or draw from the posterior's features.
    """

    policy: Policy
    model: LearnedModel | None
    process: SparseGP
    state: PosteriorState
    memory: Memory
    prior: CorrectedPrior | None

    @classmethod
    def initial(cls, context: RunContext, model: LearnedModel | None) -> Belief:
        """Before any result. What is drawn here is drawn again, the same, when a saved run is read."""
        policy, pool = context.policy, context.encoded_pool
        if model is not None:
            policy = policy.with_model(model.kernel, model.noise_std).on(pool)
        process = policy.process(pool, context.streams.at("features"), context.storage)
        state = process.empty()
        sampler = policy.prior(pool, context.streams.at("prior"), context.storage)
        guess = 1.0 if isinstance(policy.norm_bound, str) else float(policy.norm_bound)
        prior = CorrectedPrior.of(sampler, state)
        return cls(policy, model, process, state, Memory(norm_bound=guess), prior)

    @property
    def posterior(self) -> Posterior:
        """The posterior, to be read."""
        return Posterior.of(self.process, self.state)

    def at(self, state: PosteriorState, memory: Memory) -> Belief:
        """After feedback."""
        prior = None if self.prior is None else self.prior.at(state)
        return replace(self, state=state, memory=memory, prior=prior)

    def width(self, norm_bound: float | None = None) -> float:
        """β, for the norm bound in use or for another one."""
        state, memory = self.state, self.memory
        seen = RunStatistics(
            state.pulls,
            state.effective_dimension,
            state.log_det,
            state.prior_max,
            memory.triple_log_sum,
            memory.log_sum,
            state.escaped,
        )
        bound = memory.norm_bound if norm_bound is None else norm_bound
        return self.policy.width_function()(seen, self.policy.assumptions(bound))

    def to_plain(self) -> dict[str, Any]:
        """Everything that cannot be computed again bit for bit from pool, policy and model."""
        return {
            "model": None if self.model is None else self.model.describe(),
            "memory": self.memory.to_plain(),
            "posterior": self.process.to_plain(self.state),
            "prior": None if self.prior is None else self.prior.to_plain(),
        }

    def from_plain(self, plain: Mapping[str, Any]) -> Belief:
        """What `to_plain` wrote; `self` is the belief before any result under the same policy and model."""
        prior = None if self.prior is None else self.prior.from_plain(plain["prior"])
        state = self.process.from_plain(plain["posterior"])
        return replace(self, state=state, memory=Memory.from_plain(plain["memory"]), prior=prior)
