"""Which arms are eligible for a batch, and how often each may be chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.errors import InvalidParameterError, NothingToAskError
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from manyarms.run.tickets import Tickets
from manyarms.support.validation import Floats, Ints, as_array, count

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
    """

    times: Floats  # the number of times that each arm may be chosen
    first: Ints
    used_up: bool  # whether arms may be excluded because of earlier pulls or failures

    def check(self, limit: int | None, exactly: bool) -> None:
        """Raise an error if no arm may be chosen, or fewer than a batch of exactly this size needs."""
        possible = np.maximum(self.times, 0.0).sum()
        if possible <= 0:
            raise NothingToAskError(
                "no arm may be chosen: every arm has been used up, has failed too often or is not eligible"
                if self.used_up
                else "no arm is eligible"
            )
        if exactly and limit is not None and possible < limit:
            raise NothingToAskError(
                f"{limit} arms were asked for, but only {int(possible)} pulls are allowed"
            )

    @property
    def others(self) -> Floats:
        """The number of times that each arm may be chosen after those that come first."""
        times = self.times.copy()
        times[self.first] = 0.0
        return times


def eligibility(
    pool: Pool,
    history: History,
    tickets: Tickets,
    *,
    repeats: str | int,
    max_failures: int | None,
    eligible: Any,
    size: int,
) -> Eligibility:
    """The eligibility for a batch of at least `size` arms; the settings are those of `Optimizer`."""
    times = np.full(pool.n_arms, np.inf)
    if repeats not in ("allow", "fresh"):
        times[:] = 1.0 if repeats == "forbid" else float(repeats)
        times[history.arms] -= history.counts
        for arm, pulls in tickets.pending_counts().items():
            times[arm] -= pulls
    if max_failures is not None:
        for arm, failed in tickets.failures.items():
            if failed >= max_failures:
                times[arm] = 0.0
    if eligible is not None:
        times[~_mask(eligible, pool)] = 0.0
    no_arms = np.empty(0, dtype=np.int64)
    used_up = repeats != "allow" or bool(tickets.failures)
    if repeats != "fresh":
        return Eligibility(times, no_arms, used_up)
    fresh = np.minimum(times, 1.0)
    fresh[history.arms] = 0.0
    fresh[list(tickets.pending.values())] = 0.0
    untried = np.flatnonzero(fresh > 0)
    enough = len(untried) >= size
    return Eligibility(fresh, no_arms, used_up) if enough else Eligibility(times, untried, used_up)


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
