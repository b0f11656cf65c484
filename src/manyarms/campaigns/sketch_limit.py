"""The limit on the sketch of a campaign, and what happens when the sketch has outgrown it.

An ask passes over the pool, which costs O(A·m²), so the sketch of m inducing arms is limited
(`most_inducing` in assumptions.py).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manyarms.policies import Policy, Sparse
from manyarms.run.context import RunContext
from manyarms.run.feedback import with_oversampling
from manyarms.run.state import RunState
from manyarms.support.validation import Floats

BULK = 200  # above this number of new results, the sketch is drawn again
_THINNED = 0.55  # the share of its largest size to which a sketch is thinned, so that it can grow again
_BISECTIONS = 60


def thinned(context: RunContext, state: RunState, most: int, fresh: int) -> tuple[RunContext, RunState]:
    """The run on a sketch of at most `most` arms.

    A sketch that has become too large is drawn once more, with a q̄ that gives a smaller one. The run keeps
    that q̄ until the model is learned again: the usual one would ask for all arms again at the next feedback,
    and no column over the pool could be kept. After bulk results, nearly all new arms would enter by the
    leverage from before the update (BBKB l. 13), so the sketch is drawn again then too. A sketch with fewer
    arms than a draw asks for widens the intervals of the model and costs accuracy of its mean, but never
    makes it overconfident (theory §2.3).
    """
    requested, posterior = context.policy, state.belief.state
    if not isinstance(requested, Sparse) or (fresh <= BULK and posterior.sketch_size <= most):
        return context, state
    oversampling = requested.oversampling_at(posterior.pulls)
    reach = posterior.counts * posterior.pulled_leverage
    thin = np.minimum(1.0, oversampling * reach).sum() > _THINNED * most
    if thin:
        oversampling = _oversampling_for(reach, _THINNED * most, oversampling)
    context, state = with_oversampling(context, state, oversampling)
    memory = replace(state.belief.memory, oversampling=oversampling if thin else None)
    return context, replace(state, belief=replace(state.belief, memory=memory))


def _oversampling_for(reach: Floats, size: float, largest: float) -> float:
    """q̄ for which a draw with p = min(1, q̄ n σ̃²) has about this size; `reach` holds n σ̃² of each arm."""
    low, high = 0.0, largest
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.minimum(1.0, middle * reach).sum() < size else (low, middle)
    return high


def with_kept_oversampling(state: RunState) -> RunState:
    """The state under the q̄ of a sketch that was thinned.

    Only new arms are drawn: with an independent draw, half of the sketch would change with every feedback.
    """
    belief = state.belief
    if belief.memory.oversampling is None or not isinstance(belief.policy, Sparse):
        return state
    policy = replace(belief.policy, oversampling=belief.memory.oversampling, inducing="incremental")
    return replace(state, belief=replace(belief, policy=policy))


def policy_in_use(context: RunContext, state: RunState) -> Policy:
    """The policy of a context with the q̄ of the sketch, on which the certificate's conditions depend."""
    oversampling = state.belief.memory.oversampling
    if oversampling is None or not isinstance(context.policy, Sparse):
        return context.policy
    return replace(context.policy, oversampling=oversampling)
