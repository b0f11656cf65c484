"""Eigenfunctions of the Laplacian on a box, weighted by the kernel's spectral density (Solin & Särkkä 2020).

On ∏[c_i − L_i, c_i + L_i] with zero boundary values the eigenfunctions are products of sines, orthonormal
in L², and k(x, y) ≈ Σ_j S(√λ_j) φ_j(x) φ_j(y). So the S(√λ_j) take the place of the Mercer eigenvalues of k
and the φ_j that of its eigenfunctions; equation (7) of S-GP-TS uses the two separately.

Two errors add up. Truncating the series at m omits the remaining weights, whose sum grows with the box.
The zero boundary values mirror every arm at the boundary with a minus sign: the error is k at the distance
2(L − s) between an arm at the edge s of the data and its image, and does not vanish as m grows. So the box
must grow with m; `best_margin` balances the two (theory §2.6).
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manyarms.embeddings.checks import checked_rows, read_only
from manyarms.errors import InvalidFeaturesError, InvalidParameterError
from manyarms.kernels import KernelLike
from manyarms.kernels.spectral import Spectrum, spectrum_of
from manyarms.support.frozen import replace_field
from manyarms.support.validation import Floats, Ints, count, positive

# Margins tried, in length-scales: beyond the widest the boundary error is negligible (RBF: e^(−2·4²) < 1e-13;
# Matérn 1/2: 1e-7 at 8), below the narrowest it is nearly as large as k.
MARGINS = 0.25 * 1.15 ** np.arange(26)
_PROBES = 256


@dataclass(frozen=True, eq=False)
class Eigenfunctions:
    """φ_j(x) = ∏_i L_i^(−½) sin(π j_i (x_i − c_i + L_i) / 2L_i) for the multi-indices j, and their weights.

    The four arrays determine the map: `Eigenfunctions(e.centre, e.half_widths, e.indices, e.weights)` equals
    `e` bit for bit. Weights are in decreasing order, so `leading(m)` gives the first m of M features. A
    feature that is the same for every arm has half-width 0 and index 0, and is not part of the product.
    """

    centre: Floats
    half_widths: Floats
    indices: Ints
    weights: Floats

    def __post_init__(self) -> None:
        for name in ("centre", "half_widths", "weights"):
            replace_field(self, name, read_only(getattr(self, name)))
        replace_field(self, "indices", read_only(self.indices, np.int64))

    @property
    def dimension(self) -> int:
        """m, the number of eigenfunctions."""
        return len(self.weights)

    def leading(self, size: int) -> Eigenfunctions:
        """The `size` features of largest weight."""
        size = count("size", size)
        if size > self.dimension:
            raise InvalidParameterError(
                "size", size, f"at most {self.dimension}, the number of eigenfunctions"
            )
        return Eigenfunctions(self.centre, self.half_widths, self.indices[:size], self.weights[:size])

    def functions(self, X: Any) -> Floats:
        """φ_j(x), orthonormal in L² on the box, as an array of len(X) × dimension."""
        X = self._inside(checked_rows(X, len(self.centre)))
        values = np.ones((len(X), self.dimension))
        if not self.dimension:
            return values
        for i in np.flatnonzero(self.half_widths):
            L, j = self.half_widths[i], self.indices[:, i]
            angle = 0.5 * math.pi * ((X[:, i] - self.centre[i]) / L + 1.0)
            sines = np.sin(np.outer(angle, np.arange(j.max() + 1))) / math.sqrt(L)
            values *= sines[:, j]
        return values

    def matrix(self, X: Any) -> Floats:
        """z_j(x) = √weight_j φ_j(x)."""
        Z = self.functions(X)
        Z *= np.sqrt(self.weights)
        return Z

    def _inside(self, X: Floats) -> Floats:
        outside = ~(np.abs(X - self.centre) <= self.half_widths * (1.0 + 1e-12))
        if outside.any():
            row, i = np.argwhere(outside)[0]
            low, high = self.centre[i] - self.half_widths[i], self.centre[i] + self.half_widths[i]
            raise InvalidFeaturesError(
                f"feature {i} of row {row} is {X[row, i]:g}, outside the box [{low:g}, {high:g}] of the "
                "eigenfunctions: construct the map from all arms, or start the run with all of them"
            )
        return X


class HilbertSpaceFeatures(Eigenfunctions):
    """The `size` eigenfunctions of largest weight, for arms between `lower` and `upper` in each feature.

    The box extends `margin` length-scales beyond the bounds on each side. By default this is the margin with
    the smallest kernel error for this `size`, at `points` if they are given (a sample of the arms),
    otherwise at points spread over the box and its boundary; the attribute `margin` holds the value used. A
    feature with equal bounds costs nothing. For RBF, Matérn of any ν, and Scale of these.
    """

    margin: float

    def __init__(
        self,
        kernel: KernelLike,
        size: int,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        margin: float | None = None,
        points: Any = None,
    ) -> None:
        size = count("size", size)
        low, high = _bounds(lower, upper)
        spectrum = spectrum_of(kernel, len(low), "eigenfunctions")
        if margin is None:
            X = _probes(low, high) if points is None else checked_rows(points, len(low))
            margin = best_margin(spectrum, size, low, high, X)
        chosen = _on_box(spectrum, size, low, high, positive("margin", margin))
        super().__init__(chosen.centre, chosen.half_widths, chosen.indices, chosen.weights)
        object.__setattr__(self, "margin", float(margin))


def best_margin(spectrum: Spectrum, size: int, lower: Floats, upper: Floats, X: Floats) -> float:
    """The margin among `MARGINS` with the smallest kernel error at the points X.

    Only pairs x = y are evaluated: the truncated part of the series is a covariance, and the contribution of
    the images decreases with the distance between x and y, so both are largest there.
    """

    def error(margin: float) -> float:
        part = _on_box(spectrum, size, lower, upper, margin)
        return float(np.abs(spectrum.variance - part.functions(X) ** 2 @ part.weights).max())

    return float(min(MARGINS, key=error))


def _on_box(spectrum: Spectrum, size: int, lower: Floats, upper: Floats, margin: float) -> Eigenfunctions:
    varying = lower < upper  # constant features do not change distances: the same kernel in fewer features
    part = replace(spectrum, lengthscales=spectrum.lengthscales[varying])
    L = 0.5 * (upper - lower)[varying] + margin * part.lengthscales
    steps = (0.5 * math.pi * part.lengthscales / L) ** 2
    j = smallest_indices(steps, size)
    half_widths, indices = np.zeros(len(lower)), np.zeros((len(j), len(lower)), dtype=np.int64)
    half_widths[varying], indices[:, varying] = L, j
    weights = part.density((j**2 * steps).sum(axis=1))
    return Eigenfunctions(0.5 * (lower + upper), half_widths, indices, weights)


def smallest_indices(steps: Floats, size: int) -> Ints:
    """The `size` multi-indices j ≥ 1 with the smallest Σ_i steps_i j_i², in that order, without a full grid.

    Best-first search: the children of j increase one entry by 1, at or after the last entry above 1. Every
    index then has one parent, which comes before it, and at most `size`·d indices are visited.
    """
    d = len(steps)
    heap: list[tuple[float, tuple[int, ...], int]] = [(float(steps.sum()), (1,) * d, 0)]
    found: list[tuple[int, ...]] = []
    while heap and len(found) < size:  # with d = 0 there is one index, the empty one
        value, index, first = heapq.heappop(heap)
        found.append(index)
        for i in range(first, d):
            child = (*index[:i], index[i] + 1, *index[i + 1 :])
            heapq.heappush(heap, (value + float(steps[i]) * (2 * index[i] + 1), child, i))
    return np.array(found, dtype=np.int64).reshape(len(found), d)


def _bounds(lower: ArrayLike, upper: ArrayLike) -> tuple[Floats, Floats]:
    """Both as vectors; the box must be bounded, with lower ≤ upper."""
    advice = (
        "eigenfunctions are defined on a bounded box: clip or rescale the features, "
        "or use RandomFourierFeatures"
    )
    rule = f"one finite number per feature ({advice})"
    checked = []
    for name, given in (("lower", lower), ("upper", upper)):
        try:
            values = np.atleast_1d(np.asarray(given, dtype=np.float64))
        except (TypeError, ValueError):
            raise InvalidParameterError(name, given, rule) from None
        if values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise InvalidParameterError(name, given, rule)
        checked.append(values)
    low, high = checked
    if low.shape != high.shape or (low > high).any() or not np.isfinite(high - low).all():
        raise InvalidParameterError("upper", upper, f"at least lower = {low.tolist()} in every feature")
    return low, high


def _probes(lower: Floats, upper: Floats) -> Floats:
    """A low-discrepancy set of points over the box (multiples of irrational numbers), some on its boundary.

    The irrationals are powers of 1/φ_d with φ_d^(d+1) = φ_d + 1, the golden ratio for d = 1. Stretching by a
    fifth and clipping puts about a sixth of the values of each feature on the boundary, where the error is
    largest.
    """
    d = len(lower)
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (d + 1))
    spread = np.outer(np.arange(1, _PROBES + 1), ratio ** -np.arange(1.0, d + 1)) % 1.0
    return np.asarray(lower + (upper - lower) * np.clip(1.2 * spread - 0.1, 0.0, 1.0))
