"""Ask and tell: the loop's state, whoever evaluates and whenever the results come in.

The paper's order is kept: a batch is chosen on the posterior of the last feedback; results that have
come in are taken in at the next `ask`, sorted by ticket, together with a renewal of the sketch. So the
run does not depend on the order in which results are told, nor on looks at `predict` or `best` between.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from manyarms.choice.prior_draws import PriorSampler
from manyarms.choice.prior_features import prior_over
from manyarms.choice.selection import (
    BatchContext,
    FilledBatch,
    FromDesign,
    SelectionRule,
    StartWith,
    UniformStart,
)
from manyarms.choice.thompson_draws import FunctionDraws, draw_functions
from manyarms.errors import BudgetSpentError, InvalidParameterError, NoResultsError
from manyarms.learning import LearnedModel, Prepared, design_size, initial_design
from manyarms.policies import Policy, default_policy
from manyarms.pool.pool import Pool
from manyarms.posterior.hallucination import Hallucination
from manyarms.posterior.history import History
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.state import PosteriorState
from manyarms.run.belief import Mind
from manyarms.run.eligibility import Allowance, allowance, repeats_setting
from manyarms.run.feedback import Learner, Lesson
from manyarms.run.results import Told, failure_flags, reward_values
from manyarms.run.surrogate import Modelled
from manyarms.run.tickets import Ledger, as_tickets
from manyarms.run.trace import Batch, BatchRecord, Trace
from manyarms.support.random_streams import Streams
from manyarms.support.threads import threads_for
from manyarms.support.validation import Floats, Ints, arm_indices, count, probability


@dataclass(frozen=True)
class Best:
    """The pulled arm with the highest model mean, and the model's interval for its value."""

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

    seed: everything random follows from it. budget: pulls that may be handed out in all; where the model is
    learned, the design is at most a fifth of it, and a plate that spends it takes what looks best. repeats:
    "allow", "forbid", how often an arm may be pulled at most, or "fresh", which offers an arm again only
    when all have been tried; by default "fresh" where the model is learned, else "allow". max_failures:
    after so many failed pulls an arm is not offered again (None: never left out). storage: "float32"
    halves the memory. prepared: what `manyarms.learning.prepare` made of this pool, where that is known.
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
        prepared: Prepared | None = None,
    ) -> None:
        if not isinstance(pool, Pool):
            raise InvalidParameterError("pool", pool, "a manyarms.Pool")
        policy = default_policy() if policy is None else policy
        if not isinstance(policy, Policy):
            raise InvalidParameterError("policy", policy, "a policy such as manyarms.BBKB(kernel=…)")
        self.budget = None if budget is None else count("budget", budget)
        if repeats is None:
            repeats = "fresh" if policy.kernel == "auto" else "allow"
        self.repeats = repeats_setting(repeats)
        self.max_failures = None if max_failures is None else count("max_failures", max_failures)
        if not isinstance(lazy, bool):
            raise InvalidParameterError("lazy", lazy, "True or False")
        self.lazy = lazy
        self.history = History(pool.n_arms)
        self._streams = Streams(seed)
        # How many arms there were when features were encoded, and when the model was learned.
        self.started_with = self.modelled_with = pool.n_arms
        modelled = Modelled.start(pool, policy, self._streams.at("learning", 0), prepared)
        self._mind = Mind.of(modelled, self._streams, storage)
        self._plan: list[int] | None = None  # the initial design, once there is one
        self._ledger = Ledger()
        self._trace = Trace()
        self._waiting: list[Told] = []
        self._unasked = 0
        self._next_lesson: Lesson | Mind | None = None

    # ------------------------------------------------------------------ asking

    def ask(
        self, n: int | None = None, *, at_most: int | None = None, eligible: ArrayLike | None = None
    ) -> Batch:
        """The next arms to evaluate.

        Without a size the policy's rule ends the batch; `at_most` caps it; `n` gives exactly n (a plate),
        going on past the rule: with a width that grows with the realised ratio or, where the model is learned
        and no width was named, with some exploration arms. `eligible` limits this one
        batch: a mask over all arms, or the arms' indices.
        """
        started = time.perf_counter()
        limit, exactly = self._size(n, at_most)
        least = limit if exactly and limit is not None else 1
        allowed = allowance(self.history, self._ledger, self.repeats, self.max_failures, eligible, least)
        allowed.check(limit, exactly)
        with threads_for(self.pool.n_arms):
            self._take_feedback()
            self._make_plan(limit if exactly else None)
            with self._streams.unused_on_error():
                filled, width = self._fill(allowed, limit, exactly)
        return self._hand_out(filled, width, started)

    def _size(self, n: int | None, at_most: int | None) -> tuple[int | None, bool]:
        if n is not None and at_most is not None:
            raise InvalidParameterError("at_most", at_most, "left out when exactly n arms are asked for")
        limit = (
            None
            if n is None and at_most is None
            else count("n", n)
            if n is not None
            else count("at_most", at_most)
        )
        if self.budget is not None:
            left = self.budget - self._ledger.spent
            if left <= 0:
                raise BudgetSpentError(f"all {self.budget} pulls of the budget have been handed out")
            if n is not None and n > left:
                raise BudgetSpentError(f"{n} arms asked for, the budget of {self.budget} has {left} left")
            limit = left if limit is None else min(limit, left)
        return limit, n is not None

    def _fill(self, allowed: Allowance, limit: int | None, exactly: bool) -> tuple[FilledBatch, float]:
        overlay = Hallucination(self.posterior)
        for arm, times in sorted(self._ledger.pending_counts().items()):
            overlay.pull(arm, times)
        width = self._learner.width()
        ratio = self.policy.ratio_bound if self._mind.modelled.widens else math.inf
        turn = BatchContext(
            self.posterior, overlay, self.policy.stopping_rule(), width, ratio,
            allowed.times, limit, exactly, self._streams, self.lazy, self._mind.prior,
        )  # fmt: skip
        last = exactly and self.budget is not None and limit == self.budget - self._ledger.spent
        first = allowed.first
        size = limit - len(first) if exactly and limit is not None else None
        chooser = self._chooser(allowed.others, size, last)
        return (StartWith(tuple(first.tolist()), chooser) if len(first) else chooser).fill(turn), width

    def _chooser(self, allowed: Floats, size: int | None, last: bool) -> SelectionRule:
        """The initial design until it has been handed out; then, once there are results, the policy's.

        A plate of a given size that is larger than what is left of the design is filled up by the policy.
        `last` is a plate that spends the rest of the budget: a design would come too late.
        """
        if not self.posterior.state.pulls:
            left = self._left_of_plan(allowed)
            return FromDesign(left) if left else UniformStart()
        chooser = self._mind.modelled.selection_rule(last)
        left = () if last else self._left_of_plan(allowed)
        if size is None or size <= len(left):
            return FromDesign(left) if left else chooser
        return StartWith(left, chooser) if left else chooser

    def _left_of_plan(self, allowed: Floats) -> tuple[int, ...]:
        """The arms of the initial design still to be handed out; none once there are as many results."""
        if self._plan is None or len(self.history) >= len(self._plan):
            return ()
        taken = {*self.history.arms.tolist(), *self._ledger.pending.values(), *self._ledger.failures}
        return tuple(arm for arm in self._plan if arm not in taken and allowed[arm] > 0)

    def _make_plan(self, at_least: int | None) -> None:
        """An initial design, where the model is learned and hardly anything has been told yet."""
        prepared = self._mind.modelled.prepared
        if prepared is None or self._plan is not None:
            return
        size = max(design_size(prepared, self.budget), min(at_least or 0, self.pool.n_arms))
        enough = len(self.history) >= size
        self._plan = [] if enough else initial_design(prepared, size, self._streams.at("design", 0)).tolist()

    def _hand_out(self, filled: FilledBatch, width: float, started: float) -> Batch:
        state = self.posterior.state
        tickets = np.array(self._ledger.issue(filled.arms), dtype=np.int64)
        arms = np.array(filled.arms, dtype=np.int64)
        arms.flags.writeable = tickets.flags.writeable = False  # the trace and the caller share them
        record = BatchRecord(
            arms, tickets, np.full(len(arms), np.nan), np.zeros(len(arms), dtype=bool),
            state.sketch_size, width, state.effective_dimension, filled.ended_because, filled.ratio,
            time.perf_counter() - started,
        )  # fmt: skip
        self._trace.add(record)
        return Batch(arms, self.pool.ids_of(arms), tickets, filled.ended_because, filled.ratio)

    # ------------------------------------------------------------------ telling

    def tell(
        self,
        tickets: Batch | ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        *,
        arms: ArrayLike | None = None,
        failed: bool | Sequence[bool] = False,
    ) -> None:
        """Results of a batch, of some tickets, or (`arms=`) of pulls nobody asked for; in any order.

        `failed`, one flag or one per result, marks trials that gave no reward; theirs is not read. When
        anything is wrong with the call, nothing of it is taken in.
        """
        if (tickets is None) == (arms is None):
            raise InvalidParameterError("tell", None, "given a batch, tickets, or arms=… (one of them)")
        if arms is not None:
            named, owners = None, arm_indices(arms, self.pool.n_arms)
        else:
            named = as_tickets(tickets)
            self._ledger.check(named)
            owners = np.array([self._ledger.pending[ticket] for ticket in named], dtype=np.int64)
        flags = failure_flags(failed, len(owners))
        values = reward_values(rewards, flags)
        self.history.record(owners[~flags], values[~flags])
        for place, (arm, reward, lost) in enumerate(
            zip(owners.tolist(), values.tolist(), flags.tolist(), strict=True)
        ):
            self._settle(None if named is None else named[place], arm, reward, lost)
        self._next_lesson = None

    def _settle(self, ticket: int | None, arm: int, reward: float, lost: bool) -> None:
        if ticket is None:
            order = (1, self._unasked)
            self._unasked += 1
        else:
            order = (0, ticket)
            self._ledger.settle(ticket)
            self._trace.told(ticket, reward, lost)
        if lost:
            self._ledger.failures[arm] += 1
        else:
            self._waiting.append(Told(order, arm, reward))

    def forget(self, tickets: Batch | ArrayLike) -> None:
        """Give up tickets whose worker is lost: as if they had never been handed out."""
        self._ledger.forget(as_tickets(tickets))

    def _lesson(self) -> Lesson | Mind | None:
        """Where the results told since the last feedback lead; kept until another one is told."""
        if self._waiting and self._next_lesson is None:
            modelled = self._mind.modelled
            if modelled.due(self.history):
                self._next_lesson = self._mind.relearned(self.history, self._streams)
                return self._next_lesson
            waiting = sorted(self._waiting, key=lambda result: result.order)
            rewards = np.array([result.reward for result in waiting])
            self._next_lesson = self._learner.lesson(
                np.array([result.arm for result in waiting], dtype=np.int64), modelled.values(rewards)
            )
        return self._next_lesson

    def _take_feedback(self) -> None:
        lesson = self._lesson()
        if lesson is not None:
            self._waiting, self._next_lesson = [], None
            if isinstance(lesson, Mind):
                self._mind, self.modelled_with = lesson, self.pool.n_arms
            else:
                self._learner.learn(lesson)

    def extend_horizon(self, oversampling: float) -> None:
        """Go on past the planned horizon: raise q̄, draw the sketch again, keep every result."""
        policy = self._learner.with_oversampling(oversampling)
        self._take_feedback()
        self._learner.extend_horizon(policy)
        asked = replace(self._mind.modelled.asked, oversampling=oversampling)  # type: ignore[call-arg]
        self._mind = replace(self._mind, modelled=replace(self._mind.modelled, asked=asked))

    # ------------------------------------------------------------------ looking

    @property
    def _learner(self) -> Learner:
        return self._mind.learner

    @property
    def policy(self) -> Policy:
        """The algorithm and its settings in use; a learned kernel is filled in."""
        return self._learner.policy

    @property
    def prior(self) -> PriorSampler | None:
        """What Thompson draws start from, where the posterior's features do not say it all."""
        return self._mind.prior

    @property
    def model(self) -> LearnedModel | None:
        """What every result told so far says about kernel, noise and rewards, and what was assumed.

        None where the kernel was given.
        """
        return self._current()[2].modelled.model

    @property
    def posterior(self) -> Posterior:
        """The posterior as of the last feedback, on the model's scale (`model.transform`)."""
        return self._learner.posterior

    @property
    def pool(self) -> Pool:
        """The candidates."""
        return self._mind.modelled.pool

    @property
    def seed(self) -> int:
        """What everything random follows from."""
        return self._streams.seed

    @property
    def pending(self) -> dict[int, int]:
        """Tickets whose result is still out, and their arms."""
        return dict(self._ledger.pending)

    @property
    def spent(self) -> int:
        """Pulls handed out so far, those given up left out: what counts against the budget."""
        return self._ledger.spent

    @property
    def norm_bound(self) -> float:
        """F in use: the policy's, or what guess-and-double has reached."""
        return self._learner.memory.norm_bound

    @property
    def trace(self) -> list[BatchRecord]:
        """One record per batch handed out."""
        return self._trace.records()

    def _current(self) -> tuple[PosteriorState, float, Mind]:
        """Posterior, width and model with every result told so far. Looking does not move the run."""
        with threads_for(self.pool.n_arms):
            lesson = self._lesson()
        if isinstance(lesson, Mind):
            return lesson.learner.posterior.state, lesson.learner.width(), lesson
        if lesson is None:
            return self.posterior.state, self._learner.width(), self._mind
        return lesson.state, self._learner.width(lesson.state, lesson.memory), self._mind

    def predict(self, arms: ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Posterior mean and standard deviation, in reward units, of some arms or of all.

        Where rewards were transformed for a learned model, the median and half the distance between the
        values one standard deviation above and below it.
        """
        state, _, mind = self._current()
        chosen = slice(None) if arms is None else arm_indices(arms, self.pool.n_arms)
        return mind.modelled.spread(state.mean[chosen].copy(), np.sqrt(state.variance[chosen]))

    def interval(self, arms: ArrayLike, share: float = 0.9) -> tuple[Floats, Floats]:
        """Where a new reward of each of these arms lies with this probability, its noise included."""
        state, _, mind = self._current()
        chosen, noise = arm_indices(arms, self.pool.n_arms), mind.learner.policy.noise_std
        assert noise is not None
        middle, std = state.mean[chosen], np.sqrt(state.variance[chosen] + noise**2)
        reach = NormalDist().inv_cdf(0.5 + 0.5 * probability("share", share)) * std
        return mind.modelled.rewards(middle - reach), mind.modelled.rewards(middle + reach)

    def draw(self, n: int = 1) -> FunctionDraws:
        """n functions from the posterior with every result told so far, as Thompson sampling draws them.

        Their spread is α_t times the posterior's, α_t being the policy's width in standard deviations.
        They are values on the pool and can be called at any points, on the model's scale and (where it
        was encoded) in the model's features. Looking does not move the run.
        """
        state, width, mind = self._current()
        rng, prior = copy.deepcopy(self._streams("thompson")), mind.prior
        if prior is None and state.keeps_residual:  # a policy that never draws
            posterior, once = mind.learner.posterior, Streams(self.seed)("prior")
            prior = prior_over(posterior.pool, posterior.kernel, 1000, once, "auto", posterior.storage)
        scale = width / math.sqrt(state.ridge)
        return draw_functions(mind.learner.posterior, prior, scale, n, rng, state)

    def best(self) -> Best:
        """The arm with the highest model mean among those pulled, with its interval mean ± β σ̃."""
        if not len(self.history):
            failures = sum(self._ledger.failures.values())
            raise NoResultsError(
                f"no result: all {failures} trials told failed" if failures else "no result has been told yet"
            )
        state, width, mind = self._current()
        arms = self.history.arms
        place = int(np.argmax(state.mean[arms]))
        arm = int(arms[place])
        reach = width * float(np.sqrt(state.leverage[arm]))
        ends = mind.modelled.rewards(state.mean[arm] + np.array([-reach, reach]))
        mean, std = mind.modelled.spread(state.mean[[arm]], np.sqrt(state.variance[[arm]]))
        pulls = int(self.history.counts[place])
        return Best(
            arm, self.pool.id_of(arm), float(mean[0]), float(std[0]), float(ends[0]), float(ends[1]),
            pulls, float(self.history.sums[place] / pulls),
        )  # fmt: skip

    # ------------------------------------------------------------------ growing and keeping

    def add_arms(self, features: Any, ids: Sequence[Hashable] | None = None) -> Ints:
        """More candidates, from now on; their indices."""
        before = self.pool.n_arms
        self._grow(self.pool.extended(features, ids))
        return np.arange(before, self.pool.n_arms)

    def _grow(self, pool: Pool) -> None:
        """Go on with a pool that has more arms behind the present ones."""
        mind = self._mind
        if not mind.modelled.suits(pool):
            self._mind = mind.prepared_anew(pool, self.history, self._streams)
            self.started_with = self.modelled_with = self.history.n_arms = pool.n_arms
            self._waiting, self._next_lesson = [], None
            return
        modelled = mind.modelled.extended(pool)
        prior = mind.prior
        if prior is not None and self.posterior.feature_map is not None:  # one family with the posterior's
            prior = prior.extended(modelled.seen_pool)
        elif prior is not None:
            prior = self.policy.prior(modelled.seen_pool, Streams(self.seed)("prior"), self.posterior.storage)
        self.posterior.extend(modelled.seen_pool)
        self._mind = Mind(modelled, mind.learner, prior)
        self.history.n_arms, self._next_lesson = pool.n_arms, None

    def save(self, path: str | Path) -> None:
        """Write the whole run to one file (an npz archive with a JSON manifest; no pickle)."""
        from manyarms.run.checkpoint import save

        save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, pool: Pool | None = None, policy: Policy | None = None) -> Optimizer:
        """Read a saved run; it goes on bit for bit as if it had never stopped.

        The pool is in the file unless its arms are Python objects; given one, it must be the same.
        `policy` is needed only when its kernel is not one of this package's.
        """
        from manyarms.run.checkpoint import load

        return load(Path(path), pool, policy)
