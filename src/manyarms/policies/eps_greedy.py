"""EpsGreedy: the highest mean, now and then a random arm. The baseline that ignores its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

from manyarms.choice.selection import EpsilonGreedy, SelectionRule
from manyarms.policies.base import Policy


@dataclass(frozen=True, kw_only=True)
class EpsGreedy(Policy):
    """Greedy on the exact posterior mean, uniformly random with probability `explore`."""

    explore: float = 0.1

    def selection_rule(self) -> SelectionRule:
        """Mean or coin."""
        return EpsilonGreedy(self.explore)
