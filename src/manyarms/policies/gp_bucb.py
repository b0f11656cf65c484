"""GP-BUCB (theory §5.4): GP-UCB in batches with a fixed mean and a hallucinated variance."""

from __future__ import annotations

from dataclasses import dataclass

from manyarms.choice.selection import HighestVariance, SelectionRule, UpperBounds
from manyarms.choice.stopping import FixedSize, InformationGain, ProductRatio, StoppingRule
from manyarms.errors import InvalidParameterError
from manyarms.policies.base import Policy
from manyarms.support.validation import at_least_one, count


@dataclass(frozen=True, kw_only=True)
class GPBUCB(Policy):
    """Desautels et al. 2014, on the exact posterior.

    batch_ratio: C̃ ≥ 1, the bound of the stopping rules "product" and "information".
    stop: "product" ends a batch when Π(1+σ²_fb) > C̃ (the form in BBKB §3), "information" when
        Π(1+σ²_{s−1}) > C̃ (their GP-AUCB; the product is exp(2 · information gain of the batch)), "fixed"
        after `batch_size` picks.
    batch_size: the size of batches with stop="fixed".
    initial_pulls: T_init of their initialisation phase (0: none). After the first arm, the arms with the
        highest hallucinated variance are pulled until there are this many pulls. No reward is needed to
        choose them, so they are one batch. The pulls of later batches then shrink variances less.

    The other settings are those of `Policy`.
    """

    batch_ratio: float = 2.0
    stop: str = "product"
    batch_size: int = 10
    initial_pulls: int = 0

    def __post_init__(self) -> None:
        at_least_one("batch_ratio", self.batch_ratio)
        count("initial_pulls", self.initial_pulls, minimum=0)
        super().__post_init__()

    def selection_rule(self) -> SelectionRule:
        """Uncertainty sampling for the first `initial_pulls` pulls, then upper bounds."""
        return HighestVariance(self.initial_pulls, UpperBounds()) if self.initial_pulls else UpperBounds()

    def stopping_rule(self) -> StoppingRule:
        """The rule that `stop` names."""
        if self.stop == "product":
            return ProductRatio(self.batch_ratio)
        if self.stop == "information":
            return InformationGain(self.batch_ratio)
        if self.stop == "fixed":
            return FixedSize(self.batch_size)
        raise InvalidParameterError("stop", self.stop, "'product', 'information' or 'fixed'")

    @property
    def ratio_bound(self) -> float:
        """C̃."""
        return float(self.batch_ratio)
