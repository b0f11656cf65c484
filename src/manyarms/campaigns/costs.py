"""What the candidates of a campaign cost: the column of the table, what was spent, and what a batch may cost.

The table holds the costs, and a ticket stores the one of its candidate, so that what was spent is known
without the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from manyarms.campaigns.pool_file.files import has_columns
from manyarms.campaigns.pool_file.source import Source
from manyarms.campaigns.pool_file.understanding import Roles, place, read_cells
from manyarms.campaigns.settings import Settings
from manyarms.campaigns.store.schema import FORGOTTEN, OPEN
from manyarms.errors import SettingsError, TableError, shown
from manyarms.pool.costs import Costs
from manyarms.support.validation import Floats


def cost_column(source: Source) -> Floats:
    """The cost of every candidate of one table; a cell that is no positive number is an error."""
    name, path, form = source.cost, source.path, source.text_form
    assert name is not None
    if not has_columns(path):
        raise TableError(f"{path}: an array file has no column that could hold costs")
    cells = read_cells(path, form, Roles(None, (name,), ()))
    read, where = cells.columns[name], partial(place, path, form)
    wrong = read.first_text or read.first_infinite
    if wrong is None:
        bad = ~(read.numbers > 0)  # also true where a number is missing
        if not bad.any():
            return read.numbers
        row = int(np.argmax(bad))
        number = float(read.numbers[row])
        wrong = row, "" if np.isnan(number) else f"{number:g}"
    raise TableError(f"{where(wrong[0])}, column {name!r}: {shown(wrong[1])} is not a positive cost")


def costs_of(settings: Settings, parts: Sequence[Source]) -> Costs | None:
    """The costs of the candidates of these tables, with the budget and the rule of the campaign."""
    if settings.source.cost is None:
        return None
    columns = [cost_column(part) for part in parts]
    values = columns[0] if len(columns) == 1 else np.concatenate(columns)
    return Costs(values, settings.cost_budget, settings.per_cost)


def check_cost_settings(cost: str | None, budget: float | None, per_cost: bool) -> None:
    """Refuse settings about costs in a campaign without a column of costs."""
    for name, given in (("cost_budget", budget is not None), ("per_cost", per_cost)):
        if given and cost is None:
            raise SettingsError(f"{name} needs a column of costs: name it with cost (--cost)")


def spending(settings: Settings, tickets: Sequence[tuple[str, float | None]]) -> dict[str, Any] | None:
    """What was spent, is still open and is left, from the state and the cost of every ticket."""
    if settings.source.cost is None:
        return None
    budget = settings.cost_budget
    committed = math.fsum(cost or 0.0 for state, cost in tickets if state == OPEN)
    spent = math.fsum(cost or 0.0 for state, cost in tickets if state not in (OPEN, FORGOTTEN))
    left = None if budget is None else max(0.0, budget - spent - committed)
    return {
        "column": settings.source.cost, "budget": budget, "per_cost": settings.per_cost,
        "spent": spent, "open": committed, "left": left,
    }  # fmt: skip


def spending_lines(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What `spending` returns, as one labelled line of text."""
    if found is None:
        return []
    left = "no budget" if found["budget"] is None else f"{found['left']:.6g} of {found['budget']:.6g} left"
    rule = "; candidates are chosen by gain per cost" if found["per_cost"] else ""
    text = f"{found['spent']:.6g} spent, {found['open']:.6g} for open tickets, {left}"
    return [("costs", f"column {found['column']!r}: {text}{rule}")]
