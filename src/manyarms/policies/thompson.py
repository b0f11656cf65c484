"""The base class of Thompson-sampling policies, which choose the best arm of a posterior draw."""

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

    width: α, the factor of the posterior standard deviation of the draws: "thompson" (α_t of S-GP-TS
        Theorem 1, the default with a given kernel) or a number (1 is usual in practice).
    batch_size: the number of functions drawn before feedback is used.
    distinct: if True, a batch contains no arm twice.

    The other settings are those of `Policy`.
    """

    batch_size: int = 1
    distinct: bool = False

    theorem: ClassVar[str] = "thompson"
    practical: ClassVar[float] = 1.0  # unscaled draws from the posterior

    def __post_init__(self) -> None:
        count("batch_size", self.batch_size)
        if not isinstance(self.distinct, bool):
            raise InvalidParameterError("distinct", self.distinct, "True or False")
        super().__post_init__()

    def selection_rule(self) -> SelectionRule:
        """The maximiser of each draw."""
        return ThompsonDraws(self.batch_size, self.distinct)

    def stopping_rule(self) -> StoppingRule:
        """Feedback after every pull, or after `batch_size` pulls."""
        return EveryStep() if self.batch_size == 1 else FixedSize(self.batch_size)
