"""What further measurements are expected to add to the best arm found (theory §4.13).

Before a result is known, the posterior says how it will be distributed, and therefore also what the posterior
means will be afterwards. A draw of these means says which arm would be recommended then, and by how much it
would be better than the arm that would be recommended without these measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from manyarms.errors import InvalidParameterError, NoResultsError
from manyarms.posterior.state import PosteriorState
from manyarms.run import asking
from manyarms.run.belief import Belief
from manyarms.run.context import RunContext
from manyarms.run.gap_estimate import posterior_covariance
from manyarms.run.reward_scale import RewardScale
from manyarms.run.state import RunState
from manyarms.support.linalg import forward
from manyarms.support.threads import one_thread
from manyarms.support.validation import Floats, Ints

MOST_MEASUREMENTS = 1_000  # of one question; the covariance of all of them is computed
MOST_RIVALS = 200  # arms pulled that may still be recommended
N_DRAWS = 2_000
_REACH = 3.0  # posterior standard deviations above the mean by which rivals are preferred
_JITTER = 1e-10
_SHARES = 32  # equally likely values that stand for a normal variable
_VALUES = np.array([NormalDist().inv_cdf((place + 0.5) / _SHARES) for place in range(_SHARES)])


@dataclass(frozen=True)
class ExpectedGain:
    """How much so many further measurements are expected to improve the best arm found, in reward units.

    measurements: how many; those that are pending are not counted.
    gain: the expected difference between the mean reward of the arm recommended afterwards and of the arm
        that would be recommended without them; positive means better, also if rewards are minimised.
    std_error: the standard error of `gain`, which is computed from random draws.
    """

    measurements: int
    gain: float
    std_error: float


def expected_gain(context: RunContext, state: RunState, n: int | None, eligible: Any = None) -> ExpectedGain:
    """The gain of the batch that `ask(n)` would hand out in this state, which has used every result."""
    if not len(state.history):
        raise NoResultsError("no result has been recorded yet, so there is no best arm that could improve")
    if isinstance(n, int) and n > MOST_MEASUREMENTS:
        raise InvalidParameterError("n", n, f"at most {MOST_MEASUREMENTS}")
    at_most = MOST_MEASUREMENTS if n is None else None
    _, batch = asking.asked(context, state, asking.request(context, state, n, at_most, eligible))
    return gain_of(context, state, batch.arms)


def gain_of(context: RunContext, state: RunState, arms: Ints) -> ExpectedGain:
    """The gain of one measurement of each of these arms, after those that are pending."""
    waiting = [arm for arm, times in sorted(state.tickets.pending_counts().items()) for _ in range(times)]
    rng = context.streams.at("further gain", state.n_feedbacks)
    with one_thread():  # some hundred arms
        gains = _drawn_gains(state.belief, np.array(waiting, dtype=np.int64), arms, rng)
    error = float(gains.std() / np.sqrt(len(gains)))
    return ExpectedGain(len(arms), float(gains.mean()), error)


def _drawn_gains(belief: Belief, waiting: Ints, new: Ints, rng: np.random.Generator) -> Floats:
    """The gain of the new measurements in each of N_DRAWS draws of all results that are not known yet."""
    state = belief.state
    measured = np.concatenate([waiting, new])
    arms = np.union1d(_rivals(state), measured)
    mean, covariance = state.at(arms).mean, belief.std_factor**2 * posterior_covariance(belief, arms)
    places = np.searchsorted(arms, measured)
    effects = _effects(covariance, places, state.ridge * belief.noise_factors(measured))
    draws = rng.standard_normal((N_DRAWS, len(measured)))
    without = mean + draws[:, : len(waiting)] @ effects[: len(waiting)]
    known = np.isin(arms, np.concatenate([state.arms, waiting]))
    before = np.argmax(np.where(known, without, -np.inf), axis=1)
    then = without + draws[:, len(waiting) :] @ effects[len(waiting) :]
    after = np.argmax(then, axis=1)
    std = np.sqrt(np.maximum(np.diag(covariance) - (effects**2).sum(axis=0), 0.0))
    each, gains = np.arange(N_DRAWS), np.zeros(N_DRAWS)
    moved = then[each, after] > then[each, before]
    for sign, chosen in ((1.0, after[moved]), (-1.0, before[moved])):
        gains[moved] += sign * _expected_reward(belief, then[moved, chosen], std[chosen])
    return gains


def _rivals(state: PosteriorState) -> Ints:
    """The arms pulled with the highest mean, and those with the highest mean + 3 standard deviations."""
    known = state.at(state.arms)
    highest = known.mean + _REACH * np.sqrt(state.ridge * known.leverage)
    best = state.arms[np.argmax(known.mean)]
    return np.union1d(state.arms[np.argsort(-highest, kind="stable")[:MOST_RIVALS]], best)


def _effects(covariance: Floats, places: Ints, noise: Floats) -> Floats:
    """How much each independent standard normal part of the results moves the mean of each arm: u × arms.

    With L Lᵀ = C_UU + Λ and Λ the variances of their noise, the results are μ_U + L ε, and they move the
    means by C_·U L⁻ᵀ ε.
    """
    between = covariance[np.ix_(places, places)]
    size = max(float(np.diag(between).max(initial=0.0)), float(noise.max(initial=0.0)))
    factor = np.linalg.cholesky(between + np.diag(noise + _JITTER * size))
    return np.asarray(forward(np.asarray(factor), covariance[places]))


def _expected_reward(belief: Belief, mean: Floats, std: Floats) -> Floats:
    """The mean reward of normal variables on the model's scale, by equally likely values of them."""
    if belief.model is None:
        return RewardScale(None).rewards(mean)
    return np.asarray(_rewards(belief, mean[:, None] + std[:, None] * _VALUES).mean(axis=1))


def _rewards(belief: Belief, values: Floats) -> Floats:
    """Model values as rewards; beyond the results, the conversion continues as a straight line.

    Out there it was never compared with a result, and the inverse of a logarithm or of a fitted curve can
    grow so fast that a few extreme values would decide the mean. The slope is that over the last unit of the
    model's scale, one standard deviation, within the results.
    """
    scale, known = RewardScale(belief.model), belief.state.sums / belief.state.counts
    low, high = float(known.min()), float(known.max())
    edges = scale.rewards(np.array([low, min(low + 1.0, high), max(high - 1.0, low), high]))
    step = max(min(1.0, high - low), 1e-12)
    within = scale.rewards(np.clip(values, low, high))
    above, below = np.maximum(values - high, 0.0), np.minimum(values - low, 0.0)
    return np.asarray(within + ((edges[3] - edges[2]) * above + (edges[1] - edges[0]) * below) / step)
