"""A bound on the size of the sketch, for runs whose leverage scores would keep most arms (theory §3.8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manyarms.sketch.inducing import Candidates, Draw, InducingRule
from manyarms.support.validation import Ints, count


@dataclass(frozen=True)
class AtMost:
    """The draw of another rule while it has at most `size` arms; then only `size` of them.

    Half of these are the arms with the best results, around which a run goes on to search, and the others are
    drawn evenly from the rest. A thinned draw is kept, and newly pulled arms join it, until it is a quarter
    larger than `size`: a draw at every renewal would change most of the sketch each time.
    """

    rule: InducingRule
    size: int

    growth: ClassVar[float] = 1.25

    def __post_init__(self) -> None:
        count("size", self.size)

    def draw(self, candidates: Candidates, rng: np.random.Generator) -> Draw:
        """The other rule's draw, the previous draw with the newly pulled arms, or a thinned one."""
        drawn = self.rule.draw(candidates, rng)
        if len(drawn.arms) <= self.size:
            return drawn
        before = candidates.inclusion
        kept = before != 0  # of the previous draw, or pulled since
        if self.size < np.count_nonzero(kept) <= self.growth * self.size:
            return Draw(candidates.arms[kept], np.where(before > 0, before, 1.0)[kept])
        chosen = self._thinned(candidates, drawn.arms, rng)
        return Draw(candidates.arms[chosen], np.full(self.size, self.size / len(drawn.arms)))

    def _thinned(self, candidates: Candidates, drawn: Ints, rng: np.random.Generator) -> Ints:
        """The positions among the candidates of the arms that are left."""
        places = np.flatnonzero(np.isin(candidates.arms, drawn))
        assert candidates.results is not None
        order = places[np.argsort(-candidates.results[places], kind="stable")]
        n_best = self.size // 2
        others = rng.choice(order[n_best:], self.size - n_best, replace=False)
        return np.sort(np.concatenate([order[:n_best], others]))
