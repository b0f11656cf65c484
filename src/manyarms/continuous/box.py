"""The box: a continuous domain, one interval per axis, of real or whole numbers, some on a logarithmic scale.

A *point* of a box is in the user's units. Its *coordinates* are between 0 and 1 on every axis; cells are cut,
and points drawn, in coordinates. An axis on a logarithmic scale has coordinates that are linear in the
logarithm. An axis of the whole numbers a, …, b is the interval from a − ½ to b + ½ in which every number owns
an interval of length one, so that rounding the middle of a cell gives a number that the cell owns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from manyarms.errors import InvalidParameterError
from manyarms.support.frozen import replace_field
from manyarms.support.validation import Floats, as_array

MOST_INTEGERS = 10**9  # on one axis: a cell's ends are exact in double precision well beyond it


@dataclass(frozen=True, init=False)
class Box:
    """All points with lower ≤ x ≤ upper, as the domain of `maximize`, `minimize` and `Optimizer`.

    lower, upper: the ends of the interval of each axis.
    integer: the axes that hold whole numbers only: True or False for all axes, one flag per axis, or the
        numbers of the axes.
    log: the axes on a logarithmic scale, given in the same way; their intervals must be above 0.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    integer: tuple[bool, ...] = ()
    log: tuple[bool, ...] = ()

    domain: ClassVar[str] = "box"  # the name under which `Optimizer` finds the class of its runs

    def __init__(self, lower: Any, upper: Any, *, integer: Any = False, log: Any = False) -> None:
        low, high = _ends("lower", lower), _ends("upper", upper)
        if len(low) != len(high):
            raise InvalidParameterError("upper", upper, f"{len(low)} numbers, as many as lower has")
        replace_field(self, "integer", _flags("integer", integer, len(low)))
        replace_field(self, "log", _flags("log", log, len(low)))
        replace_field(self, "lower", low)
        replace_field(self, "upper", high)
        for axis in range(len(low)):
            self._check_axis(axis)

    def _check_axis(self, axis: int) -> None:
        low, high, name = self.lower[axis], self.upper[axis], f"upper[{axis}]"
        if not low < high:
            raise InvalidParameterError(name, high, f"above lower[{axis}] = {low:g}")
        if not np.isfinite(high - low):
            raise InvalidParameterError(name, high, "so close to lower that the difference is finite")
        if self.log[axis] and low <= 0:
            rule = "above 0, because this axis is on a logarithmic scale"
            raise InvalidParameterError(f"lower[{axis}]", low, rule)
        if self.integer[axis]:
            for end, value in (("lower", low), ("upper", high)):
                if value != round(value):
                    rule = "a whole number, because this axis is one of integers"
                    raise InvalidParameterError(f"{end}[{axis}]", value, rule)
            if high - low >= MOST_INTEGERS or max(abs(low), abs(high)) > 2.0**50:
                rule = f"such that the axis has at most {MOST_INTEGERS:,} integers, all below 2⁵⁰"
                raise InvalidParameterError(name, high, rule)

    @property
    def n_features(self) -> int:
        """d, the number of axes."""
        return len(self.lower)

    def __len__(self) -> int:
        return self.n_features

    # ------------------------------------------------------------------ points and coordinates

    @cached_property
    def _scaled_ends(self) -> tuple[Floats, Floats]:
        """The ends of the axes that correspond to the coordinates 0 and 1, on the scale of the axes."""
        low, high = np.array(self.lower), np.array(self.upper)
        whole, log = np.array(self.integer), np.array(self.log)
        low, high = np.where(whole, low - 0.5, low), np.where(whole, high + 0.5, high)
        low[log], high[log] = np.log(low[log]), np.log(high[log])
        return low, high

    def coordinates(self, points: Any) -> Floats:
        """The coordinates of the rows of `points`, which need not be in the box."""
        low, high = self._scaled_ends
        scaled = np.array(points, dtype=np.float64)
        if any(self.log):
            scaled[:, self.log] = np.log(scaled[:, self.log])
        return np.asarray((scaled - low) / (high - low))

    def relaxed(self, coordinates: Floats) -> Floats:
        """The points at these coordinates, with axes of integers not rounded."""
        low, high = self._scaled_ends
        points = low + np.asarray(coordinates) * (high - low)
        if any(self.log):
            points[:, self.log] = np.exp(points[:, self.log])
        return np.asarray(points)

    def points(self, coordinates: Floats) -> Floats:
        """The points of the box at these coordinates: rounded on axes of integers, never outside."""
        points = self.relaxed(coordinates)
        if any(self.integer):
            points[:, self.integer] = np.round(points[:, self.integer])
        return np.asarray(np.clip(points, self.lower, self.upper))

    def contains(self, points: Any) -> Any:
        """Whether each row of `points` is a point of the box."""
        given, whole = np.asarray(points, dtype=np.float64), np.array(self.integer)
        inside = ((given >= self.lower) & (given <= self.upper)).all(axis=1)
        return inside & (given[:, whole] == np.round(given[:, whole])).all(axis=1)

    def checked(self, points: Any) -> Floats:
        """`points` as an array of rows; an error if any of them is not in the box."""
        given = as_array("points", points)
        if given.dtype.kind not in "iuf" or given.ndim not in (1, 2) or given.shape[-1] != len(self):
            raise InvalidParameterError("points", points, f"rows of {len(self)} numbers")
        rows = np.atleast_2d(given.astype(np.float64))
        inside = self.contains(rows)
        if not inside.all():
            raise InvalidParameterError("points", rows[~inside][0].tolist(), f"inside {self!r}")
        return rows

    # ------------------------------------------------------------------ cells

    def cuts(self, axis: int, low: float, high: float, parts: int) -> Floats:
        """The coordinates at which [low, high] of an axis is cut into at most `parts` parts of equal size.

        Between whole numbers there are fewer cuts, or none, if the interval owns fewer than `parts` of them.
        """
        if not self.integer[axis]:
            cuts = low + (high - low) * np.arange(1, parts) / parts
            return np.asarray(cuts[(cuts > low) & (cuts < high)])
        first, last = self.integers(axis, low, high)
        held = last - first + 1
        starts = first + -(-held * np.arange(1, parts) // parts)  # the first number of each further part
        starts = np.unique(starts[(starts > first) & (starts <= last)])
        return self.at_values(axis, starts.astype(np.float64) - 0.5)

    def integers(self, axis: int, low: float, high: float) -> tuple[int, int]:
        """The first and the last whole number that the interval [low, high] of an axis owns."""
        ends = np.full((2, len(self)), 0.5)
        ends[:, axis] = low, high
        values = self.relaxed(ends)[:, axis]
        return round(float(values[0]) + 0.5), round(float(values[1]) - 0.5)

    def at_values(self, axis: int, values: Floats) -> Floats:
        """The coordinates of these values of one axis."""
        rows = np.full((len(values), len(self)), 1.0)
        rows[:, axis] = values
        return np.asarray(self.coordinates(rows)[:, axis])

    # ------------------------------------------------------------------ saving

    def to_plain(self) -> dict[str, Any]:
        """The box as lists."""
        return {name: list(getattr(self, name)) for name in ("lower", "upper", "integer", "log")}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Box:
        """The box that `to_plain` wrote."""
        return cls(plain["lower"], plain["upper"], integer=plain["integer"], log=plain["log"])


def _ends(name: str, values: Any) -> tuple[float, ...]:
    rule = "a sequence of finite numbers, one per axis"
    given = as_array(name, values)
    if given.dtype.kind not in "iuf" or given.ndim != 1 or not len(given):
        raise InvalidParameterError(name, values, rule)
    ends = given.astype(np.float64)
    if not np.isfinite(ends).all():
        raise InvalidParameterError(name, values, rule)
    return tuple((ends + 0.0).tolist())


def _flags(name: str, given: Any, n_axes: int) -> tuple[bool, ...]:
    """One flag per axis from a flag for all, a sequence of flags, or the numbers of some axes."""
    if isinstance(given, bool | np.bool_):
        return (bool(given),) * n_axes
    rule = f"True, False, {n_axes} of them, or numbers of axes from 0 to {n_axes - 1}"
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidParameterError(name, given, rule)
    values = list(given)
    if values and all(isinstance(value, bool | np.bool_) for value in values):
        if len(values) == n_axes:
            return tuple(bool(value) for value in values)
    elif all(isinstance(value, int | np.integer) and 0 <= value < n_axes for value in values):
        return tuple(axis in values for axis in range(n_axes))
    raise InvalidParameterError(name, given, rule)
