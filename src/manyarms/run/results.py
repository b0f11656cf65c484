"""New results: rewards are checked, failures are marked, and results are ordered for the next feedback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.errors import InvalidParameterError, InvalidRewardError
from manyarms.support.validation import Floats, as_array, finite_rewards, positive

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class ToldResult:
    """A reward to be used at the next feedback; `order` sorts results by ticket, unasked ones last."""

    order: tuple[int, int]
    arm: int
    utility: float  # the reward, or its negative where rewards are minimised
    weight: float = 1.0  # λ/noise² of this result, 1 if its noise is the policy's

    def to_plain(self) -> list[Any]:
        """The result as a list of four numbers, or five if it has a weight of its own."""
        return [*self.order, self.arm, self.utility, *([] if self.weight == 1.0 else [self.weight])]

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> ToldResult:
        """The result that `to_plain` wrote."""
        kind, number, arm, utility, *weight = plain
        return cls((kind, number), arm, utility, *weight)


def noise_weights(noise_std: ArrayLike | None, ridge: float | None, expected: int) -> Floats:
    """λ/noise² of each of the expected results, from one standard deviation for all or one for each."""
    if noise_std is None or ridge is None:
        return np.ones(expected)
    given = as_array("noise_std", noise_std)
    if given.shape not in ((), (expected,)):
        raise InvalidParameterError("noise_std", noise_std, f"one positive number, or {expected} of them")
    stds = np.array([positive("noise_std", std) for std in given.reshape(-1).tolist()])
    return np.broadcast_to(ridge / stds**2, (expected,)).copy()


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
