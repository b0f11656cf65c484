"""What defines a posterior on a sketch: inducing arms in groups, and the pulls with their rewards.

A run that goes on in one process and one that is restored elsewhere must choose the same arms. Both compute
the posterior from such a definition (`SparseGP.built`): columns group by group in the order in which the arms
were appended, all values from the columns. What one process keeps in memory then only saves time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyarms.posterior.state import PosteriorState
from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True)
class Definition:
    """Inducing arms, how many of them were appended together, arms pulled, pull counts and reward sums."""

    inducing: Ints
    groups: tuple[int, ...]
    arms: Ints
    counts: Floats
    sums: Floats

    @classmethod
    def of(cls, state: PosteriorState) -> Definition:
        """The definition of a state."""
        return cls(state.inducing, state.groups, state.arms, state.counts, state.sums)

    def parts(self) -> list[Ints]:
        """The arms of each group."""
        return np.split(self.inducing, np.cumsum(self.groups)[:-1]) if self.groups else []

    def shared_groups(self, known: PosteriorState) -> int:
        """How many groups a state has that are the first ones of this definition; 0 if it has any other."""
        n = len(known.groups)
        same = self.groups[:n] == known.groups
        return n if same and np.array_equal(self.inducing[: len(known.inducing)], known.inducing) else 0
