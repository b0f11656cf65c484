"""The spectral density of the stationary kernels: k(r) = (2π)⁻ᵈ ∫ S(ω) cos(ωᵀr) dω.

Feature maps use S: Fourier features sample it or integrate over it, and the eigenfunctions of a box are
weighted by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manyarms.errors import InvalidKernelError, UnsuitableKernelError
from manyarms.kernels.base import KernelLike
from manyarms.kernels.combine import unscaled
from manyarms.kernels.stationary import RBF, Matern
from manyarms.support.validation import Floats, count

_SMALLEST_CHI_SQUARE = 1e-30  # underflow to 0 would give an infinite frequency; sin and cos of 1e15 are valid


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The spectral measure of an RBF (ν = ∞) or Matérn kernel with one length-scale per feature.

    S depends on ω only through q = Σ (l_i ω_i)² and decreases with it.
    """

    variance: float
    lengthscales: Floats
    nu: float

    @property
    def n_features(self) -> int:
        """d, the number of features."""
        return len(self.lengthscales)

    def density(self, scaled_squares: Floats) -> Floats:
        """S at these values of q = Σ (l_i ω_i)² (Rasmussen & Williams 2006, eq. 4.11 and 4.15)."""
        q, d = scaled_squares, self.n_features
        if math.isinf(self.nu):
            logs = 0.5 * d * math.log(2.0 * math.pi) - 0.5 * q
        else:
            constant = 0.5 * d * math.log(2.0 * math.pi / self.nu) + _log_gamma_ratio(self.nu, d)
            logs = constant - (self.nu + 0.5 * d) * np.log1p(q / (2.0 * self.nu))
        return np.asarray(self.variance * np.exp(logs + np.log(self.lengthscales).sum()))

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """n frequencies with density S/((2π)ᵈ k(0)): normal for RBF, Student's t of 2ν degrees for Matérn."""
        normal = rng.standard_normal((n, self.n_features))
        if not math.isinf(self.nu):
            chi_square = np.maximum(rng.chisquare(2.0 * self.nu, size=(n, 1)), _SMALLEST_CHI_SQUARE)
            normal *= np.sqrt(2.0 * self.nu / chi_square)
        return np.asarray(normal / self.lengthscales)


def spectrum_of(kernel: KernelLike, n_features: int, purpose: str) -> Spectrum:
    """The spectral measure of the kernel; other kernels are refused with an error that names `purpose`."""
    d = count("n_features", n_features)
    part, variance = unscaled(kernel)
    if type(part) is not RBF and type(part) is not Matern:
        raise UnsuitableKernelError(
            f"{purpose} need the spectral density of the kernel, which is known for RBF, Matern and Scale of "
            f"these, not for {kernel!r}: use inducing points (Nystrom) instead"
        )
    if isinstance(part.lengthscale, tuple) and len(part.lengthscale) != d:
        raise InvalidKernelError(
            f"the kernel has {len(part.lengthscale)} length-scales, the arms have {d} features"
        )
    lengthscales = np.broadcast_to(np.asarray(part.lengthscale, dtype=np.float64), (d,))
    return Spectrum(variance, lengthscales, part.nu if isinstance(part, Matern) else math.inf)


def _log_gamma_ratio(nu: float, d: int) -> float:
    """log(Γ(ν + d/2)/Γ(ν)), without the difference of two large logarithms."""
    whole = d // 2
    total = math.fsum(math.log(nu + i) for i in range(whole))
    if d % 2:
        from scipy.special import poch

        total += math.log(float(poch(nu + whole, 0.5)))
    return total
