"""Kernels that are functions of the distance between two arms: RBF (Gaussian) and Matérn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.errors import InvalidKernelError
from manyarms.kernels.checks import checked_lengthscale, numeric, numeric_pair
from manyarms.kernels.combine import Kernel
from manyarms.support.frozen import replace_field
from manyarms.support.validation import Floats, positive

# Up to this many features, distances are summed feature by feature, which is accurate for near-duplicates.
# Above it, |x|² + |y|² − 2xᵀy runs at the speed of a matrix product, and close pairs are recomputed.
_DIRECT_FEATURES = 64
_CLOSE = 1e-6
_FARTHEST = 1e100  # distances are clipped here, where k is 0 anyway: ∞ · 0 would be NaN
CHUNK = 2**13  # values that a formula is evaluated on at a time, so that they stay in the cache
_LARGE_NU = 100.0  # above this K_ν overflows at ordinary distances, and its expansion is accurate to 1e-11


def squared_distances(X: Any, Y: Any, lengthscale: float | tuple[float, ...]) -> Floats:
    """‖(x − y)/l‖² for all pairs, accurate also where x and y nearly coincide."""
    from scipy.spatial.distance import cdist  # imported late: it doubles the import time of the package

    X, Y = numeric_pair(X, Y)
    scale = np.asarray(lengthscale)
    _check_scales(X, lengthscale)
    if X.shape[1] <= _DIRECT_FEATURES:
        swapped = len(Y) < len(X)  # cdist is several times faster on few long rows
        short, long = (Y, X) if swapped else (X, Y)
        direct: Floats = cdist(short / scale, long / scale, "sqeuclidean")
        return direct.T if swapped else direct
    return _expanded(X / scale, Y / scale)


def unit_variances(X: Any, lengthscale: float | tuple[float, ...]) -> Floats:
    """k(x, x) = 1 for every arm, after checking that the features fit the kernel."""
    X = numeric(X)
    _check_scales(X, lengthscale)
    return np.ones(len(X))


def _check_scales(X: Floats, lengthscale: float | tuple[float, ...]) -> None:
    if isinstance(lengthscale, tuple) and X.shape[1] != len(lengthscale):
        raise InvalidKernelError(
            f"the kernel has {len(lengthscale)} length-scales, the arms have {X.shape[1]} features"
        )


def _expanded(X: Floats, Y: Floats) -> Floats:
    centre = Y.mean(axis=0) if len(Y) else 0.0
    X, Y = X - centre, Y - centre
    x_norms, y_norms = np.einsum("ij,ij->i", X, X), np.einsum("ij,ij->i", Y, Y)
    distances: Floats = np.maximum(x_norms[:, None] + y_norms[None, :] - 2.0 * (X @ Y.T), 0.0)
    rows, cols = np.nonzero(distances <= _CLOSE * (x_norms[:, None] + y_norms[None, :]))
    for start in range(0, len(rows), 4096):  # in slices: there may be many duplicates
        i, j = rows[start : start + 4096], cols[start : start + 4096]
        difference = X[i] - Y[j]
        distances[i, j] = np.einsum("ij,ij->i", difference, difference)
    return distances


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
        values = squared_distances(X, Y, self.lengthscale)
        values *= -0.5
        return np.exp(values, out=values)

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
        values = squared_distances(X, Y, self.lengthscale)
        flat = (values.T if values.flags.f_contiguous else values).reshape(-1)
        for start in range(0, len(flat), CHUNK):
            piece = flat[start : start + CHUNK]
            piece[:] = self._at(piece)
        return values

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
            return np.asarray((1.0 + u + u * u / 3.0) * np.exp(-u))
        return _bessel_form(u, self.nu) if self.nu <= _LARGE_NU else _large_nu_form(u, self.nu)

    def diag(self, X: Any) -> Floats:
        """One everywhere."""
        return unit_variances(X, self.lengthscale)


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
