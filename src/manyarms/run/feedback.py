"""What happens at a feedback: the sketch is renewed, rewards are taken in, evidence for the width adds up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.choice.widths import RunStatistics, surprise
from manyarms.errors import InvalidParameterError
from manyarms.learning import Targets
from manyarms.policies import Policy, Sparse
from manyarms.pool.pool import Pool
from manyarms.posterior.history import grouped
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.state import PosteriorState
from manyarms.sketch.inducing import KDPP, Candidates, Draw, IncrementalLeverage, LeverageScores
from manyarms.support.random_streams import Streams
from manyarms.support.validation import Floats, Ints

_MAX_DOUBLINGS = 60
_BULK = 256  # new arms at once
_REBUILD_PAYS = 4  # a rebuild on m arms is made at most every m/4 renewals


@dataclass(frozen=True)
class Memory:
    """What a learner carries from one feedback to the next beside the posterior."""

    norm_bound: float  # F: the policy's, or what guess-and-double has reached
    triple_log_sum: float = 0.0  # Σ log(1 + 3σ̃²_fb(x_s))
    log_sum: float = 0.0  # Σ log(1 + σ̃²_fb(x_s)) without the first feedback
    drawn: tuple[int, ...] = ()  # the last inducing draw, and the probability each arm had
    probabilities: tuple[float, ...] = ()
    renewals: int = 0  # since the sketch was last built from nothing
    drawn_from: int = 0  # different arms that the last inducing draw chose from


@dataclass(frozen=True)
class Lesson:
    """Where feedback leads: the posterior, the memory and the place of the inducing stream afterwards."""

    state: PosteriorState
    memory: Memory
    stream: Any


class Learner:
    """A policy's posterior over a pool, changed only by feedback."""

    def __init__(self, policy: Policy, posterior: Posterior, streams: Streams) -> None:
        self.policy, self.posterior, self._streams = policy, posterior, streams
        guess = 1.0 if isinstance(policy.norm_bound, str) else float(policy.norm_bound)
        self.memory, self._given = Memory(norm_bound=guess), policy.assumptions(guess)

    @property
    def policy(self) -> Policy:
        """The algorithm and its settings."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy, self._rule, self._width = policy, policy.inducing_rule(), policy.width_function()

    def width(self, state: PosteriorState | None = None, memory: Memory | None = None) -> float:
        """β at the last feedback, or after a lesson."""
        state, memory = state or self.posterior.state, memory or self.memory
        seen = RunStatistics(
            state.pulls,
            state.effective_dimension,
            state.log_det,
            state.prior_max,
            memory.triple_log_sum,
            memory.log_sum,
            state.escaped,
        )
        if self._given.norm_bound != memory.norm_bound:
            self._given = self.policy.assumptions(memory.norm_bound)
        return self._width(seen, self._given)

    def lesson(self, arms: Ints, rewards: Floats) -> Lesson:
        """Renew the sketch and condition on these pulls (BBKB l. 11–18), without going there yet."""
        state, memory, coins = self.posterior.state, self.memory, self._streams("inducing").bit_generator
        leverage, before = state.leverage[arms], coins.state
        pulled = grouped(arms, rewards)
        try:
            draw, candidates = self._draw(*pulled[:2])
            fresh = self._not_offered(draw.arms)
            compact = self._should_compact(len(draw.arms), len(fresh), len(pulled[0]))
            after = Memory(
                self._doubled_norm_bound(arms, rewards),
                memory.triple_log_sum + float(np.log1p(3 * leverage).sum()),
                memory.log_sum + (float(np.log1p(leverage).sum()) if state.pulls else 0.0),
                tuple(draw.arms.tolist()),
                tuple(draw.probabilities.tolist()),
                0 if compact else memory.renewals + 1,
                memory.drawn_from if draw.kept else candidates,
            )
            if compact:
                learned = self.posterior.rebuilt(draw.arms, arms, rewards)
            else:
                learned = self.posterior.advanced(fresh, *pulled)
            return Lesson(learned, after, coins.state)
        finally:
            coins.state = before

    def learn(self, lesson: Lesson) -> None:
        """Go where a lesson leads."""
        self._streams("inducing").bit_generator.state = lesson.stream
        self.posterior.commit(lesson.state)
        self.memory = lesson.memory

    def start_from(self, seen: Targets, basis: Ints, rng: np.random.Generator) -> None:
        """Take in a whole history at once, as after the kernel has changed.

        Leverage scores under the new kernel come from a posterior on the pulled arms alone, which stands
        on all of them, or on those in `basis` when they are many. The pool is passed over once.
        """
        posterior, counts = self.posterior, seen.counts
        leverage = np.zeros(len(seen.arms))
        if posterior.feature_map is None:
            few = Posterior(Pool(posterior.pool.take(seen.arms)), self.policy.covariance, posterior.ridge)
            everything = np.arange(len(seen.arms))
            places = np.flatnonzero(np.isin(seen.arms, basis)) if len(seen.arms) > _BULK else everything
            few.commit(few.rebuilt_with(places, everything, counts, seen.sums))
            leverage = few.leverage
        draw = self._toss(seen.arms, counts, np.full(len(seen.arms), -1.0), leverage, rng)
        posterior.commit(posterior.rebuilt_with(draw.arms, seen.arms, counts, seen.sums))
        log_det = posterior.state.log_det
        # The sums over past steps under the new kernel: Σ log(1 + σ²) is the determinant's logarithm when
        # the posterior is exact, and log(1 + 3σ²) ≤ 3 log(1 + σ²).
        self.memory = Memory(
            self.memory.norm_bound, 3 * log_det, log_det, tuple(draw.arms.tolist()),
            tuple(draw.probabilities.tolist()), drawn_from=len(seen.arms),
        )  # fmt: skip

    def with_oversampling(self, oversampling: float) -> Policy:
        """The policy with another q̄; an error where there is none or the value is bad."""
        if not isinstance(self._rule, LeverageScores | IncrementalLeverage):
            raise InvalidParameterError(
                "policy", type(self.policy).__name__, "one whose sketch is drawn by leverage scores"
            )
        assert isinstance(self.policy, Sparse)
        return replace(self.policy, oversampling=oversampling)

    def extend_horizon(self, policy: Policy) -> None:
        """Go on with this policy and draw the sketch again on all arms so far (BKB, "Tuning q̄")."""
        self.policy = policy
        state = self.posterior.state
        if len(state.arms):
            leverage, coins = state.leverage[state.arms], self._streams("inducing")
            draw = self._toss(state.arms, state.counts, np.full(len(state.arms), -1.0), leverage, coins)
            self.posterior.rebuild(draw.arms)
            self.memory = replace(
                self.memory,
                drawn=tuple(draw.arms.tolist()),
                probabilities=tuple(draw.probabilities.tolist()),
                renewals=0,
            )

    def _draw(self, new: Ints, pulls: Floats) -> tuple[Draw, int]:
        """An inducing set from all arms pulled, the new ones included, and how many there were."""
        arms, counts = self.posterior.counted(new, pulls)
        inclusion = np.zeros(self.posterior.pool.n_arms)
        if isinstance(self._rule, IncrementalLeverage | KDPP):  # the others do not look back
            inclusion[list(self.memory.drawn)] = self.memory.probabilities
            inclusion[new[inclusion[new] == 0.0]] = -1.0
        leverage = self.posterior.leverage[arms]  # from before the update
        return self._toss(arms, counts, inclusion[arms], leverage, self._streams("inducing")), len(arms)

    def _not_offered(self, drawn: Ints) -> Ints:
        """The arms of a draw that may still add to the sketch.

        An arm of the last draw that is not in the sketch lies in its span, and the span has only grown since.
        """
        offered = np.zeros(self.posterior.pool.n_arms, dtype=bool)
        offered[self.posterior.state.inducing] = True
        fresh = drawn[~offered[drawn]]
        if len(fresh) > 1:
            offered[list(self.memory.drawn)] = True
            fresh = fresh[~offered[fresh]]
        return fresh

    def _toss(
        self, arms: Ints, counts: Floats, inclusion: Floats, leverage: Floats, rng: np.random.Generator
    ) -> Draw:
        def covariance() -> Floats:
            points = self.posterior.pool.take(arms)
            return self.policy.covariance.matrix(points, points)

        candidates = Candidates(arms, counts, leverage, inclusion, covariance, self.memory.drawn_from)
        draw = self._rule.draw(candidates, rng)
        if len(draw.arms):
            return draw
        if not self.posterior.state.sketch_size:
            return Draw(arms[:1], np.ones(1))  # S₁ = {x₁}
        # An empty draw keeps the old dictionary.
        return Draw(np.array(self.memory.drawn, dtype=np.int64), np.array(self.memory.probabilities))

    def _should_compact(self, drawn: int, fresh: int, pulled: int) -> bool:
        """Whether the sketch has outgrown a fresh draw, and is due for being built from nothing.

        Rebuilding on m arms costs O(A·m²), an append O(A·m): after a share of m renewals it has paid off.
        A sketch that stays larger for a while only costs time, never accuracy (spec §1). A compaction
        factor of 1 asks for fresh draws only, whatever they cost. When very many results arrive at once
        (a table of old measurements), building from nothing is the cheaper way anyway.
        """
        if fresh + pulled > max(_BULK, self.posterior.state.sketch_size):
            return True
        limit = self.policy.sketch_limit
        outgrown = self.posterior.state.sketch_size + fresh > limit * drawn
        return outgrown and (limit == 1.0 or self.memory.renewals >= drawn / _REBUILD_PAYS)

    def _doubled_norm_bound(self, arms: Ints, rewards: Floats) -> float:
        """F after guess-and-double: twice as large for as long as a reward contradicts the interval.

        Where a larger F would not widen the interval (a width given as a number, an arm without
        variance) it explains nothing, and F stays as it is.
        """
        if self.policy.norm_bound != "double":
            return self.memory.norm_bound
        state = self.posterior.state
        stds = np.sqrt(state.leverage[arms])
        open_to_doubt = stds > 1e-6 * np.sqrt(state.prior_max / state.ridge)
        errors = np.abs(rewards - state.mean[arms])[open_to_doubt]
        bound = self.memory.norm_bound
        for _ in range(_MAX_DOUBLINGS):
            given = self.policy.assumptions(bound)
            width = self.width(memory=replace(self.memory, norm_bound=bound))
            limits = [surprise(state.pulls + 1, width, float(std), given) for std in stds[open_to_doubt]]
            if (errors <= limits).all():
                return bound
            if self.width(memory=replace(self.memory, norm_bound=2 * bound)) <= width:
                break
            bound *= 2
        return self.memory.norm_bound
