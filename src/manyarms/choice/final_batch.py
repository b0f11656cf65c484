"""The final batch of a budget: no later batch can use its results, so it exploits the present model.

It is chosen with half the width β and without exploration arms. The width is not zero, because among arms
with similar means the more uncertain ones are more likely to be exceptionally good. The gain is measured in
docs/measurements.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from manyarms.choice.selection import FINAL_BATCH, BatchContext, FilledBatch, SelectionRule

NARROWED = 0.5  # factor of the width β (theory §8.7)


@dataclass(frozen=True)
class FinalBatch:
    """The arms of another selection rule, chosen with a smaller width."""

    rest: SelectionRule  # chooses the arms

    def fill(self, context: BatchContext) -> FilledBatch:
        """Fill the last batch of the budget."""
        filled = self.rest.fill(replace(context, width=NARROWED * context.width))
        return replace(filled, why=[FINAL_BATCH] * len(filled.arms))
