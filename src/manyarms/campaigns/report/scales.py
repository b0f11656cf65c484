"""Number formatting, and axis scales with round ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
AIR = 0.05  # margin beyond the values, as a share of their range
NARROWEST = 1e-7  # smallest range relative to the magnitude; less would need unreadable tick labels


def power(exponent: int) -> str:
    """The text 10ⁿ."""
    return f"10{str(exponent).translate(SUPERSCRIPTS)}"


def number(value: float | None) -> str:
    """An integer in full, or four significant digits, in scientific notation if very large or small."""
    if value is None or not math.isfinite(value):
        return "–"
    if isinstance(value, int) or value == 0:
        text = f"{value:,.0f}"
    elif not 1e-3 <= abs(value) < 1e7:
        mantissa, exponent = f"{value:.3e}".split("e")
        text = f"{mantissa}×{power(int(exponent))}"
    else:
        text = f"{value:,.0f}" if abs(value) >= 999.95 else f"{value:#.4g}"
    return text.replace("-", "−")


def percent(share: float) -> str:
    """A share as a whole percentage."""
    return f"{100 * share:.0f} %"


@dataclass(frozen=True)
class AxisScale:
    """A range of numbers in units of 10^exponent, which also suits values such as 1e-300 and 1e300."""

    low: float
    high: float
    exponent: int = 0
    whole: bool = False

    def share(self, value: float) -> float:
        """The relative position of a value: 0 at the low end of the range and 1 at the high end."""
        return (value / 10.0**self.exponent - self.low) / (self.high - self.low)

    def ticks(self, wanted: int) -> list[tuple[float, str]]:
        """About `wanted` round numbers: the relative position and label of each."""
        step = round_step((self.high - self.low) / wanted)
        if self.whole and not self.exponent:
            step = 5.0 if step == 2.5 else max(1.0, step)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        digits += 0 if math.isclose(round(step, digits), step) else 1
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [
            (
                (place * step - self.low) / (self.high - self.low),
                f"{place * step + 0.0:,.{digits}f}".replace("-", "−"),
            )
            for place in range(first, last + 1)
        ]

    @property
    def unit(self) -> str:
        """The unit of the tick labels, or an empty string."""
        return f"×{power(self.exponent)}" if self.exponent else ""


def round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5, 5 and 10 times a power of ten that is at least `least`."""
    base = 10.0 ** math.floor(math.log10(least))
    return next(factor * base for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * base >= least * (1 - 1e-9))


def scale(values: Iterable[float], *, from_zero: bool = False, whole: bool = False) -> AxisScale:
    """A scale that contains these values with a margin on both sides."""
    drawn = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    drawn += [0.0] if from_zero else []
    low, high = min(drawn), max(drawn)
    exponent = exponent_of(max(abs(low), abs(high)))
    low, high = low / 10.0**exponent, high / 10.0**exponent
    size = max(abs(low), abs(high))
    if size < NARROWEST:
        return AxisScale(0.0 if from_zero else -1.0, 1.0, exponent, whole)
    if high - low <= NARROWEST * size:
        low, high = low - AIR * size, high + AIR * size
    air = AIR * (high - low)
    if not (from_zero and low == 0):
        low -= air
    if not (from_zero and high == 0):
        high += air
    return AxisScale(low, high, exponent, whole)


def exponent_of(size: float) -> int:
    """The power of ten, a multiple of three, that keeps labels short; 0 for ordinary magnitudes."""
    if size == 0 or 1e-3 <= size < 1e6:
        return 0
    return max(-300, 3 * math.floor(math.log10(size) / 3))


def counting_scale(low: float, high: float) -> AxisScale:
    """A scale of whole numbers, exactly from low to high."""
    return AxisScale(low, high if high > low else low + 1.0, whole=True)
