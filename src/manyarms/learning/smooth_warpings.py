"""Smooth increasing maps of rewards: the logarithm, Yeo–Johnson and sinh-arcsinh (theory §8.3).

Each maps the whole range of rewards it accepts onto all real numbers, so an interval on the model's scale
always has ends in the user's units. The shapes of the last two are fitted by maximum likelihood to a normal
sample; that only proposes a shape, and the evidence of the model decides whether it is used.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from manyarms.support.validation import Floats

ORDERS_OF_MAGNITUDE = 2.0  # largest over smallest reward from which a logarithm differs from a straight line
_NORMAL_IQR = 1.3489795
_TAILS = (0.2, 1.35)  # range of the sinh-arcsinh's tail weight; below 1 it shortens tails
_SKEW = 2.0


class Curve(Protocol):
    """An increasing function with its inverse and the logarithm of its slope."""

    name: ClassVar[str]
    n_shapes: ClassVar[int]

    def forward(self, x: Floats) -> Floats:
        """The curve."""

    def inverse(self, v: Floats) -> Floats:
        """Its inverse."""

    def log_slope(self, x: Floats) -> Floats:
        """The logarithm of its derivative."""


@dataclass(frozen=True)
class Logarithm:
    """log y for positive rewards (sign 1), −log(−y) for negative ones (sign −1)."""

    name: ClassVar[str] = "logarithm"
    n_shapes: ClassVar[int] = 0
    sign: float

    def forward(self, x: Floats) -> Floats:
        """The curve."""
        return np.asarray(self.sign * np.log(np.maximum(self.sign * x, 5e-324)))

    def inverse(self, v: Floats) -> Floats:
        """Its inverse."""
        return np.asarray(self.sign * np.exp(self.sign * v))

    def log_slope(self, x: Floats) -> Floats:
        """The logarithm of its derivative."""
        return np.asarray(-np.log(self.sign * x))


@dataclass(frozen=True)
class YeoJohnson:
    """((1 + x)^p − 1)/p for x ≥ 0 and −((1 − x)^(2−p) − 1)/(2 − p) below, with 0 ≤ p ≤ 2."""

    name: ClassVar[str] = "Yeo-Johnson"
    n_shapes: ClassVar[int] = 1
    power: float

    def forward(self, x: Floats) -> Floats:
        """The curve."""
        above, below = np.maximum(x, 0.0), np.maximum(-x, 0.0)
        return _box_cox(above, self.power) - _box_cox(below, 2.0 - self.power)

    def inverse(self, v: Floats) -> Floats:
        """Its inverse."""
        above, below = np.maximum(v, 0.0), np.maximum(-v, 0.0)
        return _inverse_box_cox(above, self.power) - _inverse_box_cox(below, 2.0 - self.power)

    def log_slope(self, x: Floats) -> Floats:
        """The logarithm of its derivative."""
        return np.asarray((self.power - 1.0) * np.sign(x) * np.log1p(np.abs(x)))


@dataclass(frozen=True)
class SinhArcsinh:
    """sinh(tail · arcsinh(x) − skew) (Jones and Pewsey 2009)."""

    name: ClassVar[str] = "sinh-arcsinh"
    n_shapes: ClassVar[int] = 2
    tail: float
    skew: float

    def forward(self, x: Floats) -> Floats:
        """The curve."""
        return np.asarray(np.sinh(self.tail * np.arcsinh(x) - self.skew))

    def inverse(self, v: Floats) -> Floats:
        """Its inverse."""
        return np.asarray(np.sinh((np.arcsinh(v) + self.skew) / self.tail))

    def log_slope(self, x: Floats) -> Floats:
        """The logarithm of its derivative."""
        angle = np.abs(self.tail * np.arcsinh(x) - self.skew)
        log_cosh = angle + np.log1p(np.exp(-2.0 * angle)) - math.log(2.0)
        return np.asarray(math.log(self.tail) + log_cosh - np.log(np.hypot(1.0, x)))


# Below this power ((1 + u)^p − 1)/p is log(1 + u) to the last bit for every float u. The power itself would
# lose digits instead: p · log(1 + u) is subnormal for the smallest ones.
_LOGARITHMIC_POWER = 1e-20


def _box_cox(u: Floats, p: float) -> Floats:
    return np.asarray(np.log1p(u) if p < _LOGARITHMIC_POWER else np.expm1(p * np.log1p(u)) / p)


def _inverse_box_cox(v: Floats, p: float) -> Floats:
    return np.asarray(np.expm1(v) if p < _LOGARITHMIC_POWER else np.expm1(np.log1p(p * v) / p))


_CURVES: dict[str, type[Any]] = {curve.name: curve for curve in (Logarithm, YeoJohnson, SinhArcsinh)}


@dataclass(frozen=True)
class Warped:
    """(g((y − shift)/unit) − centre)/spread with g one of the curves."""

    curve: Curve
    shift: float = 0.0
    unit: float = 1.0
    centre: float = 0.0
    spread: float = 1.0

    @property
    def n_shapes(self) -> int:
        """The parameters of the curve that are fitted."""
        return self.curve.n_shapes

    def forward(self, rewards: Floats) -> Floats:
        """Modelled values."""
        return np.asarray((self.curve.forward(self._scaled(rewards)) - self.centre) / self.spread)

    def inverse(self, values: Floats) -> Floats:
        """Rewards."""
        with np.errstate(over="ignore"):
            bent = self.curve.inverse(self.centre + self.spread * np.asarray(values, dtype=np.float64))
        largest = np.finfo(np.float64).max / max(self.unit, 1.0) / 2
        return np.asarray(self.shift + self.unit * np.clip(bent, -largest, largest))

    def log_slopes(self, rewards: Floats) -> Floats:
        """The logarithm of the derivative."""
        return np.asarray(
            self.curve.log_slope(self._scaled(rewards)) - math.log(self.unit) - math.log(self.spread)
        )

    def _scaled(self, rewards: Floats) -> Floats:
        return np.asarray((np.asarray(rewards, dtype=np.float64) - self.shift) / self.unit)

    def describe(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "curve": asdict(self.curve), "transform": self.curve.name}  # type: ignore[call-overload]

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Warped | None:
        """Read a warping back from its `describe`; None where it describes another transform."""
        settings = {**description}
        curve = _CURVES.get(settings.pop("transform"))
        return None if curve is None else cls(**{**settings, "curve": curve(**settings["curve"])})


def smooth_warpings(means: Floats) -> tuple[Warped, ...]:
    """The smooth maps to try for these averages, each standardised; those that overflow are left out."""
    with np.errstate(all="ignore"):
        proposed = (*_logarithms(means), *_fitted(means))
        standardised = (_standardised(warped, means) for warped in proposed)
        return tuple(warped for warped in standardised if warped is not None)


def _logarithms(means: Floats) -> tuple[Warped, ...]:
    """A logarithm where all rewards have one sign and span a factor of at least ORDERS_OF_MAGNITUDE."""
    found = []
    for sign in (1.0, -1.0):
        smallest, largest = float((sign * means).min()), float((sign * means).max())
        if smallest > 0 and largest / smallest >= ORDERS_OF_MAGNITUDE:
            found.append(Warped(Logarithm(sign)))
    return tuple(found)


def _fitted(means: Floats) -> tuple[Warped, ...]:
    from scipy.optimize import minimize, minimize_scalar

    low, centre, high = (float(q) for q in np.quantile(means, (0.25, 0.5, 0.75)))
    unit = (high - low) / _NORMAL_IQR
    if not (unit > 0 and math.isfinite(unit)):
        return ()
    x = (means - centre) / unit

    def misfit(curve: Curve) -> float:
        """Minus the log-likelihood of a normal sample after the curve."""
        variance = float(curve.forward(x).var())
        value = 0.5 * len(x) * math.log(max(variance, 1e-300)) - float(curve.log_slope(x).sum())
        return value if math.isfinite(value) else 1e12

    power = minimize_scalar(lambda p: misfit(YeoJohnson(p)), bounds=(0.0, 2.0), method="bounded").x
    shape = minimize(
        lambda s: misfit(SinhArcsinh(math.exp(s[0]), s[1])),
        np.zeros(2),
        bounds=[(math.log(_TAILS[0]), math.log(_TAILS[1])), (-_SKEW, _SKEW)],
    ).x
    curves = YeoJohnson(float(power)), SinhArcsinh(math.exp(shape[0]), float(shape[1]))
    return tuple(Warped(curve, centre, unit) for curve in curves)


def _standardised(warped: Warped, means: Floats) -> Warped | None:
    values = warped.forward(means)
    centre, spread = float(values.mean()), float(values.std())
    if not (math.isfinite(centre) and math.isfinite(spread) and spread > 0):
        return None
    found = replace(warped, centre=centre, spread=spread)
    returned = found.inverse(found.forward(means))
    close = np.allclose(returned, means, rtol=1e-6, atol=1e-9 * float(np.ptp(means)))
    return found if close and np.isfinite(found.log_slopes(means)).all() else None
