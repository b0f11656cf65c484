"""What happens at a feedback: the sketch is renewed and the posterior conditioned on the new rewards.

Where the model is learned and there is enough new to learn from, kernel, noise and mean are learned again
and the posterior is built anew under them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manyarms.choice.widths import surprise
from manyarms.errors import InvalidParameterError
from manyarms.learning import Targets, learn, should_refit
from manyarms.policies import Sparse
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History, grouped
from manyarms.posterior.sparse_gp import SparseGP
from manyarms.posterior.state import PosteriorState
from manyarms.run.belief import Belief, Memory
from manyarms.run.context import RunContext
from manyarms.run.reward_scale import RewardScale
from manyarms.run.state import RunState
from manyarms.sketch.inducing import KDPP, Candidates, Draw, IncrementalLeverage, LeverageScores
from manyarms.support.validation import Floats, Ints

_MAX_DOUBLINGS = 60
_BULK = 256  # new arms at once
_REBUILD_PAYS = 4  # a rebuild on m arms is made at most every m/4 renewals


def with_feedback(context: RunContext, state: RunState) -> RunState:
    """The state whose belief has been conditioned on every result told (BBKB l. 11–18).

    Results are used in the order of their tickets, so the order in which they were told does not matter.
    """
    if not state.waiting:
        return state
    belief, modelled_arms = state.belief, state.modelled_arms
    if belief.model is not None and should_refit(belief.model, state.history):
        belief, modelled_arms = relearned(context, belief, state.history), context.pool.n_arms
    else:
        waiting = sorted(state.waiting, key=lambda result: result.order)
        arms = np.array([result.arm for result in waiting], dtype=np.int64)
        values = RewardScale(belief.model).values(np.array([result.utility for result in waiting]))
        belief = conditioned(belief, arms, values, context.streams.at("inducing", state.n_feedbacks))
    return replace(
        state, belief=belief, waiting=(), modelled_arms=modelled_arms, n_feedbacks=state.n_feedbacks + 1
    )


def conditioned(belief: Belief, arms: Ints, values: Floats, rng: np.random.Generator) -> Belief:
    """The belief after renewing the sketch and conditioning on these pulls."""
    state, memory = belief.state, belief.memory
    leverage = state.leverage[arms]
    pulled = grouped(arms, values)
    draw, candidates = _draw(belief, *pulled[:2], rng)
    fresh = _not_offered(belief, draw.arms)
    compact = _should_compact(belief, len(draw.arms), len(fresh), len(pulled[0]))
    after = Memory(
        norm_bound=_doubled_norm_bound(belief, arms, values),
        triple_log_sum=memory.triple_log_sum + float(np.log1p(3 * leverage).sum()),
        log_sum=memory.log_sum + (float(np.log1p(leverage).sum()) if state.pulls else 0.0),
        drawn=tuple(draw.arms.tolist()),
        probabilities=tuple(draw.probabilities.tolist()),
        renewals=0 if compact else memory.renewals + 1,
        drawn_from=memory.drawn_from if draw.kept else candidates,
    )
    if compact:
        return belief.at(belief.process.rebuilt(state, draw.arms, *pulled), after)
    return belief.at(belief.process.advanced(state, fresh, *pulled), after)


def relearned(context: RunContext, belief: Belief, history: History) -> Belief:
    """The belief under a model learned from everything told."""
    assert context.prepared is not None
    rng = context.streams.at("learning", history.pulls)
    model = learn(context.prepared, history, rng, previous=belief.model)
    fresh = Belief.initial(context, model)
    fresh = replace(fresh, memory=replace(fresh.memory, norm_bound=belief.memory.norm_bound))
    return _started_from(fresh, model.targets(history), belief.state.inducing, rng)


def _started_from(belief: Belief, seen: Targets, basis: Ints, rng: np.random.Generator) -> Belief:
    """Condition on a whole history at once, as after the kernel has changed.

    Leverage scores under the new kernel come from a posterior on the pulled arms alone, which stands
    on all of them, or on those in `basis` when they are many. The pool is passed over once.
    """
    process, leverage = belief.process, np.zeros(len(seen.arms))
    if process.feature_map is None:
        few = SparseGP(Pool(process.pool.take(seen.arms)), belief.policy.covariance, process.ridge)
        everything = np.arange(len(seen.arms))
        places = np.flatnonzero(np.isin(seen.arms, basis)) if len(seen.arms) > _BULK else everything
        leverage = few.rebuilt(few.empty(), places, everything, seen.counts, seen.sums).leverage
    nowhere = np.full(len(seen.arms), -1.0)
    draw = _toss(belief, seen.arms, seen.counts, nowhere, leverage, rng)
    state = process.rebuilt(belief.state, draw.arms, seen.arms, seen.counts, seen.sums)
    # The sums over past steps under the new kernel: Σ log(1 + σ²) is the determinant's logarithm when
    # the posterior is exact, and log(1 + 3σ²) ≤ 3 log(1 + σ²).
    memory = Memory(
        norm_bound=belief.memory.norm_bound,
        triple_log_sum=3 * state.log_det,
        log_sum=state.log_det,
        drawn=tuple(draw.arms.tolist()),
        probabilities=tuple(draw.probabilities.tolist()),
        drawn_from=len(seen.arms),
    )
    return belief.at(state, memory)


# ---------------------------------------------------------------------- a longer horizon


def with_oversampling(
    context: RunContext, state: RunState, oversampling: float
) -> tuple[RunContext, RunState]:
    """Go on with another q̄ and draw the sketch again on all arms so far (BKB, "Tuning q̄")."""
    policy = state.belief.policy
    if not isinstance(policy.inducing_rule(), LeverageScores | IncrementalLeverage):
        raise InvalidParameterError(
            "policy", type(policy).__name__, "one whose sketch is drawn by leverage scores"
        )
    assert isinstance(policy, Sparse)
    assert isinstance(context.policy, Sparse)
    context = replace(context, policy=replace(context.policy, oversampling=oversampling))
    state = with_feedback(context, state)
    policy = replace(state.belief.policy, oversampling=oversampling)  # type: ignore[call-arg]
    belief = replace(state.belief, policy=policy)
    rng = context.streams.at("inducing", state.n_feedbacks)
    return context, replace(state, belief=_redrawn(belief, rng), n_feedbacks=state.n_feedbacks + 1)


def _redrawn(belief: Belief, rng: np.random.Generator) -> Belief:
    state = belief.state
    if not len(state.arms):
        return belief
    nowhere = np.full(len(state.arms), -1.0)
    draw = _toss(belief, state.arms, state.counts, nowhere, state.leverage[state.arms], rng)
    memory = replace(
        belief.memory,
        drawn=tuple(draw.arms.tolist()),
        probabilities=tuple(draw.probabilities.tolist()),
        renewals=0,
    )
    nothing = np.empty(0, dtype=np.int64), np.empty(0), np.empty(0)
    return belief.at(belief.process.rebuilt(state, draw.arms, *nothing), memory)


# ---------------------------------------------------------------------- drawing the sketch


def _draw(belief: Belief, new: Ints, pulls: Floats, rng: np.random.Generator) -> tuple[Draw, int]:
    """An inducing set from all arms pulled, the new ones included, and how many there were."""
    state, memory = belief.state, belief.memory
    arms, counts = state.counted(new, pulls)
    inclusion = np.zeros(len(arms))
    if isinstance(belief.policy.inducing_rule(), IncrementalLeverage | KDPP):  # the others do not look back
        drawn = dict(zip(memory.drawn, memory.probabilities, strict=True))
        fresh = set(new.tolist())
        inclusion = np.array([drawn.get(arm) or (-1.0 if arm in fresh else 0.0) for arm in arms.tolist()])
    leverage = state.leverage[arms]  # from before the update
    return _toss(belief, arms, counts, inclusion, leverage, rng), len(arms)


def _not_offered(belief: Belief, drawn: Ints) -> Ints:
    """The arms of a draw that may still add to the sketch.

    An arm of the last draw that is not in the sketch lies in its span, and the span has only grown since.
    """
    fresh = drawn[~np.isin(drawn, belief.state.inducing)]
    if len(fresh) > 1:
        fresh = fresh[~np.isin(fresh, np.array(belief.memory.drawn, dtype=np.int64))]
    return fresh


def _toss(
    belief: Belief,
    arms: Ints,
    counts: Floats,
    inclusion: Floats,
    leverage: Floats,
    rng: np.random.Generator,
) -> Draw:
    def covariance() -> Floats:
        points = belief.process.pool.take(arms)
        return belief.policy.covariance.matrix(points, points)

    memory = belief.memory
    candidates = Candidates(arms, counts, leverage, inclusion, covariance, memory.drawn_from)
    draw = belief.policy.inducing_rule().draw(candidates, rng)
    if len(draw.arms):
        return draw
    if not belief.state.sketch_size:
        return Draw(arms[:1], np.ones(1))  # S₁ = {x₁}
    # An empty draw keeps the old dictionary.
    return Draw(np.array(memory.drawn, dtype=np.int64), np.array(memory.probabilities))


def _should_compact(belief: Belief, drawn: int, fresh: int, pulled: int) -> bool:
    """Whether the sketch has outgrown a fresh draw, and is due for being built from nothing.

    Rebuilding on m arms costs O(A·m²), an append O(A·m): after a share of m renewals it has paid off.
    A sketch that stays larger for a while only costs time, never accuracy (theory §2.3). A compaction
    factor of 1 asks for fresh draws only, whatever they cost. When very many results arrive at once
    (a table of old measurements), building from nothing is the cheaper way anyway.
    """
    size, limit = belief.state.sketch_size, belief.policy.sketch_limit
    if fresh + pulled > max(_BULK, size):
        return True
    outgrown = size + fresh > limit * drawn
    return outgrown and (limit == 1.0 or belief.memory.renewals >= drawn / _REBUILD_PAYS)


def _doubled_norm_bound(belief: Belief, arms: Ints, values: Floats) -> float:
    """F after guess-and-double: doubled as long as a reward contradicts the interval.

    Where a larger F would not widen the interval (a width given as a number, an arm without
    variance) it explains nothing, and F stays as it is.
    """
    bound = belief.memory.norm_bound
    if belief.policy.norm_bound != "double":
        return bound
    state: PosteriorState = belief.state
    stds = np.sqrt(state.leverage[arms])
    open_to_doubt = stds > 1e-6 * np.sqrt(state.prior_max / state.ridge)
    errors = np.abs(values - state.mean[arms])[open_to_doubt]
    for _ in range(_MAX_DOUBLINGS):
        given = belief.policy.assumptions(bound)
        width = belief.width(bound)
        limits = [surprise(state.pulls + 1, width, float(std), given) for std in stds[open_to_doubt]]
        if (errors <= limits).all():
            return bound
        if belief.width(2 * bound) <= width:
            break
        bound *= 2
    return belief.memory.norm_bound
