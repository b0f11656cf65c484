"""Kernels that are functions of the distance between two arms: RBF (Gaussian) and Matérn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.kernels.checks import checked_lengthscale
from manyarms.kernels.combine import Kernel
from manyarms.kernels.distances import of_squared_distances, unit_variances
from manyarms.support.frozen import replace_field
from manyarms.support.validation import Floats, positive

_FARTHEST = 1e100  # distances are clipped here, where k is 0 anyway: ∞ · 0 would be NaN
CHUNK = 2**13  # values that a formula is evaluated on at a time, so that they stay in the cache
_LARGE_NU = 100.0  # above this K_ν overflows at ordinary distances, and its expansion is accurate to 1e-11


@dataclass(frozen=True)
class RBF(Kernel):
    """k(x, y) = exp(−‖x − y‖² / (2 l²)), with one length-scale or one per feature.

    The "Gaussian kernel with width σ² = 5" of the BBKB experiments is `RBF(lengthscale=5 ** 0.5)`.
    """

    lengthscale: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        replace_field(self, "lengthscale", checked_lengthscale(self.lengthscale))

    def matrix(self, X: Any, Y: Any) -> Floats:
        """exp(−½ squared scaled distance)."""
        return of_squared_distances(X, Y, self.lengthscale, _gaussian)

    def diag(self, X: Any) -> Floats:
        """One everywhere."""
        return unit_variances(X, self.lengthscale)


@dataclass(frozen=True)
class Matern(Kernel):
    """Matérn covariance of smoothness ν: 2^(1−ν)/Γ(ν) · u^ν K_ν(u) with u = √(2ν) ‖x − y‖ / l.

    ν = 1/2, 3/2 and 5/2 use closed forms; any other ν > 0 uses the Bessel function or, where that overflows,
    its expansions.
    """

    lengthscale: float | tuple[float, ...] = 1.0
    nu: float = 2.5

    def __post_init__(self) -> None:
        replace_field(self, "lengthscale", checked_lengthscale(self.lengthscale))
        replace_field(self, "nu", positive("nu", self.nu))

    def matrix(self, X: Any, Y: Any) -> Floats:
        """The Matérn function of the scaled distance."""
        return of_squared_distances(X, Y, self.lengthscale, self._write)

    def _write(self, squares: Floats, values: Floats) -> None:
        for row, result in zip(squares, values, strict=True):
            for start in range(0, len(row), CHUNK):
                result[start : start + CHUNK] = self._at(row[start : start + CHUNK])

    def _at(self, squares: Floats) -> Floats:
        """k at these squared scaled distances."""
        u = np.sqrt(squares)
        u *= math.sqrt(2.0 * self.nu)
        np.minimum(u, _FARTHEST, out=u)
        if self.nu == 0.5:
            return np.exp(-u)
        if self.nu == 1.5:
            return np.asarray((1.0 + u) * np.exp(-u))
        if self.nu == 2.5:
            return _five_halves(u)
        return _bessel_form(u, self.nu) if self.nu <= _LARGE_NU else _large_nu_form(u, self.nu)

    def diag(self, X: Any) -> Floats:
        """One everywhere."""
        return unit_variances(X, self.lengthscale)


def _five_halves(u: Floats) -> Floats:
    """(1 + u + u²/3) e⁻ᵘ, with few temporary arrays, which take time; `u` is used up."""
    square = u * u
    square /= 3.0
    values = 1.0 + u
    values += square
    np.negative(u, out=u)
    np.exp(u, out=u)
    values *= u
    return values


def radial(nu: float | None) -> Callable[[Floats, Floats], object]:
    """Matérn of this smoothness, or RBF (None), as a function that writes k at squared scaled distances."""
    return _gaussian if nu is None else Matern(1.0, nu)._write


def _gaussian(squares: Floats, values: Floats) -> None:
    squares *= -0.5
    np.exp(squares, out=values)


def _bessel_form(u: Floats, nu: float) -> Floats:
    """2^(1−ν)/Γ(ν) u^ν K_ν(u), in logarithms so that neither factor overflows; 1 in the limit u → 0.

    K_ν(u) itself overflows for small u when ν > 1. There u is so small that three terms of the power series
    Σ_j (u²/4)^j / (j! (1−ν)(2−ν)…(j−ν)) are exact to rounding (DLMF 10.31.1).
    """
    from scipy.special import gammaln, kve

    safe = np.maximum(u, 1e-300)
    with np.errstate(divide="ignore", over="ignore"):
        bessel = kve(nu, safe)  # K_ν(u) e^u: no underflow for distant arms, NaN for extremely distant ones
        logs = (1.0 - nu) * math.log(2.0) - gammaln(nu) + nu * np.log(safe) + np.log(bessel) - safe
    values = np.exp(np.minimum(logs, 0.0))
    values[np.isnan(bessel)] = 0.0
    small = np.isposinf(bessel)
    if small.any():
        q = u[small] ** 2 / 4.0
        third = -q / (3.0 * (nu - 3.0)) if nu > 4.0 else 0.0
        second = -q / (2.0 * (nu - 2.0)) * (1.0 + third) if nu > 3.0 else 0.0
        values[small] = 1.0 - q / (nu - 1.0) * (1.0 + second)
    values[u == 0.0] = 1.0
    return np.asarray(values)


def _large_nu_form(u: Floats, nu: float) -> Floats:
    """The same function for large ν, by the uniform expansion of K_ν(νz) (DLMF 10.41.4), z = u/ν.

    With s = √(1+z²) its leading terms and Stirling's formula cancel to ν(1 − s + log((1+s)/2)) − ½ log s;
    dividing by the value at z = 0 accounts for the rest.
    """
    z_squared = (u / nu) ** 2
    s = np.sqrt(1.0 + z_squared)
    s_minus_one = z_squared / (1.0 + s)  # without cancellation
    logs = nu * (np.log1p(s_minus_one / 2.0) - s_minus_one) - 0.5 * np.log(s)
    correction = _debye_sum(1.0 / s, nu) / _debye_sum(np.ones(1), nu)
    return np.asarray(np.exp(logs) * correction)


def _debye_sum(t: Floats, nu: float) -> Floats:
    """Σ_{k≤4} (−1)^k U_k(t) / ν^k, the polynomials of DLMF 10.41.10."""
    q = t * t
    u1 = t * (3 - 5 * q) / 24
    u2 = q * (81 - 462 * q + 385 * q**2) / 1152
    u3 = t * q * (30375 - 369603 * q + 765765 * q**2 - 425425 * q**3) / 414720
    u4 = q**2 * (4465125 - 94121676 * q + 349922430 * q**2 - 446185740 * q**3 + 185910725 * q**4) / 39813120
    return np.asarray(1 - u1 / nu + u2 / nu**2 - u3 / nu**3 + u4 / nu**4)
