"""Which arms are eligible for a batch, and how often each may be chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.errors import BudgetSpentError, CostLimitError, InvalidParameterError, NothingToAskError
from manyarms.pool.allowance import Allowance
from manyarms.pool.costs import CostLimit
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from manyarms.run.batch_structure import FREE, CheckedStructure
from manyarms.run.tickets import Tickets
from manyarms.support.validation import Ints, as_array, count

REPEATS = ("allow", "forbid", "fresh")


def repeats_setting(given: object) -> str | int:
    """The checked setting: "allow", "forbid", "fresh", or the largest number of pulls of one arm."""
    if isinstance(given, str):
        if given not in REPEATS:
            rule = "'allow', 'forbid', 'fresh', or the largest number of pulls of one arm"
            raise InvalidParameterError("repeats", given, rule)
        return given
    return count("repeats", given)


@dataclass(frozen=True)
class Eligibility:
    """For one batch: how often each arm may be chosen, and which arms must be chosen first.

    `first` are the untried arms, if there are fewer of them than the batch needs; otherwise it is empty.
    `free` is the allowance without the limit on the cost of the batch, if there is one.
    """

    allowance: Allowance  # the number of times that each arm may be chosen
    first: Ints
    used_up: bool  # whether arms may be excluded because of earlier pulls or failures
    free: Allowance | None = None
    cost_limit: CostLimit | None = None

    @classmethod
    def of_everything(cls, n_arms: int) -> Eligibility:
        """Every arm may be chosen, any number of times."""
        return cls(Allowance(n_arms), np.empty(0, dtype=np.int64), False)

    def check(self, limit: int | None, exactly: bool) -> None:
        """Raise an error if no arm may be chosen, or fewer than a batch of exactly this size needs."""
        allowance = self.allowance if self.free is None else self.free
        possible = allowance.total
        if possible <= 0:
            raise NothingToAskError(
                "no arm may be chosen: every arm has been used up, has failed too often or is not eligible"
                if self.used_up
                else "no arm is eligible"
            )
        if exactly and limit is not None and possible < limit:
            reasons = ["have been used up", "have failed too often"] if self.used_up else []
            reasons += (
                ["would exceed a limit on arms with the same label"] if allowance.has_group_limits else []
            )
            others = ", ".join([*reasons, "are not eligible"])
            raise NothingToAskError(
                f"{limit} arms were asked for, but only {int(possible)} pulls are allowed: "
                f"the other arms {' or '.join(others.rsplit(', ', 1))}"
            )
        if exactly and limit is not None and not allowance.allows(limit):
            raise NothingToAskError(
                f"{limit} arms were asked for, but no {limit} arms satisfy all limits on arms with the same "
                "label together: ask for fewer, or raise a limit"
            )
        if self.cost_limit is not None:
            self._check_costs(self.cost_limit, limit if exactly and limit is not None else 1)

    def _check_costs(self, limit: CostLimit, size: int) -> None:
        one, together = self.allowance.cheapest_total(1), self.allowance.cheapest_total(size)
        if one > limit.room:
            text = f"{limit.source}, but the cheapest arm that may be chosen costs {one:.6g}"
            raise (BudgetSpentError if limit.of_budget else CostLimitError)(text)
        if together > limit.room:
            raise CostLimitError(
                f"{size} arms were asked for, which cost at least {together:.6g} together, "
                f"but {limit.source}: ask for fewer, or for at most so many"
            )

    def ended_by_costs(self, arms: list[int]) -> bool:
        """Whether more arms could have been chosen after these if they had cost nothing."""
        if self.free is None:
            return False
        left = self.free.copy()
        left.take(arms)
        return left.n_open > 0

    @property
    def others(self) -> Allowance:
        """The number of times that each arm may be chosen after those that come first; only to be read."""
        if not len(self.first):
            return self.allowance
        others = self.allowance.copy()
        others.close(self.first.tolist())
        return others


def eligibility(
    pool: Pool,
    history: History,
    tickets: Tickets,
    *,
    repeats: str | int,
    max_failures: int | None,
    eligible: Any,
    size: int,
    structure: CheckedStructure = FREE,
    group: int | None = None,
    cost_limit: CostLimit | None = None,
) -> Eligibility:
    """The eligibility for a batch of at least `size` arms; the settings are those of `Optimizer`.

    `group` is the group that all arms must belong to, one of those of `structure.same`. Costs do not change
    which arms are untried: under "fresh", an untried arm that costs too much does not let others come again.
    """
    no_arms, n_arms = np.empty(0, dtype=np.int64), pool.n_arms
    used_up = repeats != "allow" or bool(tickets.failures)
    mask = _mask_in_group(eligible, pool, structure, group)
    most_failures = math.inf if max_failures is None else max_failures
    failed = {arm: 0.0 for arm, times in tickets.failures.items() if times >= most_failures}

    def allowance(times: float, exceptions: dict[int, float], limit: CostLimit | None = None) -> Allowance:
        return Allowance(
            n_arms, times, exceptions=exceptions, mask=mask, limits=structure.limits, needed=size,
            cost_limit=limit,
        )  # fmt: skip

    def settled(times: float, exceptions: dict[int, float]) -> Eligibility:
        free = allowance(times, exceptions)
        if cost_limit is None:
            return Eligibility(free, no_arms, used_up)
        return Eligibility(allowance(times, exceptions, cost_limit), no_arms, used_up, free, cost_limit)

    if repeats not in ("allow", "fresh"):
        most = 1.0 if repeats == "forbid" else float(repeats)
        return settled(most, {arm: most - pulls for arm, pulls in _pulls(history, tickets).items()} | failed)
    if repeats == "allow":
        return settled(math.inf, failed)
    tried = dict.fromkeys([*history.arms.tolist(), *tickets.pending.values()], 0.0)
    fresh = allowance(1.0, tried | failed)
    if fresh.allows(size):
        return settled(1.0, tried | failed)
    again = settled(math.inf, failed)
    first = again.allowance.copy().take_possible(fresh.open_arms().tolist())
    return replace(again, first=np.array(first, dtype=np.int64))


def _pulls(history: History, tickets: Tickets) -> dict[int, float]:
    """The number of pulls of each arm, including those that are pending."""
    pulls = dict(zip(history.arms.tolist(), history.counts.tolist(), strict=True))
    for arm, times in tickets.pending_counts().items():
        pulls[arm] = pulls.get(arm, 0.0) + times
    return pulls


def _mask_in_group(
    eligible: Any, pool: Pool, structure: CheckedStructure, group: int | None
) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    """The arms that are eligible and in this group; None: all of them."""
    mask = None if eligible is None else _mask(eligible, pool)
    if group is None or structure.same is None:
        return mask
    inside = np.asarray(structure.same.numbers == group)
    return inside if mask is None else np.asarray(mask & inside)


def _mask(eligible: Any, pool: Pool) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    array = as_array("eligible", eligible)
    if array.dtype == np.dtype(bool):
        if array.shape != (pool.n_arms,):
            rule = f"a mask over all {pool.n_arms} arms, arm indices or ids"
            raise InvalidParameterError("eligible", array.shape, rule)
        return array
    if array.shape == (pool.n_arms,) and pool.n_arms > 2 and np.isin(array, (0, 1)).all():
        raise InvalidParameterError("eligible", "zeros and ones", "a mask of True and False, or indices")
    mask = np.zeros(pool.n_arms, dtype=bool)
    mask[pool.arms_of(eligible)] = True
    return mask
