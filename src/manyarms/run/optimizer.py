"""The ask-and-tell interface: a run in which the caller evaluates the arms, in any order and at any time.

The order of the papers is kept: a batch is chosen on the posterior of the last feedback, and results are used
at the next `ask`, sorted by ticket, together with a renewal of the sketch. A run therefore does not depend on
the order in which results are recorded, nor on calls of `predict` or `best` in between.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from manyarms.choice.prior_draws import CorrectedPrior
from manyarms.choice.prior_features import prior_over
from manyarms.choice.thompson_draws import FunctionDraws, draw_functions
from manyarms.engines.base import Engine
from manyarms.errors import InvalidParameterError, NoResultsError
from manyarms.learning import LearnedModel, Prepared
from manyarms.policies import Policy
from manyarms.pool.costs import Costs
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.storage import AUTO
from manyarms.run import asking, telling
from manyarms.run.advice import Advice
from manyarms.run.batch_structure import BatchStructure
from manyarms.run.best import Best
from manyarms.run.context import AUTOMATIC, LEARN, RunContext, checked_budget
from manyarms.run.domains import Domain, OnDomains
from manyarms.run.feedback import with_feedback, with_oversampling
from manyarms.run.frames import Frames
from manyarms.run.growing import with_more_arms
from manyarms.run.prior_results import PriorResults
from manyarms.run.reward_scale import RewardScale
from manyarms.run.spending import Spending
from manyarms.run.state import RunState
from manyarms.run.tickets import as_tickets
from manyarms.run.trace import Batch, BatchRecord
from manyarms.support.threads import threads_for
from manyarms.support.validation import Floats, Ints, probability

if TYPE_CHECKING:
    from manyarms.run.certificate import Certificate
    from manyarms.run.compact_state import CompactState

NINETY = NormalDist().inv_cdf(0.95)  # standard deviations to either side that hold 90 % of a normal variable


class Optimizer(OnDomains, Frames, Advice, Spending):
    """One run of a policy on a pool.

    pool: the candidates, or a `Box` (docs/continuous.md).
    policy: the algorithm; None is `manyarms.policies.default_policy()`.
    seed: the random seed.
    budget: the number of pulls that may be handed out; None for no limit. If the model is learned, the
        initial design uses at most a fifth of the budget. A batch of exactly n arms that uses up the budget
        is a final batch, if the policy chooses by upper bounds with the automatic width.
    repeats: "allow", "forbid", the largest number of pulls of one arm, or "fresh", which offers an arm again
        only after all have been tried. The default is "fresh" if the model is learned, otherwise "allow".
    failures: "learn" or "drop", see docs/failures.md. "learn" offers arms that failed again if failures look
        random, and avoids arms that are unlikely to succeed if failures depend on the features.
    max_failures: the number of failed pulls after which an arm is not offered again; None for no limit.
        "auto" decides by the outcomes so far, and allows at most three; with "drop" it is one.
    storage: the type of the stored columns, "float64" or "float32", which halves memory and time. By default,
        "float32" for 200 000 arms or more with at least three features, if the posterior is a sketch. Columns
        are "float64" in any case while the noise variance is below 1e-5 of the prior variance.
    lazy: if False, every upper bound is computed for every pick. This is slow and serves as a reference.
    minimize: search for the smallest reward instead of the largest.
    prepared: the result of `manyarms.learning.prepare` for this pool, if it has been computed already.
    costs: what a pull of each arm costs, with a budget and a rule (`manyarms.Costs`); None: pulls are alike.
    engine: where the pool is held and worked on, such as `manyarms.engines.Local(threads=4)`; the arms chosen
        do not depend on it. By default, large pools use all cores.
    prior: old results to learn from (`PriorResults`), from one source or several; see docs/old-results.md.

    The run is one frozen `RunState` with its `RunContext`. A call computes the next state and then replaces
    the present one, so a call that fails changes nothing.
    """

    def __init__(
        self,
        pool: Pool | Domain,
        policy: Policy | None = None,
        seed: int = 0,
        *,
        budget: int | None = None,
        repeats: str | int | None = None,
        failures: str = LEARN,
        max_failures: int | str | None = AUTOMATIC,
        storage: DTypeLike = AUTO,
        lazy: bool = True,
        minimize: bool = False,
        prepared: Prepared | None = None,
        engine: Engine | None = None,
        costs: Costs | None = None,
        prior: PriorResults | Sequence[PriorResults] = (),
    ) -> None:
        context = RunContext.checked(
            pool, policy, seed, budget=budget, repeats=repeats, failures=failures, max_failures=max_failures,
            storage=storage, lazy=lazy, minimize=minimize, prepared=prepared, engine=engine, costs=costs,
            prior=prior,
        )  # fmt: skip
        self._move(context, RunState.initial(context))

    @classmethod
    def of(cls, context: RunContext, state: RunState) -> Optimizer:
        """A run with this context and state."""
        run: Optimizer = cls.__new__(cls)
        run._move(context, state)
        return run

    def _move(self, context: RunContext, state: RunState) -> None:
        self._ahead: RunState | None = None  # with_feedback(state), once it has been computed
        self._context, self._state = context, state

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
        self,
        n: int | None = None,
        *,
        at_most: int | None = None,
        eligible: ArrayLike | None = None,
        structure: BatchStructure | None = None,
        max_cost: float | None = None,
        per_cost: bool | None = None,
    ) -> Batch:
        """The next arms to evaluate, each with a ticket.

        n: ask for exactly n arms, whatever the policy's stopping rule decides. Beyond the rule, the width
            grows with the variance ratio or, if the model is learned and no width was given, the batch
            includes exploration arms. Without n, the stopping rule ends the batch.
        at_most: the largest size of a batch that the stopping rule ends.
        eligible: the arms that this batch may contain, as a boolean mask over all arms, indices or ids
            (whole numbers are always indices).
        structure: rules for the arms of this batch together, such as one temperature for all of them.
        max_cost: what this batch may cost at most, in a run with costs.
        per_cost: whether this batch is chosen by value per cost; None: as the costs say.
        """
        wanted = asking.request(
            self._context, self._state, n, at_most, eligible, structure, max_cost, per_cost
        )
        with threads_for(self.pool.n_arms):
            if self._ahead is None:
                self._ahead = with_feedback(self._context, self._state)
            state, batch = asking.asked(self._context, self._ahead, wanted)
        self._move(self._context, state)
        return batch

    def tell(
        self,
        tickets: Batch | ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        *,
        arms: ArrayLike | None = None,
        failed: bool | Sequence[bool] = False,
        noise_std: ArrayLike | None = None,
        replicates: ArrayLike | None = None,
    ) -> None:
        """Record results, in any order. If any argument is invalid, nothing is recorded.

        tickets: the batch or tickets that the results belong to.
        rewards: one reward for each ticket or arm.
        arms: indices or ids of arms, instead of tickets, for results that were not asked for. Whole numbers
            are always indices; `Pool.index_of` finds the arm of an id that is a number.
        failed: one flag for all results or one for each, marking trials without a reward; their rewards are
            ignored.
        noise_std: the standard deviation of the noise of the results, one for all or one for each (None where
            it is not known), in reward units. It is taken as it is; see docs/noise.md.
        replicates: the number of measurements that each result is the mean of, one for all or one for each.
        """
        state = telling.told(
            self._context, self._state, tickets, rewards, arms, failed, noise_std, replicates
        )
        self._move(self._context, state)

    def forget(self, tickets: Batch | ArrayLike) -> None:
        """Give up a batch or some tickets without a result, as if they had never been handed out."""
        given_up, before = as_tickets(tickets), self._state.tickets
        still_due, costs, ahead = before.given_up(given_up), self._context.costs, self._ahead
        arms = np.array([before.pending[each] for each in given_up], dtype=np.int64)
        spent = self._state.cost_spent - (0.0 if costs is None else costs.total(arms))
        state = replace(self._state, tickets=still_due, cost_spent=max(spent, 0.0))
        self._move(self._context, state)
        if ahead is not None:
            self._ahead = replace(ahead, tickets=still_due, cost_spent=state.cost_spent)

    def extend_horizon(self, oversampling: float | str) -> None:
        """Continue beyond the planned horizon with q̄ = `oversampling` and a new draw of inducing arms."""
        self._move(*with_oversampling(self._context, self._looked_ahead(), oversampling))

    def add_arms(
        self, features: Any, ids: Sequence[Hashable] | None = None, *, costs: ArrayLike | None = None
    ) -> Ints:
        """Add candidates with these feature rows and ids to the pool, and return their indices.

        costs: what a pull of each of them costs, in a run with costs.
        """
        before, pool = self.pool.n_arms, self.pool.extended(features, ids)
        known = self._context.costs
        if (known is None) != (costs is None):
            rule = "left out in a run without costs" if known is None else "one number for each new arm"
            raise InvalidParameterError("costs", costs, rule)
        grown = known if known is None or costs is None else known.extended(costs, pool)
        context, state = with_more_arms(self._context, self._state, pool)
        self._move(replace(context, costs=grown), state)
        return np.arange(before, pool.n_arms)

    def _looked_ahead(self) -> RunState:
        """The state with every recorded result used; the run itself is not changed."""
        if self._ahead is None:
            with threads_for(self.pool.n_arms):
                self._ahead = with_feedback(self._context, self._state)
        return self._ahead

    # ------------------------------------------------------------------ reading

    @property
    def context(self) -> RunContext:
        """The fixed part of the run: pool, requested policy, seed and settings."""
        return self._context

    @property
    def state(self) -> RunState:
        """The changing part of the run as one immutable value."""
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
        """The number of pulls that may be handed out; it may be changed during a run."""
        return self._context.budget

    @budget.setter
    def budget(self, budget: int | None) -> None:
        self._context = replace(self._context, budget=checked_budget(self._context.policy, budget))

    @property
    def repeats(self) -> str | int:
        """Whether, or how often, an arm may be pulled again."""
        return self._context.repeats

    @property
    def max_failures(self) -> int | str | None:
        """The number of failed pulls after which an arm is not offered again, as it was given."""
        return self._context.max_failures

    @property
    def policy(self) -> Policy:
        """The policy in use, with a learned kernel, noise and width filled in."""
        return self._state.belief.policy

    @property
    def prior(self) -> CorrectedPrior | None:
        """The prior of Thompson draws; None if the posterior's feature map is enough or nothing is drawn."""
        return self._state.belief.prior

    @property
    def posterior(self) -> Posterior:
        """The posterior as of the last feedback, on the model's scale (`model.transform`)."""
        return self._state.belief.posterior

    @property
    def model(self) -> LearnedModel | None:
        """The model learned from all results so far and its assumptions; None if the kernel was given.

        With `minimize=True` it describes the rewards with their sign changed.
        """
        return self._looked_ahead().belief.model

    @property
    def history(self) -> History:
        """Pull counts and reward sums of all results so far."""
        history = self._state.history
        if self._context.minimize:
            return history.negated()
        return history.on(self.pool.n_arms)

    @property
    def pending(self) -> dict[int, int]:
        """The arm of each ticket whose result is pending."""
        return dict(self._state.tickets.pending)

    @property
    def spent(self) -> int:
        """The number of pulls handed out and not forgotten, which counts against the budget."""
        return self._state.tickets.spent

    @property
    def norm_bound(self) -> float:
        """F in use: the policy's, or the present value of guess-and-double."""
        return self._state.belief.memory.norm_bound

    @property
    def trace(self) -> list[BatchRecord]:
        """One record per batch handed out."""
        return list(self._state.trace.records)

    @property
    def n_batches(self) -> int:
        """The number of batches handed out."""
        return self._state.n_batches

    def predict(self, arms: ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Posterior mean and standard deviation, in reward units, of these arms or of all.

        arms: indices or ids; whole numbers are always indices.

        They describe the expected reward of an arm; for a new measurement use `interval`. If a learned model
        transforms the rewards, these are the median and half the distance between the values one standard
        deviation above and below it.
        """
        belief = self._looked_ahead().belief
        if arms is None:
            mean, leverage = belief.state.mean.copy(), belief.state.leverage
        else:
            known = belief.state.at(self.pool.arms_of(arms))
            mean, leverage = known.mean, known.leverage
        return self._scale(belief.model).spread(mean, belief.std(leverage))

    def interval(self, arms: ArrayLike, share: float = 0.9) -> tuple[Floats, Floats]:
        """Prediction intervals for a new reward of each of these arms, including its noise.

        arms: indices or ids of arms; whole numbers are always indices.
        share: the probability that the reward is inside the interval.

        Returns the lower and the upper ends of the intervals, in reward units.
        """
        belief = self._looked_ahead().belief
        places = self.pool.arms_of(arms)
        known = belief.state.at(places)
        middle, std = known.mean, np.hypot(belief.std(known.leverage), belief.noise(places))
        reach = NormalDist().inv_cdf(0.5 + 0.5 * probability("share", share)) * std
        return self._scale(belief.model).interval(middle - reach, middle + reach)

    def draw(self, n: int = 1) -> FunctionDraws:
        """Draw n functions from the posterior given all results so far, as Thompson sampling does.

        Their standard deviation is α_t times the posterior's, where α_t is the policy's width in standard
        deviations. The functions have values on the pool and can be called at any points. They are on the
        model's scale, and points are feature rows as encoded for the model. The run itself is not changed.
        """
        state = self._looked_ahead()
        belief, prior, streams = state.belief, state.belief.prior, self._context.streams
        if prior is None and belief.state.keeps_residual:  # a policy that draws no functions
            process = belief.process
            sampler = prior_over(
                process.pool, process.kernel, 1000, streams.at("prior"), "auto", process.storage
            )
            prior = CorrectedPrior.of(sampler, belief.state)
        scale = belief.width() / math.sqrt(belief.state.ridge)
        return draw_functions(belief.posterior, prior, scale, n, streams.at("thompson", state.n_batches))

    def best(self) -> Best:
        """The pulled arm with the best posterior mean, with an interval for its expected reward."""
        history = self.history
        if not len(history):
            failures = sum(self._state.tickets.failures.values())
            raise NoResultsError(
                f"no result: all {failures} trials failed" if failures else "no result has been recorded yet"
            )
        belief = self._looked_ahead().belief
        state, scale, arms = belief.state, self._scale(belief.model), history.arms
        known = state.at(arms)
        place = int(np.argmax(known.mean))
        arm, here = int(arms[place]), slice(place, place + 1)
        middle, spread = known.mean[here], belief.std(known.leverage[here])
        reach = NINETY * spread if belief.model else belief.width() * np.sqrt(known.leverage[here])
        mean, std = scale.spread(middle, spread)
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
            features=self.pool.features[arm],
        )

    def certificate(self) -> Certificate:
        """How far the arm of `best`, and all pulls so far, can be from the best arm of the pool.

        With a kernel, a noise and a norm bound that you vouch for, it is proved to hold with probability
        1 − δ. If the model is learned, it is an estimate from draws of the posterior (theory §4.11, §4.12).
        """
        from manyarms.run.certificate import certificate_of

        arm = self.best().arm
        with threads_for(self.pool.n_arms):
            return certificate_of(self._context, self._looked_ahead(), arm)

    def _scale(self, model: LearnedModel | None) -> RewardScale:
        return RewardScale(model, self._context.sign)

    # ------------------------------------------------------------------ saving

    def save(self, path: str | Path) -> None:
        """Write the whole run to one file at `path` (an npz archive with a JSON manifest, without pickle)."""
        from manyarms.run import checkpoint  # imported when it is needed

        checkpoint.save(self._context, self._state, Path(path))

    def compact(self) -> CompactState:
        """The run in compact form, without arrays of the size of the pool, as campaigns store it."""
        from manyarms.run.compact_state import CompactState

        return CompactState.of(self._context, self._state)

    @classmethod
    def load(
        cls,
        path: str | Path,
        pool: Pool | None = None,
        policy: Policy | None = None,
        engine: Engine | None = None,
    ) -> Optimizer:
        """Read a saved run, which continues bit for bit as if it had not been interrupted.

        path: the file that `save` wrote.
        pool: needed only if the arms are Python objects, which are not in the file; it must be the same pool.
        policy: needed only if the policy or its kernel is not one of this package.
        engine: as for a new run; it need not be the one that the run was saved on.
        """
        from manyarms.run import checkpoint

        plain = checkpoint.read(Path(path))
        run: Optimizer = cls.class_for(plain)._from_plain(plain, Path(path), pool, policy, engine)
        return run

    @classmethod
    def _from_plain(cls, plain: Mapping[str, Any], path: Path, *given: Any) -> Optimizer:
        from manyarms.run import checkpoint

        return cls.of(*checkpoint.restored(plain, path, *given))
