"""What a pull of each arm costs, and how a limit on these costs is stated.

The array of costs is the caller's and is not copied. A shard keeps its part of it (`choice/per_cost.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manyarms.errors import InvalidParameterError
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, Ints, as_array, masked_entries, non_negative, positive

ROUNDING = 1e-12  # of a limit: by so much the rounding errors of sums may exceed it
_RULE = "a positive finite number for each arm"


@dataclass(frozen=True, eq=False)
class Costs:
    """What a pull of each arm costs, in money, hours or any other unit, and how this limits and guides a run.

    of_arms: one positive number for each arm, or the name of a column of the pool.
    budget: what all pulls together may cost; None: no limit. A batch never costs more than what is left.
    per_cost: choose the arms with the highest expected improvement per unit of cost instead of those with the
        highest upper bounds. The policy must be one that chooses by upper bounds.
    power: the exponent ρ of the cost that the improvement is divided by; 0 ignores the cost.
    """

    of_arms: ArrayLike | str
    budget: float | None = None
    per_cost: bool = False
    power: float = 1.0

    def __post_init__(self) -> None:
        if self.budget is not None:
            positive("budget", self.budget)
        if not isinstance(self.per_cost, bool):
            raise InvalidParameterError("per_cost", self.per_cost, "True or False")
        non_negative("power", self.power)

    def on(self, pool: Pool) -> ArmCosts:
        """The costs of the arms of this pool, after checking them."""
        values = checked_costs(self._column(pool), pool.n_arms)
        return ArmCosts(values, self.budget, self.per_cost, self.power)

    def _column(self, pool: Pool) -> Any:
        if not isinstance(self.of_arms, str):
            return self.of_arms
        names = list(pool.names or ())
        if self.of_arms not in names:
            rule = f"one number for each arm, or one of the pool's columns {names}"
            raise InvalidParameterError("costs", self.of_arms, rule)
        return pool.features[:, names.index(self.of_arms)]


def checked_costs(given: Any, n_arms: int) -> Floats:
    """One positive finite number for each arm as a float array; float arrays are not copied."""
    array = as_array("costs", given)
    if array.dtype.kind not in "iuf":
        raise InvalidParameterError("costs", array.dtype.name, _RULE)
    if array.shape != (n_arms,):
        rule = f"one number for each of the {n_arms} arms"
        raise InvalidParameterError("costs", f"an array of shape {array.shape}", rule)
    costs = np.asarray(array, dtype=np.float64)
    wrong, hidden = ~(np.isfinite(costs) & (costs > 0)), masked_entries(given)
    wrong = wrong if hidden is None else wrong | hidden
    if wrong.any():
        arm = int(np.argmax(wrong))
        raise InvalidParameterError("costs", f"{costs[arm]} for arm {arm}", _RULE)
    return costs


@dataclass(frozen=True, eq=False)
class ArmCosts:
    """The checked costs of the arms of one pool; the settings are those of `Costs`."""

    values: Floats
    budget: float | None
    per_cost: bool
    power: float

    def total(self, arms: Ints) -> float:
        """What one pull of each of these arms costs."""
        return math.fsum(self.values[arms].tolist())

    def pulls(self) -> int | None:
        """How many pulls of average cost the budget pays for; None: no limit."""
        return None if self.budget is None else max(1, int(self.budget / float(self.values.mean())))

    def with_budget(self, budget: float | None) -> ArmCosts:
        """The same costs with another budget."""
        return replace(self, budget=None if budget is None else positive("budget", budget))

    def extended(self, more: ArrayLike, pool: Pool) -> ArmCosts:
        """The costs of a larger pool that begins with the present arms; `more` are those of the others."""
        added = checked_costs(more, pool.n_arms - len(self.values))
        return replace(self, values=np.concatenate([self.values, added]))

    def limit(self, spent: float, max_cost: float | None) -> CostLimit | None:
        """The limit of a batch after so much was spent; None if there is none."""
        left = math.inf if self.budget is None else max(self.budget - spent, 0.0)
        if max_cost is not None and max_cost < left:
            source = f"a batch may cost at most {max_cost:.6g}"
            return CostLimit(self.values, max_cost, source, max_cost, of_budget=False)
        if self.budget is None:
            return None
        source = f"the cost budget of {self.budget:.6g} has only {left:.6g} left"
        return CostLimit(self.values, left, source, self.budget, of_budget=True)

    def to_plain(self) -> dict[str, Any]:
        """The costs and their settings as numbers and an array."""
        return dict(vars(self))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], n_arms: int) -> ArmCosts:
        """The costs that `to_plain` wrote, checked again."""
        settings = {name: plain[name] for name in ("budget", "per_cost", "power")}
        Costs((), **settings)
        return cls(checked_costs(plain["values"], n_arms), **settings)


@dataclass(frozen=True, eq=False)
class CostLimit:
    """The arms of one batch may together cost at most `most`; `source` says in words why."""

    costs: Floats
    most: float
    source: str
    whole: float  # the budget, or the limit of this batch, that the rounding errors are a share of
    of_budget: bool  # whether a budget limits the batch, and not a limit for this batch alone

    @property
    def room(self) -> float:
        """The limit with the rounding errors of sums."""
        return self.most + ROUNDING * self.whole
