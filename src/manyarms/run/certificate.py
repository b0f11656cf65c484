"""The certificate of a run: how far the recommended arm, and all pulls so far, can be from the best arm.

With a kernel, a noise and a norm bound that the user vouches for, it follows from bounds on f that hold at
all arms and all feedbacks together with probability 1 − δ, however the arms were chosen (theory §4.10 and
§4.11). If any of these is learned or guessed, nothing is proved, and the same figures are estimated from
draws of the posterior (theory §4.12). Every certificate lists the conditions that it depends on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.choice.highest import BoundRule, Highest, highest
from manyarms.pool.allowance import Allowance
from manyarms.posterior.hallucination import Hallucination
from manyarms.run.belief import Belief
from manyarms.run.conditions import Condition, conditions_of
from manyarms.run.context import RunContext
from manyarms.run.gap_estimate import CONFIDENCE, joint_draws
from manyarms.run.reward_scale import RewardScale
from manyarms.run.state import RunState
from manyarms.support.threads import one_thread
from manyarms.support.validation import Floats, Ints

CERTIFICATE, ESTIMATE = "certificate", "estimate"


@dataclass(frozen=True)
class Certificate:
    """What is known about the best arm of the pool and the arm recommended, in the user's units and sign.

    kind: "certificate" (proved under `conditions`) or "estimate" (from draws of the posterior).
    confidence: the probability with which gap, regret and the two bounds hold together if it is a
        certificate; of each of them by itself if it is an estimate.
    arm, id: the recommended arm, that of `Optimizer.best`.
    pulls: the number of results used.
    gap: an upper bound on the difference between the best arm's mean reward and that of the recommended arm.
    regret: an upper bound on the regret of these pulls, Σ (best mean − mean of the arm pulled).
    best_value_bound: a bound on the best arm's mean: an upper one, or a lower one if rewards are minimised.
    recommended_value_bound: a bound on the recommended arm's mean from the other side.
    width: β of these bounds, in posterior standard deviations; of an estimate, the policy's width.
    effective_dimension: Σ n_i σ̃²(x_i).
    residual_trace: tr(K − Q)/λ, what the sketch misses; 0 for an exact posterior.
    realised_ratio: the largest factor by which pending pulls reduce any variance; 1 if nothing is pending.
    conditions: what the bounds, and a sublinear regret, depend on.
    """

    kind: str
    confidence: float
    arm: int
    id: Any
    pulls: int
    gap: float
    regret: float
    best_value_bound: float
    recommended_value_bound: float
    width: float
    effective_dimension: float
    residual_trace: float
    realised_ratio: float
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class _Bounds:
    """Gap, regret, best value and recommended value as utilities, of which larger ones are better."""

    gap: float
    regret: float
    best: float
    recommended: float


def certificate_of(context: RunContext, state: RunState, arm: int, *, vouched: bool = True) -> Certificate:
    """The certificate for recommending this arm, in a state whose belief has used every result.

    `vouched` is False if the caller has estimated the scale of the rewards from the results.
    """
    belief, posterior = state.belief, state.belief.state
    width = _proved_width(belief) if vouched else None
    if width is not None:
        kind, confidence, found = CERTIFICATE, 1.0 - belief.policy.delta, _proved(belief, arm, width)
    else:
        kind, confidence, found = ESTIMATE, CONFIDENCE, _estimated(context, state, arm)
        width = belief.width()
    overlay = Hallucination(belief.posterior)
    for pending, times in sorted(state.tickets.pending_counts().items()):
        overlay.pull(pending, times)
    return Certificate(
        kind=kind,
        confidence=confidence,
        arm=arm,
        id=context.pool.id_of(arm),
        pulls=state.history.pulls,
        gap=found.gap,
        regret=found.regret,
        best_value_bound=context.sign * found.best,
        recommended_value_bound=context.sign * found.recommended,
        width=width / math.sqrt(posterior.ridge),
        effective_dimension=posterior.effective_dimension,
        residual_trace=posterior.residual_trace / posterior.ridge,
        realised_ratio=overlay.realised_ratio(),
        conditions=conditions_of(context, state, proved=kind == CERTIFICATE),
    )


def _proved_width(belief: Belief) -> float | None:
    """β of bounds that are proved; None if the model is learned, F is guessed, or there is no proof."""
    if belief.model is not None or isinstance(belief.policy.norm_bound, str):
        return None
    return belief.proved_width()


def _proved(belief: Belief, arm: int, width: float) -> _Bounds:
    """The bounds that follow from mean ± width·σ̃ at all arms (theory §4.11)."""
    state = belief.state
    rule, everyone = BoundRule(width), Allowance(state.over_pool.n_arms)
    top = highest(state.over_pool, rule, everyone, np.empty(0, dtype=np.int64), 2)
    pulled, own = state.at(state.arms), state.at(np.array([arm]))
    lower = pulled.mean - width * np.sqrt(pulled.leverage)
    recommended = float(own.mean[0] - width * math.sqrt(own.leverage[0]))
    behind = np.maximum(_highest_other(top, state.arms) - lower, 0.0)
    return _Bounds(
        gap=max(0.0, float(_highest_other(top, np.array([arm]))[0]) - recommended),
        regret=float(state.counts @ behind),
        best=float(top.bounds[0]),
        recommended=recommended,
    )


def _highest_other(top: Highest, arms: Ints) -> Floats:
    """For each of these arms, the highest upper bound of all the others; `top` holds the two highest."""
    second = float(top.bounds[1]) if len(top.bounds) > 1 else -np.inf
    return np.where(arms == top.arms[0], second, top.bounds[0])


def _estimated(context: RunContext, state: RunState, arm: int) -> _Bounds:
    """Quantiles over joint draws of the posterior (theory §4.12)."""
    with one_thread():  # some hundred arms
        arms, draws = joint_draws(state.belief, arm, context.streams.at("certificate", state.n_feedbacks))
    utilities = RewardScale(state.belief.model).rewards(draws)  # draws × arms
    own = utilities[:, int(np.flatnonzero(arms == arm)[0])]
    best, history = utilities.max(axis=1), state.history
    regret = history.pulls * best - float(history.sums.sum())
    return _Bounds(
        gap=float(np.quantile(best - own, CONFIDENCE)),
        regret=max(0.0, float(np.quantile(regret, CONFIDENCE))),
        best=float(np.quantile(best, CONFIDENCE)),
        recommended=float(np.quantile(own, 1.0 - CONFIDENCE)),
    )
