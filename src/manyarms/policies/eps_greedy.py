"""EpsGreedy: the highest mean, occasionally a random arm; a baseline that ignores the uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

from manyarms.choice.selection import EpsilonGreedy, SelectionRule
from manyarms.policies.base import Policy


@dataclass(frozen=True, kw_only=True)
class EpsGreedy(Policy):
    """Greedy on the exact posterior mean; a uniformly random arm with probability `explore`."""

    explore: float = 0.1

    def selection_rule(self) -> SelectionRule:
        """The highest mean or a random arm."""
        return EpsilonGreedy(self.explore)
