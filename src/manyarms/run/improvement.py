"""By how much single arms are expected to be better than the best one found, in reward units."""

from __future__ import annotations

import math

import numpy as np

from manyarms.run.context import RunContext
from manyarms.run.reward_scale import RewardScale
from manyarms.run.state import RunState
from manyarms.support.validation import Floats, Ints

_SHARES = 256  # equally likely values that stand for the part of the distribution above the best arm


def expected_improvements(context: RunContext, state: RunState, arms: Ints) -> Floats:
    """E |T(f(x)) − T(τ)| over f(x) > τ of each arm, with the conversion T to the user's units (theory §5.19).

    The state must have used a result; τ is the highest posterior mean of the arms that were pulled.
    """
    from scipy.special import ndtr, ndtri

    belief = state.belief
    posterior, scale = belief.state, RewardScale(belief.model, context.sign)
    known, best = posterior.at(arms), float(posterior.at(posterior.arms).mean.max())
    std = np.maximum(math.sqrt(posterior.ridge) * np.sqrt(known.leverage), 1e-300)
    chance = ndtr((known.mean - best) / std)  # that the arm is better
    places = (np.arange(_SHARES) + 0.5) / _SHARES
    with np.errstate(invalid="ignore", over="ignore"):
        above = known.mean[:, None] - std[:, None] * ndtri(chance[:, None] * places)
    above = np.where(chance[:, None] > 0, np.maximum(above, best), best)
    rewards = scale.rewards(above.reshape(-1)).reshape(above.shape)
    improvement = np.abs(rewards - scale.rewards(np.array([best])))
    return np.asarray(chance * improvement.mean(axis=1))
