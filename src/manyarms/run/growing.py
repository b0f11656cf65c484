"""Adding arms to the pool during a run."""

from __future__ import annotations

from dataclasses import replace

from manyarms.choice.prior_draws import CorrectedPrior
from manyarms.learning import learn
from manyarms.pool.pool import Pool
from manyarms.run.belief import Belief
from manyarms.run.context import RunContext
from manyarms.run.feedback import relearned
from manyarms.run.state import RunState


def with_more_arms(context: RunContext, state: RunState, pool: Pool) -> tuple[RunContext, RunState]:
    """Context and state on a larger pool that begins with the present arms."""
    if not context.can_encode(pool, state.belief.policy):
        return _prepared_again(context, state, pool)
    before, context = context.pool.n_arms, context.extended(pool)
    belief = _extended(context, state.belief, before)
    more = None if state.elimination is None else state.elimination.extended(before, pool.n_arms)
    return context, replace(state, belief=belief, history=state.history.on(pool.n_arms), elimination=more)


def _extended(context: RunContext, belief: Belief, before: int) -> Belief:
    process = belief.process.on(context.encoded_pool)
    state = process.extended(belief.state, before)
    if belief.prior is None:
        return replace(belief, process=process, state=state)
    if process.feature_map is not None:  # prior and posterior use parts of one feature map
        sampler = belief.prior.sampler.extended(process.pool)
    else:
        drawn = belief.policy.prior(process.pool, context.streams.at("prior"), context.storage)
        assert drawn is not None
        sampler = drawn
    return replace(belief, process=process, state=state, prior=CorrectedPrior.of(sampler, state))


def _prepared_again(context: RunContext, state: RunState, pool: Pool) -> tuple[RunContext, RunState]:
    """Prepare the features of all arms again; only the results are kept, and the model is learned again."""
    context, history = context.prepared_again(pool), state.history.on(pool.n_arms)
    assert context.prepared is not None
    if len(history):
        belief = relearned(context, state.belief, history)
    else:
        belief = Belief.initial(context, learn(context.prepared, history, context.streams.at("learning")))
    state = replace(
        state,
        belief=belief,
        history=history,
        waiting=(),
        encoded_arms=pool.n_arms,
        modelled_arms=pool.n_arms,
        n_feedbacks=state.n_feedbacks + 1,
    )
    return context, state
