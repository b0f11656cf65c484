"""Which policies a contextual bandit can run, and what it accepts as rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.choice.selection import EpsilonGreedy, ThompsonDraws, UpperBounds
from manyarms.contextual.renewal import RENEWAL_RULES
from manyarms.embeddings.checks import checked_rows
from manyarms.errors import EmptyPoolError, InvalidFeaturesError, InvalidParameterError, shown
from manyarms.policies import SGPTS, Policy, SoRUCB
from manyarms.pool.arrays import as_features
from manyarms.sketch.inducing import AllPulled, LeverageScores, NoArms


def checked_policy(policy: Any) -> Policy:
    """The policy, if all its rules work without a fixed pool."""
    if not isinstance(policy, Policy):
        raise InvalidParameterError("policy", policy, "a policy such as BKB(kernel=RBF(1.0))")
    if isinstance(policy.kernel, str):
        rule = "given, because a contextual bandit does not learn it"
        raise InvalidParameterError("kernel", policy.kernel, rule)
    if isinstance(policy, SGPTS) and policy.rule == "features":
        raise InvalidParameterError("rule", policy.rule, "'points': eigenfunctions need the box of a pool")
    if not isinstance(policy.stopping_rule(), RENEWAL_RULES):
        name = type(policy.stopping_rule()).__name__
        raise InvalidParameterError(
            "policy", name, "without a stopping rule that compares all arms of a pool"
        )
    if getattr(policy, "max_inducing", None) is not None:
        rule = "left out of the policy: ContextualBandit(…, max_inducing=…) bounds its inducing points"
        raise InvalidParameterError("max_inducing", policy.max_inducing, rule)  # type: ignore[attr-defined]
    if not isinstance(policy.inducing_rule(), AllPulled | LeverageScores | NoArms):
        rule = "drawn by leverage scores ('fresh' or 'union'): other rules need all past rows"
        raise InvalidParameterError("inducing", getattr(policy, "inducing", None), rule)
    if not isinstance(policy.selection_rule(), UpperBounds | ThompsonDraws | EpsilonGreedy):
        name = type(policy.selection_rule()).__name__
        raise InvalidParameterError("policy", name, "choosing by upper bounds, Thompson draws or ε-greedy")
    if isinstance(policy, SoRUCB):
        raise InvalidParameterError("policy", "SoRUCB", "keeping the residual variance, as BKB does")
    return policy


def checked_round(rows: Any, context: Any, like: NDArray[Any] | None) -> NDArray[Any]:
    """The candidates of one round as an array; `like` holds a row of an earlier round, None in the first.

    Numbers become float64, except booleans and bytes, which may be packed bits.
    """
    try:
        array = as_features(rows)
    except EmptyPoolError:
        raise EmptyPoolError("a round needs at least one row") from None
    if array.dtype.kind in "iuf" and array.dtype != np.uint8:
        array = checked_rows(array, array.shape[1])
    if context is not None:
        array = _joined(array, context)
    if like is not None:
        _check_kind(array, like)
    return array


def _joined(actions: NDArray[Any], context: Any) -> NDArray[Any]:
    """The features of each action, followed by those of the context."""
    if actions.dtype.kind not in "biuf":
        raise InvalidFeaturesError(f"a context needs rows of numbers, the rows are {actions.dtype}")
    part = as_features(np.atleast_2d(np.asarray(context)))
    if part.dtype.kind not in "biuf" or len(part) != 1:
        raise InvalidFeaturesError(f"a context is one row of numbers, got {shown(context)}")
    return np.column_stack([actions, np.repeat(part, len(actions), axis=0)]).astype(np.float64)


def _check_kind(array: NDArray[Any], like: NDArray[Any]) -> None:
    if array.ndim != like.ndim or array.shape[1:] != like.shape[1:]:
        now, before = (part.shape[1] if part.ndim > 1 else 1 for part in (array, like))
        raise InvalidFeaturesError(f"the rows have {now} columns, those of the first round had {before}")
    if array.dtype.kind != like.dtype.kind:
        raise InvalidFeaturesError(f"the rows are {array.dtype}, those of the first round were {like.dtype}")
