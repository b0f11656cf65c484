"""Input checks, made once where data enter, so that the numerical code can rely on them."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.errors import InvalidParameterError, InvalidRewardError, UnknownArmError, shown

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def _number(name: str, value: Any, fits: Callable[[float], bool], rule: str) -> float:
    """`value` as a float, if it is a finite number for which `fits` is true."""
    if isinstance(value, bool | np.bool_ | str | bytes | np.complexfloating):  # float() would accept these
        raise InvalidParameterError(name, value, rule)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameterError(name, value, rule) from None
    if not math.isfinite(number) or not fits(number):
        raise InvalidParameterError(name, value, rule)
    return number


def finite(name: str, value: Any) -> float:
    """A finite number."""
    return _number(name, value, lambda _x: True, "a finite number")


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
    """A number between zero and one, inclusive."""
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


def masked_entries(values: Any) -> NDArray[np.bool_] | None:
    """The mask of a numpy masked array, or None if nothing is masked or it is not a masked array."""
    masked = sys.modules.get("numpy.ma")  # not imported: then no masked array can exist
    if masked is None or not isinstance(values, masked.MaskedArray):
        return None
    mask = np.asarray(masked.getmaskarray(values))
    return mask if mask.any() else None


def inexact_integer(array: NDArray[Any]) -> int | None:
    """An entry of an integer array beyond ±2⁵³, where float64 cannot hold every integer, or None."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or not array.size:
        return None
    extreme = int(array.max())
    if extreme <= 2**53:
        extreme = int(array.min())
    return extreme if abs(extreme) > 2**53 else None


def is_missing(value: Any) -> bool:
    """True for None, NaN, and the missing values of pandas (`NA`, `NaT`)."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, Decimal):  # math.isnan raises on a signalling NaN
        return value.is_nan()
    return isinstance(value, float | np.floating) and math.isnan(value)


def as_array(name: str, values: Any) -> NDArray[Any]:
    """`values` as an array; nested lists of unequal lengths are refused."""
    try:
        return np.asarray(values)
    except ValueError:
        raise InvalidParameterError(name, values, "a plain array or list") from None


def arm_indices(arms: ArrayLike, n_arms: int) -> Ints:
    """`arms` as a vector of integer indices into a pool of `n_arms`; negative indices are refused."""
    if type(arms) is np.ndarray and arms.shape == (1,) and arms.dtype == np.int64 and 0 <= arms[0] < n_arms:
        return arms.copy()  # the common case of a run that chooses one arm at a time
    try:
        array = np.atleast_1d(np.asarray(arms))
    except ValueError:  # ragged
        raise UnknownArmError(f"arms must be a vector of integer indices, got {shown(arms)}") from None
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or masked_entries(arms) is not None:
        raise UnknownArmError(f"arms must be a vector of integer indices, got {shown(arms)}")
    wrong = (array < 0) | (array >= n_arms)
    if wrong.any():
        raise UnknownArmError(
            f"arm {array[wrong][0]} is not in the pool of {n_arms} arms (0 to {n_arms - 1})"
        )
    return array.astype(np.int64)


def arm_index(arm: Any, n_arms: int) -> int:
    """The index of one arm, checked."""
    indices = arm_indices(arm, n_arms)
    if np.ndim(arm) != 0:
        raise UnknownArmError(f"the index of one arm is needed, got {shown(arm)}")
    return int(indices[0])


def finite_rewards(rewards: ArrayLike, expected: int) -> Floats:
    """`rewards` as a vector of `expected` finite floats."""
    try:
        given = np.asarray(rewards)
        if given.dtype.kind not in "biufO":  # numpy would convert strings and dates to numbers
            raise TypeError
        if given.dtype == np.float64:  # the usual case
            array = np.atleast_1d(given.copy())
        else:
            with np.errstate(over="ignore"):
                array = np.atleast_1d(given.astype(np.float64))
    except (TypeError, ValueError, OverflowError):
        raise InvalidRewardError(f"rewards must be finite numbers, got {shown(rewards)}") from None
    if array.shape != (expected,):
        raise InvalidRewardError(f"{expected} rewards expected, one per arm, got shape {array.shape}")
    hidden = masked_entries(rewards)
    wrong = ~np.isfinite(array) if hidden is None else hidden | ~np.isfinite(array)
    if wrong.any():
        position = int(np.flatnonzero(wrong)[0])
        value = array[position] if hidden is None or not hidden[position] else "masked"
        raise InvalidRewardError(f"reward {value} at position {position} is not finite")
    return array
