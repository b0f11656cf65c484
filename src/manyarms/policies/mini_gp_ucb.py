"""mini-GP-UCB (theory §5.6): exact GP-UCB that pulls each chosen arm several times before the next choice."""

from __future__ import annotations

from dataclasses import dataclass

from manyarms.choice.selection import RepeatTop, SelectionRule
from manyarms.policies.base import Policy
from manyarms.support.validation import at_least_one


@dataclass(frozen=True, kw_only=True)
class MiniGPUCB(Policy):
    """Calandriello et al. 2022: few different arms are pulled, so the exact posterior stays small.

    growth: C ≥ 1 of the paper; a larger value gives more pulls of the same arm. The other settings are those
        of `Policy`.
    """

    growth: float = 1.1

    def __post_init__(self) -> None:
        at_least_one("growth", self.growth)
        super().__post_init__()

    def selection_rule(self) -> SelectionRule:
        """B = max(1, ⌊(C²−1)/σ²(x)⌋) pulls of the arm with the highest upper bound."""
        return RepeatTop(self.growth)
