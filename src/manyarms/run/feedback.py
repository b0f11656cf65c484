"""Feedback: the sketch is renewed and the posterior is conditioned on the new rewards.

If the model is learned and there are enough new results, kernel, noise and mean are learned again, and the
posterior is rebuilt under the new model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from manyarms.choice.widths import guess_and_double
from manyarms.errors import InvalidParameterError
from manyarms.learning import LearnedModel, Targets, learn, should_refit
from manyarms.learning.reward_transforms import mapped_variances
from manyarms.policies import Sparse
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History, grouped
from manyarms.posterior.shard import ArmValues
from manyarms.posterior.sparse_gp import SparseGP
from manyarms.posterior.state import PosteriorState
from manyarms.run.belief import Belief, Memory
from manyarms.run.context import RunContext
from manyarms.run.results import ToldResult
from manyarms.run.reward_scale import RewardScale
from manyarms.run.state import RunState
from manyarms.sketch.at_most import AtMost
from manyarms.sketch.inducing import (
    KDPP,
    Candidates,
    Draw,
    IncrementalLeverage,
    InducingRule,
    LeverageScores,
)
from manyarms.support.frozen import changed
from manyarms.support.validation import Floats, Ints

_BULK = 256  # above this number of arms, rebuilding is cheaper than appending


def with_feedback(context: RunContext, state: RunState) -> RunState:
    """The state whose belief is conditioned on every recorded result (BBKB l. 11–18).

    Results are used in the order of their tickets, so the order in which they were recorded does not matter.
    """
    if not state.waiting:
        return state
    belief, modelled_arms = state.belief, state.modelled_arms
    if belief.model is not None and _is_refit_due(context, belief.model, state.history):
        belief, modelled_arms = relearned(context, belief, state.history), context.pool.n_arms
    else:
        waiting = sorted(state.waiting, key=lambda result: result.order)
        arms = np.array([result.arm for result in waiting], dtype=np.int64)
        values = RewardScale(belief.model).values(np.array([result.utility for result in waiting]))
        weights = _weights(belief, arms, waiting)
        rng = context.streams.at("inducing", state.n_feedbacks)
        belief = conditioned(belief, arms, values, weights, rng)
    return changed(
        state, belief=belief, waiting=(), modelled_arms=modelled_arms, n_feedbacks=state.n_feedbacks + 1
    )


def _weights(belief: Belief, arms: Ints, results: Sequence[ToldResult]) -> Floats:
    """The weight of each result in V: σ²/v where a learned model has the noise σ², and the result v."""
    weights = np.array([result.weight for result in results]) / belief.noise_factors(arms)
    stated = np.array([(result.noise_std or 0.0) ** 2 for result in results])
    if belief.model is None or not stated.any():
        return weights
    rewards = np.array([result.utility for result in results])
    variances = mapped_variances(belief.model.transform, rewards, stated, 0.0)
    return np.where(stated > 0, belief.model.ridge / np.where(stated > 0, variances, 1.0), weights)


def _is_refit_due(context: RunContext, model: LearnedModel, history: History) -> bool:
    growth = None if context.prepared is None else context.prepared.growth
    return (
        should_refit(model, history)
        if growth is None
        else should_refit(model, history, growth, everywhere=True)
    )


def conditioned(
    belief: Belief, arms: Ints, values: Floats, weights: Floats, rng: np.random.Generator
) -> Belief:
    """The belief after renewing the sketch and conditioning on these pulls, each with its weight."""
    state, memory = belief.state, belief.memory
    known = state.look(arms)
    leverage = known.leverage
    pulled = grouped(arms, values, weights)
    draw, candidates = _draw(belief, *pulled, rng)
    fresh = _outside_sketch(belief, draw.arms)
    compact = _should_compact(belief, len(draw.arms), len(fresh), len(pulled[0]))
    after = Memory(
        norm_bound=_doubled_norm_bound(belief, known, values),
        triple_log_sum=memory.triple_log_sum + float(np.log1p(3 * leverage).sum()),
        log_sum=memory.log_sum + (float(np.log1p(leverage).sum()) if state.pulls else 0.0),
        drawn=draw.arms,
        probabilities=draw.probabilities,
        excess=0.0
        if compact
        else memory.excess + _excess(belief, len(draw.arms), len(fresh), len(pulled[0])),
        drawn_from=memory.drawn_from if draw.kept else candidates,
        oversampling=memory.oversampling,
    )
    if compact:
        return belief.at(belief.process.rebuilt(state, draw.arms, *pulled), after)
    return belief.at(belief.process.advanced(state, fresh, *pulled), after)


def relearned(context: RunContext, belief: Belief, history: History) -> Belief:
    """The belief under a model learned from all results."""
    assert context.prepared is not None
    rng = context.streams.at("learning", history.pulls)
    model = learn(context.prepared, history, rng, previous=belief.model)
    fresh = Belief.initial(context, model)
    fresh = replace(fresh, memory=replace(fresh.memory, norm_bound=belief.memory.norm_bound))
    return _conditioned_from_scratch(
        fresh, model.targets(history, fresh.process.pool), belief.state.inducing, rng
    )


def _conditioned_from_scratch(belief: Belief, seen: Targets, basis: Ints, rng: np.random.Generator) -> Belief:
    """Condition on a whole history at once, as is needed after the kernel has changed.

    The leverage scores under the new kernel are computed from a posterior on the pulled arms alone. Its
    inducing arms are all pulled arms or, if there are many, those in `basis`. The pool is read only once.
    """
    process, leverage = belief.process, np.zeros(len(seen.arms))
    if process.feature_map is None:
        on_pulled = SparseGP(Pool(process.pool.take(seen.arms)), belief.policy.covariance, process.ridge)
        everything = np.arange(len(seen.arms))
        places = np.flatnonzero(np.isin(seen.arms, basis)) if len(seen.arms) > _BULK else everything
        leverage = on_pulled.rebuilt(on_pulled.empty(), places, everything, seen.counts, seen.sums).leverage
    not_drawn = np.full(len(seen.arms), -1.0)
    rule = belief.policy.inducing_rule()
    draw = _inducing_draw(belief, rule, seen.arms, seen.counts, seen.sums, not_drawn, leverage, rng)
    state = process.rebuilt(belief.state, draw.arms, seen.arms, seen.counts, seen.sums)
    # The sums over past steps under the new kernel: Σ log(1 + σ²) is the log-determinant if the posterior
    # is exact, and log(1 + 3σ²) ≤ 3 log(1 + σ²).
    memory = Memory(
        norm_bound=belief.memory.norm_bound,
        triple_log_sum=3 * state.log_det,
        log_sum=state.log_det,
        drawn=draw.arms,
        probabilities=draw.probabilities,
        drawn_from=len(seen.arms),
    )
    return belief.at(state, memory)


# ---------------------------------------------------------------------- a longer horizon


def with_oversampling(
    context: RunContext, state: RunState, oversampling: float | str
) -> tuple[RunContext, RunState]:
    """Continue with another q̄: draw the inducing arms again from all arms pulled (BKB, "Tuning q̄")."""
    policy = state.belief.policy
    if not isinstance(policy.inducing_rule(), LeverageScores | IncrementalLeverage | AtMost):
        raise InvalidParameterError(
            "policy", type(policy).__name__, "a policy whose sketch is drawn by leverage scores"
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
    not_drawn = np.full(len(state.arms), -1.0)
    rule = belief.policy.inducing_rule()
    draw = _inducing_draw(
        belief, rule, state.arms, state.counts, state.sums, not_drawn, state.pulled_leverage, rng
    )
    memory = replace(
        belief.memory,
        drawn=draw.arms,
        probabilities=draw.probabilities,
        excess=0.0,
    )
    nothing = np.empty(0, dtype=np.int64), np.empty(0), np.empty(0)
    return belief.at(belief.process.rebuilt(state, draw.arms, *nothing), memory)


# ---------------------------------------------------------------------- drawing the sketch


def _draw(
    belief: Belief, new: Ints, pulls: Floats, rewards: Floats, rng: np.random.Generator
) -> tuple[Draw, int]:
    """Draw inducing arms from all arms pulled, including the new ones; also the number of arms pulled."""
    state, memory = belief.state, belief.memory
    arms, counts, sums = state.counted(new, pulls, rewards)
    inclusion = np.zeros(len(arms))
    rule = belief.policy.inducing_rule()
    if isinstance(rule, IncrementalLeverage | KDPP | AtMost):  # rules that use the last draw
        drawn = dict(zip(memory.drawn.tolist(), memory.probabilities.tolist(), strict=True))
        fresh = set(new.tolist())
        inclusion = np.array([drawn.get(arm) or (-1.0 if arm in fresh else 0.0) for arm in arms.tolist()])
    leverage = state.pulled_leverage  # from before the update
    if len(arms) > len(leverage):
        leverage = np.concatenate([leverage, state.at(arms[len(leverage) :]).leverage])
    return _inducing_draw(belief, rule, arms, counts, sums, inclusion, leverage, rng), len(arms)


def _outside_sketch(belief: Belief, drawn: Ints) -> Ints:
    """The arms of a draw that may still extend the span of the sketch.

    An arm of the last draw that is not in the sketch was already in its span, which has only grown since.
    """
    arms = drawn.tolist()
    fresh = set(arms).difference(belief.state.inducing.tolist())
    if len(fresh) > 1:
        fresh.difference_update(belief.memory.drawn.tolist())
    ordered = [arm for arm in arms if arm in fresh] if len(fresh) > 1 else list(fresh)
    return np.array(ordered, dtype=np.int64)


def _inducing_draw(
    belief: Belief,
    rule: InducingRule,
    arms: Ints,
    counts: Floats,
    sums: Floats,
    inclusion: Floats,
    leverage: Floats,
    rng: np.random.Generator,
) -> Draw:
    def covariance() -> Floats:
        points = belief.process.pool.take(arms)
        return belief.policy.covariance.matrix(points, points)

    memory = belief.memory
    candidates = Candidates(arms, counts, leverage, inclusion, covariance, memory.drawn_from, sums / counts)
    draw = rule.draw(candidates, rng)
    if len(draw.arms):
        return draw
    if not belief.state.sketch_size:
        return Draw(arms[:1], np.ones(1))  # S₁ = {x₁}
    # After an empty draw, the previous dictionary is kept.
    return Draw(memory.drawn, memory.probabilities)


def _should_compact(belief: Belief, drawn: int, fresh: int, pulled: int) -> bool:
    """Whether the sketch is too large relative to a fresh draw, and should be rebuilt from scratch.

    Rebuilding on m arms costs as much as m linear forms of m columns. It pays off once the columns of old
    inducing arms have cost the same (`Memory.excess`): then both together cost at most twice the cheaper of
    them, whatever the size of the batches. A sketch that stays larger for a while only costs time, never
    accuracy (theory §2.3). A compaction factor of 1 asks for a fresh draw every time, whatever it costs. If
    very many results arrive at once (for example a table of earlier measurements), rebuilding from scratch is
    cheaper anyway. A policy that bounds its sketch never lets it grow beyond that bound.
    """
    size, limit = belief.state.sketch_size, belief.policy.sketch_limit
    if fresh + pulled > max(_BULK, size) or size + fresh > belief.policy.sketch_bound:
        return True
    outgrown = size + fresh > limit * drawn
    return outgrown and (limit == 1.0 or belief.memory.excess >= drawn**2)


def _excess(belief: Belief, drawn: int, fresh: int, pulled: int) -> float:
    """The numbers per arm that a renewal reads beyond those of a fresh draw: old columns × linear forms."""
    old_columns = max(0, belief.state.sketch_size - drawn)
    return float(old_columns * (2 * fresh + pulled))


def _doubled_norm_bound(belief: Belief, known: ArmValues, values: Floats) -> float:
    """F after guess-and-double; rewards of arms without variance cannot be explained by a larger F."""
    bound = belief.memory.norm_bound
    if belief.policy.norm_bound != "double":
        return bound
    state: PosteriorState = belief.state
    stds = np.sqrt(known.leverage)
    uncertain = stds > 1e-6 * np.sqrt(state.prior_max / state.ridge)
    errors = np.abs(values - known.mean)[uncertain]
    return guess_and_double(
        bound, errors, stds[uncertain], state.pulls + 1, belief.width, belief.policy.assumptions
    )
