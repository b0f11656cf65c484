"""BPE (theory §5.17): few batches of pure exploration, after each of which inferior arms are eliminated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from manyarms.choice.elimination import batch_lengths
from manyarms.choice.selection import PureExploration, SelectionRule
from manyarms.choice.widths import duets_printed, duets_proved
from manyarms.errors import InvalidParameterError
from manyarms.policies.base import Sparse
from manyarms.support.validation import count


@dataclass(frozen=True, kw_only=True)
class BPE(Sparse):
    """Batched pure exploration (Li & Scarlett 2022): O(log log T) batches for T trials.

    horizon: T, the planned number of trials. It decides the sizes of the batches: 32, 179, 424 and 365 for
        T = 1 000.
    width: the factor of the posterior standard deviation in the bounds that eliminate arms: a number, "auto"
        (the value that is proved for the sketch, theory §5.17) or "printed" (that of the paper, for the exact
        posterior).

    One `ask()` gives one whole batch; `ask(at_most=n)` gives a part of it, and `ask(n)` may make it longer.
    The next batch needs the results of all tickets of the present one, except those that failed or were
    forgotten. The kernel must be given. The other settings are those of `Sparse`.
    """

    horizon: int

    theorem: ClassVar[str] = "certified"
    width_aliases: ClassVar[dict[str, str]] = {"printed": "certified"}

    def __post_init__(self) -> None:
        count("horizon", self.horizon, minimum=2)
        if isinstance(self.kernel, str):
            raise InvalidParameterError("kernel", self.kernel, "given, because BPE does not learn it")
        if isinstance(self.width, str) and self.width not in ("auto", "printed"):
            raise InvalidParameterError("width", self.width, "a number, 'auto' or 'printed'")
        if self.norm_bound == "double":
            raise InvalidParameterError("norm_bound", self.norm_bound, "a positive number for BPE")
        super().__post_init__()

    def selection_rule(self) -> SelectionRule:
        """The active arm of largest variance, for a whole batch."""
        return PureExploration(self.batches, self.oversampling_at(self.horizon))

    @property
    def batches(self) -> tuple[int, ...]:
        """The sizes of the batches."""
        return batch_lengths(self.horizon)

    def trim_width(self, n_arms: int) -> float:
        """β of the elimination, on the scale of σ̃ (leverage): δ is shared by all arms and batches."""
        assert self.ridge is not None
        if not isinstance(self.width, str):
            return self.width * math.sqrt(self.ridge)
        assert not isinstance(self.norm_bound, str)
        given = self.assumptions(self.norm_bound)
        given = replace(given, delta=self.delta / (len(self.batches) * n_arms))
        formula = duets_printed if self.width == "printed" else duets_proved
        return formula(given) * math.sqrt(self.ridge)
