"""The belief of a run: the policy and model in use, the posterior, and the prior of Thompson draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from manyarms.choice.prior_draws import CorrectedPrior
from manyarms.choice.widths import RunStatistics, width_named
from manyarms.kernels.describe import same_kernel
from manyarms.learning import LearnedModel
from manyarms.policies import Policy
from manyarms.pool.pool import Pool
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.sparse_gp import SparseGP
from manyarms.posterior.state import PosteriorState
from manyarms.posterior.storage import storage_for_noise
from manyarms.run.context import RunContext
from manyarms.support.frozen import changed
from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True, eq=False)
class Memory:
    """The quantities carried from one feedback to the next in addition to the posterior."""

    norm_bound: float  # F: the policy's, or the present value of guess-and-double
    triple_log_sum: float = 0.0  # Σ log(1 + 3σ̃²_fb(x_s))
    log_sum: float = 0.0  # Σ log(1 + σ̃²_fb(x_s)) without the first feedback
    drawn: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # the last inducing draw
    probabilities: Floats = field(default_factory=lambda: np.empty(0))  # inclusion probability of `drawn`
    excess: float = 0.0  # what old inducing arms have cost since the sketch was last built (run/feedback.py)
    drawn_from: int = 0  # the number of different arms that the last draw chose from
    oversampling: float | None = None  # q̄ since the sketch was thinned; None: that of the policy

    def relabelled(self, label: Callable[[Ints], Ints]) -> Memory:
        """The same memory with arm indices mapped by `label`."""
        return replace(self, drawn=label(self.drawn))

    def to_plain(self) -> dict[str, Any]:
        """The memory as numbers and arrays."""
        return dict(vars(self))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Memory:
        """The memory that `to_plain` wrote."""
        drawn = np.asarray(plain["drawn"], dtype=np.int64)
        probabilities = np.asarray(plain["probabilities"], dtype=np.float64)
        known = {name: value for name, value in plain.items() if name != "renewals"}  # of earlier versions
        return cls(**{**known, "drawn": drawn, "probabilities": probabilities})


def _started(
    context: RunContext, policy: Policy, pool: Pool, storage: DTypeLike
) -> tuple[SparseGP, PosteriorState]:
    """The process of a policy on the engine of the run, and its state before any result."""
    process = policy.process(pool, context.streams.at("features"), storage).placed_on(context.engine)
    return process, process.empty()


@dataclass(frozen=True)
class Belief:
    """The posterior, policy and model as of the last feedback.

    `policy` is the requested policy with a learned kernel, noise and width filled in; `model` is None if the
    kernel was given. `prior` is None for policies that draw no functions, or draw them from the posterior's
    feature map alone.
    """

    policy: Policy
    model: LearnedModel | None
    process: SparseGP
    state: PosteriorState
    memory: Memory
    prior: CorrectedPrior | None

    @classmethod
    def initial(cls, context: RunContext, model: LearnedModel | None) -> Belief:
        """The belief before any result. Reading a saved run repeats the random draws made here exactly."""
        policy, pool = context.policy, context.encoded_pool
        if model is not None:
            policy = policy.with_model(model.kernel, model.noise_std).on(pool)
        process, state = _started(context, policy, pool, context.storage)
        storage = storage_for_noise(context.storage, state.ridge, state.prior_max)
        if storage != process.storage:
            process, state = _started(context, policy, pool, storage)
        sampler = policy.prior(pool, context.streams.at("prior"), storage)
        guess = 1.0 if isinstance(policy.norm_bound, str) else float(policy.norm_bound)
        prior = CorrectedPrior.of(sampler, state)
        return cls(policy, model, process, state, Memory(norm_bound=guess), prior)

    def under(self, context: RunContext, model: LearnedModel | None) -> Belief | None:
        """This belief under another model with the same kernel on the same pool; None if they differ."""
        policy = context.policy
        if model is not None:
            policy = policy.with_model(model.kernel, model.noise_std).on(context.encoded_pool)
        process = self.process
        same = (
            process.pool is context.encoded_pool
            and process.storage == storage_for_noise(context.storage, process.ridge, self.state.prior_max)
            and process.ridge == policy.ridge
            and self.policy.keeps_residual == policy.keeps_residual
            and process.feature_map is None
            and type(self.policy).process is type(policy).process
            and same_kernel(process.kernel, policy.covariance)
        )
        return replace(self, policy=policy, model=model) if same else None

    @property
    def posterior(self) -> Posterior:
        """The posterior, for reading only."""
        return Posterior.of(self.process, self.state)

    @property
    def std_factor(self) -> float:
        """What the uncertainty about a learned kernel and noise multiplies standard deviations by."""
        return 1.0 if self.model is None else self.model.std_factor

    def std(self, leverage: Floats) -> Floats:
        """Posterior standard deviations to report: wider where kernel and noise are learned, not known."""
        return np.asarray(self.std_factor * np.sqrt(self.state.ridge * leverage))

    def noise_factors(self, arms: Ints) -> Floats:
        """The noise variance of a result of each of these arms, in units of the ridge (theory §8.15)."""
        if self.model is None or self.model.noise_law is None:
            return np.ones(len(arms))
        return self.model.noise_law.factors(self.process.pool.take(arms))

    def noise(self, arms: Ints) -> Floats:
        """The standard deviation of the noise of a result of each of these arms, on the model's scale."""
        assert self.policy.noise_std is not None
        return np.asarray(self.policy.noise_std * np.sqrt(self.noise_factors(arms)))

    def at(self, state: PosteriorState, memory: Memory) -> Belief:
        """The belief after feedback, with this posterior state and memory."""
        prior = None if self.prior is None else self.prior.at(state)
        return changed(self, state=state, memory=memory, prior=prior)

    def statistics(self) -> RunStatistics:
        """The statistics that widths depend on."""
        state, memory = self.state, self.memory
        return RunStatistics(
            pulls=state.pulls,
            effective_dimension=state.effective_dimension,
            log_det=state.log_det,
            prior_variance=state.prior_max,
            triple_log_sum=memory.triple_log_sum,
            log_sum=memory.log_sum,
            escaped=state.escaped,
            residual_trace=state.residual_trace,
        )

    def width(self, norm_bound: float | None = None) -> float:
        """β for the norm bound in use, or for another one."""
        bound = self.memory.norm_bound if norm_bound is None else norm_bound
        return self.policy.width_function()(self.statistics(), self.policy.assumptions(bound))

    def proved_width(self) -> float | None:
        """β of the bounds that hold at this feedback, whichever width chooses arms; None without a proof.

        No pull is hallucinated in these bounds, so that the factor √C̃ of a batch is left out.
        """
        name = self.policy.proved_width
        if name is None:
            return None
        given = replace(self.policy.assumptions(self.memory.norm_bound), batch_ratio=1.0)
        return width_named(name)(self.statistics(), given)

    def to_plain(self) -> dict[str, Any]:
        """Everything that cannot be recomputed bit for bit from pool, policy and model."""
        return {
            "model": None if self.model is None else self.model.describe(),
            "memory": self.memory.to_plain(),
            "posterior": self.process.to_plain(self.state),
            "prior": None if self.prior is None else self.prior.to_plain(),
        }

    def from_plain(self, plain: Mapping[str, Any]) -> Belief:
        """The belief that `to_plain` wrote; `self` is the initial belief under the same policy and model."""
        state = self.process.from_plain(plain["posterior"])
        prior = None if self.prior is None else self.prior.from_plain(plain["prior"], state)
        return replace(self, state=state, memory=Memory.from_plain(plain["memory"]), prior=prior)
