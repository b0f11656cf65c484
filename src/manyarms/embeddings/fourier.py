"""Fourier features: k(x − y) as a sum of cosines, Σ_j a_j cos ω_jᵀ(x − y).

Each frequency gives a cosine and a sine, so that ‖z(x)‖² = Σ a_j = k(x, x) exactly and the residual of the
posterior is zero; random phases could make it negative. A residual of zero also means that the variance does
not show where the features are inaccurate: few features give an overconfident posterior (BKB, Fig. 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.embeddings.checks import checked_rows, read_only
from manyarms.errors import InvalidParameterError, UnsuitableKernelError
from manyarms.kernels import KernelLike
from manyarms.kernels.spectral import spectrum_of
from manyarms.support.frozen import replace_field
from manyarms.support.validation import Floats, count

MOST_QUADRATURE_FEATURES = 10_000


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """z(x) = (√a_j cos ω_jᵀx, √a_j sin ω_jᵀx) over all j; ω = 0 has no sine.

    The two arrays determine the map: `FourierFeatures(f.frequencies, f.amplitudes)` equals `f` bit for bit,
    whichever subclass made them.
    """

    frequencies: Floats
    amplitudes: Floats

    def __post_init__(self) -> None:
        replace_field(self, "frequencies", read_only(self.frequencies))
        replace_field(self, "amplitudes", read_only(self.amplitudes))

    @property
    def dimension(self) -> int:
        """Two features per frequency, one for the frequency zero."""
        return len(self.frequencies) + int(self.frequencies.any(axis=1).sum())

    def matrix(self, X: Any) -> Floats:
        """The cosines, then the sines."""
        X = checked_rows(X, self.frequencies.shape[1])
        n_cosines, waves = len(self.frequencies), self.frequencies.any(axis=1)
        scale = np.sqrt(self.amplitudes)
        Z = np.empty((len(X), self.dimension))
        angles = X @ self.frequencies.T
        np.cos(angles, out=Z[:, :n_cosines])
        np.sin(angles[:, waves], out=Z[:, n_cosines:])
        Z *= np.concatenate([scale, scale[waves]])
        return Z


class RandomFourierFeatures(FourierFeatures):
    """Frequencies drawn from the kernel's spectral measure, in cosine–sine pairs (Rahimi & Recht 2007).

    Unbiased: E z(x)ᵀz(y) = k(x, y), with an error of the order of √(log n / pairs) over n arms. For RBF,
    Matérn of any ν, and Scale of these, in any number of features.
    """

    def __init__(self, kernel: KernelLike, pairs: int, rng: np.random.Generator, n_features: int) -> None:
        pairs = count("pairs", pairs)
        spectrum = spectrum_of(kernel, n_features, "random Fourier features")
        super().__init__(spectrum.draw(pairs, rng), np.full(pairs, spectrum.variance / pairs))


class QuadratureFourierFeatures(FourierFeatures):
    """Gauss–Hermite nodes and weights in place of random frequencies (Mutný & Krause 2018), for RBF.

    The rule is the full tensor grid of `nodes` per feature, with every combination of signs. Since cos ωᵀr =
    cos (−ω)ᵀr, one of each pair ±ω is kept with both weights, which leaves nodesᵈ features. (With the
    positive orthant alone the error is 0.4 for any number of nodes, for d = 2 on the unit square at
    length-scale 0.5.) The error decreases as (e R²/(4 nodes))^nodes with R = range/length-scale, so nodes >
    R²/2 are needed.
    """

    def __init__(self, kernel: KernelLike, nodes: int, n_features: int) -> None:
        nodes = count("nodes", nodes, minimum=2)
        spectrum = spectrum_of(kernel, n_features, "quadrature Fourier features")
        if not math.isinf(spectrum.nu):
            raise UnsuitableKernelError(
                f"the spectral density of {kernel!r} has heavy tails, which Gauss–Hermite quadrature misses: "
                "use RandomFourierFeatures or HilbertSpaceFeatures, or the RBF kernel"
            )
        _check_grid(nodes, spectrum.n_features)
        grid, weights = _half_grid(nodes, spectrum.n_features)
        super().__init__(grid / spectrum.lengthscales, spectrum.variance * weights)


def _check_grid(nodes: int, d: int) -> None:
    if d * math.log(nodes) > math.log(MOST_QUADRATURE_FEATURES) + 1e-9:
        most = int(MOST_QUADRATURE_FEATURES ** (1.0 / d) + 1e-9)
        advice = "or use HilbertSpaceFeatures or RandomFourierFeatures, whose size is free"
        rule = f"at most {most} for {d} features (nodesᵈ ≤ {MOST_QUADRATURE_FEATURES}); take fewer, {advice}"
        raise InvalidParameterError("nodes", nodes, rule)


def _half_grid(nodes: int, d: int) -> tuple[Floats, Floats]:
    """Nodes and weights for a standard normal ω in d dimensions, one of each pair ±ω.

    In grid order the i-th node from the front is minus the i-th from the back, so the second half mirrors the
    first; with an odd number of nodes, ω = 0 is in the middle without a partner.
    """
    from scipy.special import roots_hermitenorm  # numpy's rule overflows from 400 nodes on

    points, weights = roots_hermitenorm(nodes)
    points, weights = 0.5 * (points - points[::-1]), weights / weights.sum()
    indices = np.indices((nodes,) * d).reshape(d, -1).T
    total = len(indices)
    kept = indices[: (total + 1) // 2]
    folded = np.full(len(kept), 2.0)
    folded[total // 2 :] = 1.0
    return points[kept], folded * weights[kept].prod(axis=1)
