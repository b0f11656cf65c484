"""What the Thompson-sampling policies share: the best arm of a function drawn from the posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from manyarms.choice.selection import SelectionRule, ThompsonDraws
from manyarms.choice.stopping import EveryStep, FixedSize, StoppingRule
from manyarms.errors import InvalidParameterError
from manyarms.policies.base import Policy
from manyarms.support.validation import count


@dataclass(frozen=True, kw_only=True)
class Thompson(Policy):
    """Settings common to Thompson sampling.

    width is α, by which the posterior's standard deviation is multiplied: "thompson" (α_t of S-GP-TS
    Theorem 1, the default with a given kernel) or a number (practitioners take 1). batch_size functions are
    drawn before feedback is used; with `distinct` a batch holds no arm twice.
    """

    batch_size: int = 1
    distinct: bool = False

    theorem: ClassVar[str] = "thompson"
    practical: ClassVar[float] = 1.0  # draws from the posterior itself

    def __post_init__(self) -> None:
        count("batch_size", self.batch_size)
        if not isinstance(self.distinct, bool):
            raise InvalidParameterError("distinct", self.distinct, "True or False")
        super().__post_init__()

    def selection_rule(self) -> SelectionRule:
        """The best arm of each draw."""
        return ThompsonDraws(self.batch_size, self.distinct)

    def stopping_rule(self) -> StoppingRule:
        """Every step, or every batch."""
        return EveryStep() if self.batch_size == 1 else FixedSize(self.batch_size)
