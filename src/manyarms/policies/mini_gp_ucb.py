"""mini-GP-UCB (theory §5.6): exact GP-UCB that pulls its choice many times over before it looks again."""

from __future__ import annotations

from dataclasses import dataclass

from manyarms.choice.selection import RepeatTop, SelectionRule
from manyarms.policies.base import Policy
from manyarms.support.validation import at_least_one


@dataclass(frozen=True, kw_only=True)
class MiniGPUCB(Policy):
    """Calandriello et al. 2022: few different arms, so the exact posterior stays small; growth is their C."""

    growth: float = 1.1

    def __post_init__(self) -> None:
        at_least_one("growth", self.growth)
        super().__post_init__()

    def selection_rule(self) -> SelectionRule:
        """B = max(1, ⌊(C²−1)/σ²(x)⌋) pulls of the top arm."""
        return RepeatTop(self.growth)
