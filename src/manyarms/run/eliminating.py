"""Between the batches of BPE: when a batch is complete, its results eliminate arms (theory §5.17)."""

from __future__ import annotations

import numpy as np

from manyarms.choice.elimination import Elimination
from manyarms.errors import BudgetSpentError, NothingToAskError
from manyarms.policies import BPE
from manyarms.run.context import RunContext
from manyarms.run.state import RunState
from manyarms.support.frozen import changed
from manyarms.support.validation import Floats, Ints


def with_elimination(context: RunContext, state: RunState, exactly: bool) -> RunState:
    """The state whose present batch has picks left; arms are eliminated if the batch before is complete.

    A batch whose results are pending can only be made longer, by asking for exactly n arms.
    """
    policy = state.belief.policy
    if not isinstance(policy, BPE):
        return state
    now = state.elimination
    if now is None:
        everything = np.arange(context.pool.n_arms)
        return changed(state, elimination=Elimination(everything, first_ticket=state.tickets.next_ticket))
    if len(now.arms) < policy.batches[now.number]:
        return state
    pending = sum(ticket >= now.first_ticket for ticket in state.tickets.pending)
    if pending and exactly:
        return state
    if pending:
        raise NothingToAskError(
            f"{pending} results of the present batch are pending; the next batch of BPE needs all of them "
            "(mark failed trials with failed=True, and give up others with forget)"
        )
    if now.number + 1 == len(policy.batches):
        raise BudgetSpentError(f"all {policy.horizon} trials of the horizon have been handed out")
    width = policy.trim_width(context.pool.n_arms)
    later = now.trimmed(
        state.belief.posterior, *_results(context, state, now), width, state.tickets.next_ticket
    )
    return changed(state, elimination=later)


def _results(context: RunContext, state: RunState, now: Elimination) -> tuple[Ints, Floats]:
    """Arms and utilities of the results of this batch."""
    records = [record for record in state.trace.records if record.tickets[0] >= now.first_ticket]
    arms = np.concatenate([record.arms for record in records])
    rewards = np.concatenate([record.rewards for record in records])
    told = ~np.isnan(rewards)
    return arms[told], context.sign * rewards[told]
