"""Checks made once, at the border, so that the numerical code inside can trust its inputs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.errors import InvalidParameterError, InvalidRewardError, UnknownArmError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def _number(name: str, value: Any, fits: Callable[[float], bool], rule: str) -> float:
    """`value` as a float when it is a finite number that `fits`."""
    if isinstance(value, bool):
        raise InvalidParameterError(name, value, rule)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidParameterError(name, value, rule) from None
    if not math.isfinite(number) or not fits(number):
        raise InvalidParameterError(name, value, rule)
    return number


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    return _number(name, value, lambda x: x > 0, "a positive finite number")


def non_negative(name: str, value: Any) -> float:
    """A finite number, zero or above."""
    return _number(name, value, lambda x: x >= 0, "a non-negative finite number")


def at_least_one(name: str, value: Any) -> float:
    """A finite number, one or above."""
    return _number(name, value, lambda x: x >= 1, "a finite number of at least 1")


def probability(name: str, value: Any) -> float:
    """A number strictly between zero and one."""
    return _number(name, value, lambda x: 0 < x < 1, "strictly between 0 and 1")


def share(name: str, value: Any) -> float:
    """A number between zero and one, both allowed."""
    return _number(name, value, lambda x: 0 <= x <= 1, "between 0 and 1")


def count(name: str, value: Any, minimum: int = 1) -> int:
    """A whole number of at least `minimum`."""
    rule = f"a whole number of at least {minimum}"
    if isinstance(value, bool):
        raise InvalidParameterError(name, value, rule)
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidParameterError(name, value, rule) from None
    if number < minimum:
        raise InvalidParameterError(name, value, rule)
    return number


def arm_indices(arms: ArrayLike, n_arms: int) -> Ints:
    """`arms` as a vector of integer indices into a pool of `n_arms`; negative indices are refused."""
    array = np.atleast_1d(np.asarray(arms))
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise UnknownArmError(f"arms must be a vector of integer indices, got {arms!r}")
    wrong = (array < 0) | (array >= n_arms)
    if wrong.any():
        raise UnknownArmError(
            f"arm {array[wrong][0]} is not in the pool of {n_arms} arms (0 to {n_arms - 1})"
        )
    return array.astype(np.int64)


def finite_rewards(rewards: ArrayLike, expected: int) -> Floats:
    """`rewards` as a vector of `expected` finite floats."""
    try:
        array = np.atleast_1d(np.asarray(rewards, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidRewardError(f"rewards must be numbers, got {rewards!r}") from None
    if array.shape != (expected,):
        raise InvalidRewardError(f"{expected} rewards expected, one per arm, got shape {array.shape}")
    wrong = ~np.isfinite(array)
    if wrong.any():
        position = int(np.flatnonzero(wrong)[0])
        raise InvalidRewardError(f"reward {array[position]} at position {position} is not finite")
    return array
