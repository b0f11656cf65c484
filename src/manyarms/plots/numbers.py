"""Numbers as text, and ranges of axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
AIR = 0.05  # margin beyond the values, as a share of their range
NARROWEST = 1e-7  # smallest range relative to the magnitude; less would need unreadable tick labels
LARGEST, SMALLEST = 1e300, 1e-280  # ends of an axis, and its length, that a browser can still divide


def number(value: float | None, digits: int = 4) -> str:
    """An integer in full, or `digits` significant digits, in scientific notation if very large or small."""
    if value is None or not math.isfinite(value):
        return "–"
    if isinstance(value, int) or value == 0:
        text = f"{value:,.0f}"
    elif not 1e-3 <= abs(value) < 1e7:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        text = f"{mantissa}×10{str(int(exponent)).translate(SUPERSCRIPTS)}"
    else:
        whole = abs(value) >= 10 ** (digits - 1) - 0.05
        text = f"{value:,.0f}" if whole else f"{value:#.{digits}g}"
    return text.replace("-", "−")


def percent(share: float) -> str:
    """A share as a whole percentage."""
    return f"{100 * share:.0f} %"


def usable(value: float | None) -> float | None:
    """The value if it is finite, otherwise None."""
    return None if value is None or not math.isfinite(value) else value


def thinned(items: Sequence[T], most: int) -> list[T]:
    """At most `most` items, evenly spaced, including the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def central(values: Iterable[float]) -> tuple[float, float] | None:
    """The range of the values, or of their central 98 % if a few outliers would hide the rest."""
    ordered = sorted(values)
    if not ordered:
        return None
    stray = len(ordered) // 100
    low, high = ordered[stray], ordered[len(ordered) - 1 - stray]
    whole = ordered[-1] - ordered[0]
    return (low, high) if 0 < 10 * (high - low) < whole else (ordered[0], ordered[-1])


def axis_range(values: Iterable[float]) -> tuple[float, float]:
    """The ends of an axis that shows these values, with some air, and never too short to be drawn."""
    shown = [min(max(value, -LARGEST), LARGEST) for value in values]
    low, high = min(shown, default=0.0), max(shown, default=1.0)
    least = max(NARROWEST * max(abs(low), abs(high)), SMALLEST)
    if high - low < least:
        middle, reach = 0.5 * low + 0.5 * high, 0.5 * max(abs(high), least / NARROWEST) or 1.0
        return middle - reach, middle + reach
    air = AIR * (high - low)
    return low - air, high + air
