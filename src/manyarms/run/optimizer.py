"""Ask and tell: a run, whoever evaluates and whenever the results come in.

The papers' order is kept: a batch is chosen on the posterior of the last feedback; results that have come in
are used at the next `ask`, sorted by ticket, together with a renewal of the sketch. So a run does not depend
on the order in which results are told, nor on calls of `predict` or `best` in between.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from manyarms.choice.prior_draws import CorrectedPrior
from manyarms.choice.prior_features import prior_over
from manyarms.choice.thompson_draws import FunctionDraws, draw_functions
from manyarms.errors import NoResultsError
from manyarms.learning import LearnedModel, Prepared
from manyarms.policies import Policy
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from manyarms.posterior.posterior import Posterior
from manyarms.run import asking, checkpoint, telling
from manyarms.run.compact_state import CompactState
from manyarms.run.context import RunContext
from manyarms.run.feedback import with_feedback, with_oversampling
from manyarms.run.growing import with_more_arms
from manyarms.run.reward_scale import RewardScale
from manyarms.run.state import RunState
from manyarms.run.tickets import as_tickets
from manyarms.run.trace import Batch, BatchRecord
from manyarms.support.threads import threads_for
from manyarms.support.validation import Floats, Ints, count, probability


@dataclass(frozen=True)
class Best:
    """The pulled arm with the best model mean, and the model's interval for its value."""

    arm: int
    id: Any
    mean: float
    std: float
    lower: float
    upper: float
    pulls: int
    average: float


class Optimizer:
    """One run of a policy on a pool; without a policy, of `default_policy`.

    seed: random seed. budget: the number of pulls that may be handed out; where the model is learned, the
    initial design is at most a fifth of it, and the batch that spends it is chosen as a final batch.
    repeats: "allow", "forbid", the largest number of pulls of one arm, or "fresh", which offers an arm again
    only when all have been tried; by default "fresh" where the model is learned, else "allow".
    max_failures: after this many failed pulls an arm is not offered again (None: no limit). minimize: look
    for the smallest reward instead of the largest. storage: "float32" halves the memory. prepared: the result
    of `manyarms.learning.prepare` for this pool, if it is already known.

    The run is one frozen `RunState` with its `RunContext`. A call computes the next state and then replaces
    the present one, so a call that fails changes nothing.
    """

    def __init__(
        self,
        pool: Pool,
        policy: Policy | None = None,
        seed: int = 0,
        *,
        budget: int | None = None,
        repeats: str | int | None = None,
        max_failures: int | None = 1,
        storage: DTypeLike = np.float64,
        lazy: bool = True,
        minimize: bool = False,
        prepared: Prepared | None = None,
    ) -> None:
        context = RunContext.checked(
            pool, policy, seed, budget=budget, repeats=repeats, max_failures=max_failures, storage=storage,
            lazy=lazy, minimize=minimize, prepared=prepared,
        )  # fmt: skip
        self._move(context, RunState.initial(context))

    @classmethod
    def of(cls, context: RunContext, state: RunState) -> Optimizer:
        """A run at a given state."""
        run = cls.__new__(cls)
        run._move(context, state)
        return run

    def _move(self, context: RunContext, state: RunState) -> None:
        self._context, self._state = context, state
        self._ahead: RunState | None = None  # with_feedback(state), once somebody has looked

    def __repr__(self) -> str:
        state, context = self._state, self._context
        goal = "minimize" if context.minimize else "maximize"
        budget = "" if context.budget is None else f" of {context.budget}"
        return (
            f"Optimizer({context.pool.n_arms} arms, {type(context.policy).__name__}, {goal}, "
            f"{state.tickets.spent}{budget} pulls handed out, {state.history.pulls} results, "
            f"{len(state.tickets.pending)} pending)"
        )

    # ------------------------------------------------------------------ asking and telling

    def ask(
        self, n: int | None = None, *, at_most: int | None = None, eligible: ArrayLike | None = None
    ) -> Batch:
        """The next arms to evaluate.

        Without a size the policy's stopping rule ends the batch; `at_most` caps it; `n` asks for exactly n
        arms, going on past the rule: with a width that grows with the ratio or, where the model is learned
        and no width was named, with some exploration arms. `eligible` limits this one batch: a mask over all
        arms, or the arms' indices or ids.
        """
        wanted = asking.request(self._context, self._state, n, at_most, eligible)
        with threads_for(self.pool.n_arms):
            state, batch = asking.asked(self._context, self._looked_ahead(), wanted)
        self._move(self._context, state)
        return batch

    def tell(
        self,
        tickets: Batch | ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        *,
        arms: ArrayLike | None = None,
        failed: bool | Sequence[bool] = False,
    ) -> None:
        """Results of a batch, of some tickets, or of arms (indices or ids) nobody asked for; in any order.

        `failed`, one flag or one per result, marks trials that gave no reward; their rewards are not read.
        When anything is wrong with the call, none of it is recorded.
        """
        state = telling.told(self._context, self._state, tickets, rewards, arms, failed)
        self._move(self._context, state)

    def forget(self, tickets: Batch | ArrayLike) -> None:
        """Give up tickets whose result will not come, as if they had never been handed out."""
        still_due = self._state.tickets.given_up(as_tickets(tickets))
        ahead = self._ahead
        self._move(self._context, replace(self._state, tickets=still_due))
        self._ahead = None if ahead is None else replace(ahead, tickets=still_due)

    def extend_horizon(self, oversampling: float) -> None:
        """Go on past the planned horizon: raise q̄, draw the sketch again, keep every result."""
        self._move(*with_oversampling(self._context, self._looked_ahead(), oversampling))

    def add_arms(self, features: Any, ids: Sequence[Hashable] | None = None) -> Ints:
        """Add candidates to the pool; returns their indices."""
        before, pool = self.pool.n_arms, self.pool.extended(features, ids)
        self._move(*with_more_arms(self._context, self._state, pool))
        return np.arange(before, pool.n_arms)

    def _looked_ahead(self) -> RunState:
        """The state with every result used. Looking does not move the run."""
        if self._ahead is None:
            with threads_for(self.pool.n_arms):
                self._ahead = with_feedback(self._context, self._state)
        return self._ahead

    # ------------------------------------------------------------------ looking

    @property
    def context(self) -> RunContext:
        """What the run was asked to do: pool, requested policy, seed and rules."""
        return self._context

    @property
    def state(self) -> RunState:
        """Everything that has happened so far, as one immutable value."""
        return self._state

    @property
    def pool(self) -> Pool:
        """The candidates."""
        return self._context.pool

    @property
    def seed(self) -> int:
        """The random seed."""
        return self._context.seed

    @property
    def budget(self) -> int | None:
        """How many pulls may be handed out; it may be changed during a run."""
        return self._context.budget

    @budget.setter
    def budget(self, budget: int | None) -> None:
        self._context = replace(self._context, budget=None if budget is None else count("budget", budget))

    @property
    def repeats(self) -> str | int:
        """How often an arm may be pulled."""
        return self._context.repeats

    @property
    def max_failures(self) -> int | None:
        """After how many failed pulls an arm is not offered again."""
        return self._context.max_failures

    @property
    def policy(self) -> Policy:
        """The algorithm and its settings in use; a learned kernel is filled in."""
        return self._state.belief.policy

    @property
    def prior(self) -> CorrectedPrior | None:
        """What Thompson draws start from, where the posterior's features do not describe all of it."""
        return self._state.belief.prior

    @property
    def posterior(self) -> Posterior:
        """The posterior as of the last feedback, on the model's scale (`model.transform`)."""
        return self._state.belief.posterior

    @property
    def model(self) -> LearnedModel | None:
        """The model learned from every result told so far, and what it assumed; None with a given kernel.

        With `minimize=True` it describes the rewards with their sign changed.
        """
        return self._looked_ahead().belief.model

    @property
    def history(self) -> History:
        """Pull counts and reward sums of every result told so far."""
        history = self._state.history
        if self._context.minimize:
            return history.with_rewards(-history.sums, history.squares)
        return history.on(self.pool.n_arms)

    @property
    def pending(self) -> dict[int, int]:
        """Tickets whose result is still due, and their arms."""
        return dict(self._state.tickets.pending)

    @property
    def spent(self) -> int:
        """Pulls handed out and not given up: what counts against the budget."""
        return self._state.tickets.spent

    @property
    def norm_bound(self) -> float:
        """F in use: the policy's, or what guess-and-double has reached."""
        return self._state.belief.memory.norm_bound

    @property
    def trace(self) -> list[BatchRecord]:
        """One record per batch handed out."""
        return list(self._state.trace.records)

    @property
    def n_batches(self) -> int:
        """How many batches have been handed out."""
        return self._state.n_batches

    def predict(self, arms: ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Posterior mean and standard deviation, in reward units, of some arms (indices or ids) or of all.

        Where rewards were transformed for a learned model, the median and half the distance between the
        values one standard deviation above and below it.
        """
        belief = self._looked_ahead().belief
        chosen: Any = slice(None) if arms is None else self.pool.arms_of(arms)
        return self._scale(belief.model).spread(
            belief.state.mean[chosen].copy(), np.sqrt(belief.state.variance[chosen])
        )

    def interval(self, arms: ArrayLike, share: float = 0.9) -> tuple[Floats, Floats]:
        """Where a new reward of each of these arms lies with this probability, its noise included."""
        belief = self._looked_ahead().belief
        chosen, noise = self.pool.arms_of(arms), belief.policy.noise_std
        assert noise is not None
        middle, std = belief.state.mean[chosen], np.sqrt(belief.state.variance[chosen] + noise**2)
        reach = NormalDist().inv_cdf(0.5 + 0.5 * probability("share", share)) * std
        return self._scale(belief.model).interval(middle - reach, middle + reach)

    def draw(self, n: int = 1) -> FunctionDraws:
        """n functions from the posterior with every result told so far, as Thompson sampling draws them.

        Their spread is α_t times the posterior's, α_t being the policy's width in standard deviations.
        They are values on the pool and can be called at any points, on the model's scale and (where it
        was encoded) in the model's features. Looking does not move the run.
        """
        state = self._looked_ahead()
        belief, prior, streams = state.belief, state.belief.prior, self._context.streams
        if prior is None and belief.state.keeps_residual:  # a policy that never draws
            process = belief.process
            sampler = prior_over(
                process.pool, process.kernel, 1000, streams.at("prior"), "auto", process.storage
            )
            prior = CorrectedPrior.of(sampler, belief.state)
        scale = belief.width() / math.sqrt(belief.state.ridge)
        return draw_functions(belief.posterior, prior, scale, n, streams.at("thompson", state.n_batches))

    def best(self) -> Best:
        """The arm with the best model mean among those pulled, with its interval mean ± β σ̃."""
        history = self.history
        if not len(history):
            failures = sum(self._state.tickets.failures.values())
            raise NoResultsError(
                f"no result: all {failures} trials told failed" if failures else "no result has been told yet"
            )
        belief = self._looked_ahead().belief
        state, scale, arms = belief.state, self._scale(belief.model), history.arms
        place = int(np.argmax(state.mean[arms]))
        arm = int(arms[place])
        middle, reach = state.mean[[arm]], belief.width() * np.sqrt(state.leverage[[arm]])
        mean, std = scale.spread(middle, np.sqrt(state.variance[[arm]]))
        lower, upper = scale.interval(middle - reach, middle + reach)
        pulls = int(history.counts[place])
        return Best(
            arm=arm,
            id=self.pool.id_of(arm),
            mean=float(mean[0]),
            std=float(std[0]),
            lower=float(lower[0]),
            upper=float(upper[0]),
            pulls=pulls,
            average=float(history.sums[place] / pulls),
        )

    def _scale(self, model: LearnedModel | None) -> RewardScale:
        return RewardScale(model, self._context.sign)

    # ------------------------------------------------------------------ keeping

    def save(self, path: str | Path) -> None:
        """Write the whole run to one file (an npz archive with a JSON manifest; no pickle)."""
        checkpoint.save(self._context, self._state, Path(path))

    def compact(self) -> CompactState:
        """The run without anything of the pool's size, as a campaign keeps it."""
        return CompactState.of(self._context, self._state)

    @classmethod
    def load(cls, path: str | Path, pool: Pool | None = None, policy: Policy | None = None) -> Optimizer:
        """Read a saved run; it goes on bit for bit as if it had never stopped.

        The pool is in the file unless its arms are Python objects; given one, it must be the same.
        `policy` is needed only when its kernel is not one of this package's.
        """
        return cls.of(*checkpoint.load(Path(path), pool, policy))
