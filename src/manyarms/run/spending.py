"""The methods of a run that say what its pulls cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from manyarms.errors import InvalidParameterError


class Spending:
    """The cost budget of a run, and what has been spent of it."""

    @property
    def cost_budget(self) -> float | None:
        """What all pulls together may cost; None: no limit. It may be changed during a run with costs."""
        run: Any = self
        return None if run.context.costs is None else run.context.costs.budget

    @cost_budget.setter
    def cost_budget(self, budget: float | None) -> None:
        run: Any = self
        if run.context.costs is None:
            raise InvalidParameterError("cost_budget", budget, "left out in a run without costs")
        run._context = replace(run.context, costs=run.context.costs.with_budget(budget))

    @property
    def cost_spent(self) -> float:
        """What the pulls cost that were handed out and not forgotten; 0 in a run without costs."""
        run: Any = self
        return float(run.state.cost_spent)
