"""The group that all arms of a batch belong to, if they must have a label in common (`BatchStructure`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from manyarms.choice.highest import BoundRule, highest
from manyarms.errors import NothingToAskError
from manyarms.pool.allowance import Allowance
from manyarms.posterior.over_pool import OverPool
from manyarms.run.batch_structure import Groups
from manyarms.run.eligibility import Eligibility
from manyarms.support.validation import Ints

TYPICAL_SIZE = 16  # arms over which bounds are averaged if the stopping rule decides how many there will be

EligibilityIn = Callable[[int], Eligibility]  # of the arms of one group


def groups_with(same: Groups, allowed: Allowance, within: EligibilityIn, size: int) -> tuple[int, ...]:
    """The groups from which a batch of this size can be chosen; an error if there is none."""
    open_arms = np.unique(same.numbers[allowed.open_arms()])
    allowances = {group: within(group).allowance for group in open_arms.tolist()}
    totals = {group: allowance.total for group, allowance in allowances.items()}
    enough = tuple(group for group, allowance in allowances.items() if allowance.allows(size))
    if not enough and any(total >= size for total in totals.values()):
        raise NothingToAskError(
            f"{size} arms that have the same label were asked for, but no label has so many that satisfy all "
            "limits together"
        )
    if not enough:
        largest = max(totals, key=lambda group: totals[group], default=None)
        found = "none is left" if largest is None else f"{same.labels[largest]!r} has {int(totals[largest])}"
        raise NothingToAskError(
            f"{size} arms that have the same label were asked for, but no label has so many: {found}"
        )
    return enough


def best_group(
    groups: Sequence[int], within: EligibilityIn, over_pool: OverPool, rule: BoundRule, size: int
) -> int:
    """The group whose arms have the highest bounds by this rule, on average over as many as the batch has."""
    none = np.empty(0, dtype=np.int64)

    def average(group: int) -> float:
        found = highest(over_pool, rule, within(group).allowance, none, size)
        return float(found.bounds.mean())

    return max(groups, key=average)


def group_of_most(groups: Sequence[int], same: Groups, arms: Ints) -> int:
    """The group that holds most of these arms."""
    held = np.bincount(same.numbers[arms], minlength=len(same.labels))
    return max(groups, key=lambda group: int(held[group]))
