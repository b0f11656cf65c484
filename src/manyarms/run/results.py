"""New results: rewards are checked, failures are marked, and results are ordered for the next feedback."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.errors import InvalidParameterError, InvalidRewardError
from manyarms.posterior.own_noise import OwnNoise
from manyarms.support.validation import Floats, as_array, finite_rewards, positive

Flags = NDArray[np.bool_]
SMALLEST_NOISE = 1e-100  # beyond it and its inverse, squares could overflow


@dataclass(frozen=True)
class ToldResult:
    """A reward to be used at the next feedback; `order` sorts results by ticket, unasked ones last."""

    order: tuple[int, int]
    arm: int
    utility: float  # the reward, or its negative where rewards are minimised
    weight: float = 1.0  # λ/noise² of this result, 1 if its noise is the policy's; with a learned noise, the
    # number of measurements that it is the mean of
    noise_std: float | None = None  # in reward units, if it is stated and the model is learned

    def to_plain(self) -> list[Any]:
        """The result as a list of four numbers, five if it has a weight, or six if it has a stated noise."""
        stated = [] if self.noise_std is None else [self.noise_std]
        weight = [self.weight] if stated or self.weight != 1.0 else []
        return [*self.order, self.arm, self.utility, *weight, *stated]

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> ToldResult:
        """The result that `to_plain` wrote."""
        kind, number, arm, utility, *noise = plain
        return cls((kind, number), arm, utility, *noise)


def own_noise(noise_std: Any, replicates: Any, expected: int) -> OwnNoise:
    """The noise of each of the expected results.

    noise_std: one standard deviation for all or one for each; None, or None for some, if it is not stated.
    replicates: one number of measurements for all or one for each; None is 1.
    """
    stds = _for_each("noise_std", noise_std, expected, np.nan)
    numbers = _for_each("replicates", replicates, expected, 1.0)
    for std, number in zip(stds.tolist(), numbers.tolist(), strict=True):
        if number != round(number):
            raise InvalidParameterError("replicates", number, "a whole number of measurements")
        if number != 1.0 and not math.isnan(std):
            rule = f"left out where noise_std ({std:g}) is given, which is the noise of the result itself"
            raise InvalidParameterError("replicates", int(number), rule)
    return OwnNoise(numbers, stds)


def _for_each(name: str, given: Any, expected: int, missing: float) -> Floats:
    if given is None:
        return np.full(expected, missing)
    rule = f"one positive number, or {expected} of them"
    if isinstance(given, list | tuple):
        given = np.array([None if each is None else each for each in given], dtype=object)
    array = as_array(name, given)
    if array.shape not in ((), (expected,)):
        raise InvalidParameterError(name, given, rule)
    numbers = [missing if each is None else _in_range(name, each) for each in array.reshape(-1).tolist()]
    return np.broadcast_to(np.array(numbers, dtype=np.float64), (expected,)).copy()


def _in_range(name: str, given: Any) -> float:
    number = positive(name, given)
    if not SMALLEST_NOISE <= number <= 1.0 / SMALLEST_NOISE:
        raise InvalidParameterError(name, given, f"between {SMALLEST_NOISE:g} and {1.0 / SMALLEST_NOISE:g}")
    return number


def failure_flags(failed: bool | Sequence[bool], expected: int) -> Flags:
    """Whether each of the expected results is a failure, from one flag for all or one for each."""
    if failed is False:  # the common case
        return np.zeros(expected, dtype=bool)
    flags = as_array("failed", failed)
    if flags.dtype != np.dtype(bool) or flags.shape not in ((), (expected,)):
        raise InvalidParameterError("failed", failed, f"True, False, or a list of {expected} of them")
    return np.broadcast_to(flags, (expected,))


def reward_values(rewards: ArrayLike | None, flags: Flags) -> Floats:
    """Rewards as floats, with NaN for failed trials; the given rewards of these are ignored."""
    if rewards is None:
        if not flags.all():
            raise InvalidRewardError(
                f"{int((~flags).sum())} results have no reward and are not marked as failed"
            )
        return np.full(len(flags), np.nan)
    if not flags.any():
        return finite_rewards(rewards, len(flags))
    listed = list(rewards) if isinstance(rewards, Iterable) else [rewards]
    if len(listed) != len(flags):
        raise InvalidRewardError(f"{len(flags)} rewards expected, one per arm, got {len(listed)}")
    values = np.full(len(flags), np.nan)
    told: list[Any] = [value for value, lost in zip(listed, flags, strict=True) if not lost]
    values[~flags] = finite_rewards(told, len(told))
    return values
