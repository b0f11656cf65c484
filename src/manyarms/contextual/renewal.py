"""When results are used and inducing points are drawn: the stopping rules, counted round by round.

A pool's stopping rule ends a batch; here every round hands out one pick, and the rule says whether the
results told so far are used before the next one. The sums below are all that the rules need (theory §6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from manyarms.choice.stopping import (
    EveryStep,
    FixedSize,
    GlobalRatio,
    InformationGain,
    ProductRatio,
    StoppingRule,
)

RENEWAL_RULES = (EveryStep, FixedSize, GlobalRatio, ProductRatio, InformationGain)


@dataclass(frozen=True)
class PicksSince:
    """The picks since the last renewal, and the open picks at that moment."""

    rounds: int = 0  # picks since the renewal
    total: float = 0.0  # Σ σ̃²_fb
    log_product: float = 0.0  # Σ log(1 + σ̃²_fb)
    log_gain: float = 0.0  # Σ log(1 + σ̃²_{s−1})

    def counted(self, feedback: float, current: float, picked: bool = True) -> PicksSince:
        """With one more pick: its σ̃² at the renewal, and just before the pick."""
        return PicksSince(
            self.rounds + picked,
            self.total + feedback,
            self.log_product + math.log1p(feedback),
            self.log_gain + math.log1p(current),
        )


def is_due(rule: StoppingRule, picks: PicksSince) -> bool:
    """Whether the rule asks for a renewal before the next pick."""
    match rule:
        case EveryStep():
            return True
        case FixedSize(size):
            return picks.rounds >= size
        case GlobalRatio(bound):
            return 1.0 + picks.total > bound
        case ProductRatio(bound):
            return picks.log_product > math.log(bound)
        case InformationGain(bound):
            return picks.log_gain > math.log(bound)
    raise AssertionError(f"{rule!r} was checked before")
