"""Kernels of the distance between two arms: RBF (Gaussian) and Matérn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.errors import InvalidKernelError
from manyarms.kernels.base import Kernel, checked_lengthscale, numeric, replace_field
from manyarms.validation import Floats, positive

# Up to this many features distances are summed feature by feature, which is exact for near-duplicates.
# Beyond it the expansion |x|² + |y|² − 2xy runs at matrix-product speed, and close pairs are recomputed.
_DIRECT_FEATURES = 64
_CLOSE = 1e-6


def squared_distances(X: Any, Y: Any, lengthscale: float | tuple[float, ...]) -> Floats:
    """‖(x − y)/l‖² for all pairs, accurate also where x and y nearly coincide."""
    from scipy.spatial.distance import cdist  # imported late: it doubles the package's import time

    X, Y = numeric(X), numeric(Y)
    scale = np.asarray(lengthscale)
    for features in (X, Y):
        if scale.ndim and features.shape[1] != scale.size:
            raise InvalidKernelError(
                f"the kernel has {scale.size} length-scales, the arms have {features.shape[1]} features"
            )
    if X.shape[1] != Y.shape[1]:
        raise InvalidKernelError(f"arms with {X.shape[1]} and with {Y.shape[1]} features cannot be compared")
    if X.shape[1] <= _DIRECT_FEATURES:
        direct: Floats = cdist(X / scale, Y / scale, "sqeuclidean")
        return direct
    return _expanded(X / scale, Y / scale)


def _expanded(X: Floats, Y: Floats) -> Floats:
    centre = Y.mean(axis=0) if len(Y) else 0.0
    X, Y = X - centre, Y - centre
    x_norms, y_norms = np.einsum("ij,ij->i", X, X), np.einsum("ij,ij->i", Y, Y)
    distances: Floats = np.maximum(x_norms[:, None] + y_norms[None, :] - 2.0 * (X @ Y.T), 0.0)
    rows, cols = np.nonzero(distances <= _CLOSE * (x_norms[:, None] + y_norms[None, :]))
    for start in range(0, len(rows), 4096):  # a slice at a time: there may be many duplicates
        i, j = rows[start : start + 4096], cols[start : start + 4096]
        difference = X[i] - Y[j]
        distances[i, j] = np.einsum("ij,ij->i", difference, difference)
    return distances


@dataclass(frozen=True)
class RBF(Kernel):
    """k(x, y) = exp(−‖x − y‖² / (2 l²)), with one length-scale or one per feature.

    The "Gaussian kernel of width σ² = 5" of the BBKB experiments is `RBF(lengthscale=5 ** 0.5)`.
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
        return np.ones(len(X))


@dataclass(frozen=True)
class Matern(Kernel):
    """Matérn covariance of smoothness ν: 2^(1−ν)/Γ(ν) · u^ν K_ν(u) with u = √(2ν) ‖x − y‖ / l.

    ν = 1/2, 3/2 and 5/2 use their closed forms; any other ν > 0 goes through the Bessel function.
    """

    lengthscale: float | tuple[float, ...] = 1.0
    nu: float = 2.5

    def __post_init__(self) -> None:
        replace_field(self, "lengthscale", checked_lengthscale(self.lengthscale))
        replace_field(self, "nu", positive("nu", self.nu))

    def matrix(self, X: Any, Y: Any) -> Floats:
        """The Matérn function of the scaled distance."""
        u = np.sqrt(squared_distances(X, Y, self.lengthscale))
        u *= math.sqrt(2.0 * self.nu)
        if self.nu == 0.5:
            return np.exp(-u)
        if self.nu == 1.5:
            return np.asarray((1.0 + u) * np.exp(-u))
        if self.nu == 2.5:
            return np.asarray((1.0 + u + u * u / 3.0) * np.exp(-u))
        return _bessel_form(u, self.nu)

    def diag(self, X: Any) -> Floats:
        """One everywhere."""
        return np.ones(len(X))


def _bessel_form(u: Floats, nu: float) -> Floats:
    """2^(1−ν)/Γ(ν) u^ν K_ν(u), in logarithms so that neither factor overflows; 1 in the limit u → 0."""
    from scipy.special import gammaln, kve

    safe = np.maximum(u, 1e-12)
    with np.errstate(divide="ignore", over="ignore"):
        log_bessel = np.log(kve(nu, safe)) - safe  # kve is K_ν(u) e^u: no underflow for distant arms
    logs = (1.0 - nu) * math.log(2.0) - gammaln(nu) + nu * np.log(safe) + log_bessel
    return np.where(
        (u < 1e-12) | ~np.isfinite(logs), np.where(u < 1.0, 1.0, 0.0), np.exp(np.minimum(logs, 0.0))
    )
