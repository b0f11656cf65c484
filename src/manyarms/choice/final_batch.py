"""The last plate of a budget: nothing can be learned from it any more, so it takes what looks best by now.

Bounds half as wide, and no scouts. Not the highest means alone: among arms that look alike, the less certain
ones hold the surprises. What this gains is in docs/measurements.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from manyarms.choice.selection import FINAL_BATCH, BatchContext, FilledBatch, SelectionRule

NARROWED = 0.5  # theory §8.7


@dataclass(frozen=True)
class FinalBatch:
    """The chooser's own arms, chosen with narrower bounds."""

    rest: SelectionRule

    def fill(self, context: BatchContext) -> FilledBatch:
        """A batch after which none follows."""
        filled = self.rest.fill(replace(context, width=NARROWED * context.width))
        return replace(filled, why=[FINAL_BATCH] * len(filled.arms))
