"""Recording results: they are added to the history at once and used at the next feedback."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manyarms.errors import InvalidParameterError
from manyarms.policies import BPE
from manyarms.posterior.own_noise import OwnNoise
from manyarms.run.context import RunContext
from manyarms.run.results import ToldResult, failure_flags, own_noise, reward_values
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
    replicates: ArrayLike | None = None,
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
    noise = own_noise(noise_std, replicates, len(owners))
    _check_noise(context, noise_std, replicates)
    weights, stated = _weights(context, noise)
    kind = 1 if named is None else 0
    order = range(state.n_unasked, state.n_unasked + len(owners)) if named is None else named
    told_about = zip(order, owners.tolist(), utilities.tolist(), weights, stated, flags.tolist(), strict=True)
    new = tuple(
        ToldResult((kind, at), arm, value, weight, std)
        for at, arm, value, weight, std, lost in told_about
        if not lost
    )
    still_due = state.tickets if named is None else state.tickets.settled(named)
    some_failed = bool(flags.any())
    measured = ~flags if some_failed else slice(None)
    return changed(
        state,
        history=state.history.recorded(
            owners[measured], utilities[measured], noise.at(measured) if context.prepared else None
        ),
        tickets=still_due.with_failures(owners[flags].tolist()) if some_failed else still_due,
        trace=state.trace if named is None else state.trace.with_results(named, values, flags),
        waiting=state.waiting + new,
        n_unasked=state.n_unasked + (len(owners) if named is None else 0),
    )


def _check_noise(context: RunContext, noise_std: Any, replicates: Any) -> None:
    """BPE computes its batches for results that all enter V with weight one."""
    for name, given in (("noise_std", noise_std), ("replicates", replicates)):
        if given is not None and isinstance(context.policy, BPE):
            raise InvalidParameterError(name, given, "left out with BPE, which weighs results equally")


def _weights(context: RunContext, noise: OwnNoise) -> tuple[list[float], list[float | None]]:
    """The weight of each result in V and, for a learned model, its stated standard deviation or None.

    With a given noise, the weight is ridge/noise² (theory §2.1); the variance of a mean of r measurements is
    ridge/r. What a stated noise weighs under a learned model is known when the model is (`feedback.py`).
    """
    unstated = np.isnan(noise.stds)
    if context.prepared is not None:
        return noise.replicates.tolist(), [None if math.isnan(std) else std for std in noise.stds.tolist()]
    ridge = context.policy.ridge
    weights = noise.replicates.copy()
    if ridge is not None:
        weights[~unstated] = ridge / noise.stds[~unstated] ** 2
    return weights.tolist(), [None] * len(weights)
