"""The selection rule of a run that looks for value per cost (`per_cost.py`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from manyarms.choice.lazy_argmax import LazyArgmax, Value
from manyarms.choice.per_cost import ValuePerCost
from manyarms.choice.selection import GAIN_PER_COST, BatchContext, FilledBatch, highest_first
from manyarms.choice.success import ValueWithSuccess


@dataclass(frozen=True)
class BestPerCost:
    """The arm with the highest expected improvement per unit of cost, pick after pick (theory §5.19).

    The width β of the policy plays no part: the posterior standard deviation is taken as it is.
    """

    def fill(self, context: BatchContext) -> FilledBatch:
        """Repeatedly pick the most valuable arm and hallucinate the pull."""
        assert context.costs is not None, "only a run with costs has this rule"
        per_cost = ValuePerCost.under(context.posterior, context.costs)
        value: Value = per_cost
        if context.success is not None:
            value = ValueWithSuccess.under(context.posterior, context.success, per_cost)
        argmax = LazyArgmax(
            context.posterior, context.overlay, _one_std(context), context.allowed,
            lazy=context.lazy, value=value,
        )  # fmt: skip
        return highest_first(context, argmax, _one_std, GAIN_PER_COST)


def _one_std(context: BatchContext) -> float:
    """√λ, which turns σ̃ into the posterior standard deviation."""
    return math.sqrt(context.posterior.ridge)
