"""BBKB: BKB in adaptive batches; mean and sketch stay fixed until variances have shrunk too far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from manyarms.choice.stopping import GlobalRatio, LocalRatio, StoppingRule
from manyarms.policies.base import Sparse
from manyarms.support.validation import at_least_one


@dataclass(frozen=True, kw_only=True)
class BBKB(Sparse):
    """Batch BKB (Calandriello et al. 2020, Algorithm 1; theory §5.5).

    batch_ratio: C̃ ≥ 1, the factor by which variances may shrink within a batch.
    local: if True, a batch continues beyond the global bound as long as the ratio of every single arm is
        at most C̃.

    The other settings are those of `Sparse` and `Policy`.
    """

    batch_ratio: float = 2.0
    local: bool = False

    theorem: ClassVar[str] = "certified"
    width_aliases: ClassVar[dict[str, str]] = {"authors": "authors-bbkb"}

    def __post_init__(self) -> None:
        at_least_one("batch_ratio", self.batch_ratio)
        super().__post_init__()

    def stopping_rule(self) -> StoppingRule:
        """Line 5 of Algorithm 1, with variances."""
        return LocalRatio(self.batch_ratio) if self.local else GlobalRatio(self.batch_ratio)

    @property
    def ratio_bound(self) -> float:
        """C̃."""
        return float(self.batch_ratio)
