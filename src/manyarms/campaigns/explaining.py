"""Why a candidate of a campaign: an explanation in the user's units, cells and ids, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from manyarms.campaigns.assumptions import Units
from manyarms.campaigns.candidates import CampaignCandidates
from manyarms.run.explanation import Explanation, Neighbour, explained
from manyarms.run.optimizer import Optimizer

NAMED = 3  # neighbours and columns that one line names
MOST_EXPLAINED = 1_000  # candidates of one request
Plain = dict[str, Any]


def explanations(
    candidates: CampaignCandidates, run: Optimizer, units: Units, reasons: Mapping[int, str]
) -> list[Plain]:
    """An explanation of each candidate that `reasons` names, by a run that has used every result.

    `reasons` maps each arm to what chose it; an empty text if it was never handed out.
    """
    if not reasons:
        return []
    arms, pool = list(reasons), candidates.pool
    owners = None if pool.names is None else candidates.source.first.blocks(pool.names)
    state = run._looked_ahead()
    found = explained(run.context, state, np.array(arms, dtype=np.int64), pool=pool, owners=owners)
    best = [run.best().arm] if len(run.history) else []
    *cells, of_best = [*candidates.source.cells_of([*arms, *best]), {}][: len(arms) + 1]
    unknown = run.model is not None and not run.model.n_pulls  # nothing is known of the user's units
    return [
        _plain(each, units, own, of_best, reasons[each.arm], unknown)
        for each, own in zip(found, cells, strict=True)
    ]


def _plain(
    found: Explanation, units: Units, own: Mapping[str, str], best: Mapping[str, str], why: str, unknown: bool
) -> Plain:
    """An explanation in the user's units; columns show the cells of the user's table where there are some."""
    lower, upper = (None, None) if unknown else units.interval(found.lower, found.upper)

    def difference(of_rewards: float) -> float:
        return units.sign * units.spread(of_rewards) + 0.0

    return {
        "id": str(found.id),
        "mean": units.value(found.mean),
        "std": units.spread(found.std),
        "lower": lower,
        "upper": upper,
        "reason": why or None,
        "measurements": found.pulls,
        "average": None if found.average is None else units.value(found.average),
        "failures": found.failures,
        "success": found.success,
        "best": None if found.best is None else str(found.best),
        "neighbours": [_neighbour(each, units) for each in found.neighbours],
        "speaks_for": [each.column for each in found.columns[:NAMED] if each.against_pool > 0],
        "columns": [
            {
                "column": each.column,
                "value": own.get(each.column, each.value),
                "against_pool": difference(each.against_pool),
                "best_value": best.get(each.column, each.best_value),
                "against_best": difference(each.against_best),
            }
            for each in found.columns
        ],
    }


def _neighbour(found: Neighbour, units: Units) -> Plain:
    return {
        "id": str(found.id),
        "correlation": found.correlation,
        "average": units.value(found.average),
        "measurements": found.pulls,
    }


# ------------------------------------------------------------------ in words


def nearest_text(found: Plain) -> str:
    """The nearest measured candidates on one line: id, correlation and average."""
    return "; ".join(
        f"{each['id']} ({each['correlation']:.2f}): {each['average']:.4g}" for each in found["neighbours"]
    )


def columns_text(found: Plain) -> str:
    """The columns that speak most for a candidate, on one line, with what each contributes."""
    shown = [each for each in found["columns"] if each["column"] in found["speaks_for"]]
    return "; ".join(
        f"{each['column']} = {value_text(each['value'])}: {each['against_pool']:+.3g}" for each in shown
    )


def value_text(value: float | str) -> str:
    """The value of a column."""
    return f"{value:.6g}" if isinstance(value, float) else (value or "(missing)")
