"""Recording results: they are added to the history at once and used at the next feedback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manyarms.errors import InvalidParameterError
from manyarms.policies import BPE
from manyarms.run.context import RunContext
from manyarms.run.results import ToldResult, failure_flags, noise_weights, reward_values
from manyarms.run.state import RunState
from manyarms.run.tickets import as_tickets
from manyarms.support.frozen import changed


def told(
    context: RunContext,
    state: RunState,
    tickets: Any = None,
    rewards: ArrayLike | None = None,
    arms: Any = None,
    failed: bool | Sequence[bool] = False,
    noise_std: ArrayLike | None = None,
) -> RunState:
    """The state with the results of these tickets or, with `arms`, of pulls without a ticket."""
    if (tickets is None) == (arms is None):
        raise InvalidParameterError("tell", None, "given exactly one of a batch, tickets or arms")
    if arms is not None:
        named: list[int] | None = None
        owners = context.pool.arms_of(arms)
    else:
        named = as_tickets(tickets)
        state.tickets.check(named)
        owners = np.array([state.tickets.pending[ticket] for ticket in named], dtype=np.int64)
    flags = failure_flags(failed, len(owners))
    values = reward_values(rewards, flags)
    utilities = context.sign * values
    _check_noise(context, noise_std)
    weights = noise_weights(noise_std, context.policy.ridge, len(owners)).tolist()
    kind = 1 if named is None else 0
    order = range(state.n_unasked, state.n_unasked + len(owners)) if named is None else named
    told_about = zip(order, owners.tolist(), utilities.tolist(), weights, flags.tolist(), strict=True)
    new = tuple(
        ToldResult((kind, at), arm, value, weight) for at, arm, value, weight, lost in told_about if not lost
    )
    still_due = state.tickets if named is None else state.tickets.settled(named)
    some_failed = bool(flags.any())
    measured = ~flags if some_failed else slice(None)
    return changed(
        state,
        history=state.history.recorded(owners[measured], utilities[measured]),
        tickets=still_due.with_failures(owners[flags].tolist()) if some_failed else still_due,
        trace=state.trace if named is None else state.trace.with_results(named, values, flags),
        waiting=state.waiting + new,
        n_unasked=state.n_unasked + (len(owners) if named is None else 0),
    )


def _check_noise(context: RunContext, noise_std: ArrayLike | None) -> None:
    """The noise of single results is used where the model is given and all results enter V together."""
    if noise_std is None:
        return
    if context.prepared is not None:
        raise InvalidParameterError("noise_std", noise_std, "left out, because the noise is learned")
    if isinstance(context.policy, BPE):
        raise InvalidParameterError("noise_std", noise_std, "left out with BPE, which weighs results equally")
