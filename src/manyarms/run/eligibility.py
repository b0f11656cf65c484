"""Which arms may be chosen in a batch, and how often, after those tried, out, failed and left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from manyarms.errors import InvalidParameterError, NothingToAskError
from manyarms.posterior.history import History
from manyarms.run.tickets import Ledger
from manyarms.support.validation import Floats, Ints, arm_indices, as_array, count


def repeats_setting(given: object) -> str | int:
    """ "allow", "forbid", "fresh", or how often an arm may be pulled at most."""
    return (
        given if isinstance(given, str) and given in ("allow", "forbid", "fresh") else count("repeats", given)
    )


@dataclass(frozen=True)
class Allowance:
    """For one batch: how often it may hold each arm, and which arms come first.

    Those are the last untried ones, where fresh arms run out and the batch needs more.
    """

    times: Floats
    first: Ints
    used_up: bool  # whether any arm may be left out for what has become of it, not only as not eligible

    def check(self, limit: int | None, exactly: bool) -> None:
        """An error where no arm may be chosen, or fewer than a batch of exactly this size needs."""
        possible = np.maximum(self.times, 0.0).sum()
        if possible <= 0:
            raise NothingToAskError(
                "no arm may be chosen: all are used up, failed too often or not eligible"
                if self.used_up
                else "no arm is eligible"
            )
        if exactly and limit is not None and possible < limit:
            raise NothingToAskError(f"{limit} arms asked for, only {int(possible)} pulls are allowed")

    @property
    def others(self) -> Floats:
        """How often each arm may be chosen behind those that come first."""
        times = self.times.copy()
        times[self.first] = 0.0
        return times


def allowance(
    history: History,
    ledger: Ledger,
    repeats: str | int,
    max_failures: int | None,
    eligible: ArrayLike | None,
    size: int,
) -> Allowance:
    """For a batch of at least this size; the settings are those of `Optimizer`."""
    times = np.full(history.n_arms, np.inf)
    if repeats not in ("allow", "fresh"):
        times[:] = 1.0 if repeats == "forbid" else float(repeats)
        times[history.arms] -= history.counts
        for arm, pulls in ledger.pending_counts().items():
            times[arm] -= pulls
    if max_failures is not None:
        for arm, failed in ledger.failures.items():
            if failed >= max_failures:
                times[arm] = 0.0
    if eligible is not None:
        times[~_mask(eligible, history.n_arms)] = 0.0
    nobody = np.empty(0, dtype=np.int64)
    used_up = repeats != "allow" or bool(ledger.failures)
    if repeats != "fresh":
        return Allowance(times, nobody, used_up)
    fresh = np.minimum(times, 1.0)
    fresh[history.arms] = 0.0
    fresh[list(ledger.pending.values())] = 0.0
    untried = np.flatnonzero(fresh > 0)
    enough = len(untried) >= size
    return Allowance(fresh, nobody, used_up) if enough else Allowance(times, untried, used_up)


def _mask(eligible: ArrayLike, n_arms: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    array = as_array("eligible", eligible)
    if array.dtype == np.dtype(bool):
        if array.shape != (n_arms,):
            raise InvalidParameterError(
                "eligible", array.shape, f"a mask over all {n_arms} arms or arm indices"
            )
        return array
    if array.shape == (n_arms,) and n_arms > 2 and np.isin(array, (0, 1)).all():
        raise InvalidParameterError("eligible", "zeros and ones", "a mask of True and False, or indices")
    mask = np.zeros(n_arms, dtype=bool)
    mask[arm_indices(array, n_arms)] = True
    return mask
