"""Kernel families whose length-scales are learned, with the derivatives that the evidence needs.

A family has unit variance; signal, noise and mean are common to all families (`marginal_likelihood.py`).
On fixed arms (`Family.covariance_on`) the covariance is a function of θ = log length-scales alone. Instead of
one n × n derivative matrix per length-scale it provides the contraction Σ_ab G_ab ∂K_ab/∂θ_g for any G, which
for a function of distances takes one matrix product whatever the number of features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from manyarms.kernels import RBF, Hamming, KernelLike, Matern, Tanimoto
from manyarms.kernels.distances import squared_distances
from manyarms.kernels.stationary import CHUNK
from manyarms.learning.spacing import Spacings
from manyarms.support.validation import Floats, Ints

HAMMING_SCALE = 2.0  # arms that differ in all positions then have correlation 1/√e


@dataclass(frozen=True)
class Covariance:
    """K at one θ, and the contraction of its derivatives with a matrix, which may be overwritten."""

    matrix: Floats
    contract: Callable[[Floats], Floats]


CovarianceAtScales = Callable[[Floats], Covariance]  # of the log length-scales θ


class Family(Protocol):
    """A covariance up to its length-scales."""

    @property
    def name(self) -> str:
        """The name to show in a report."""

    @property
    def typical(self) -> Floats:
        """Log length-scales to assume before there are results; the priors are centred on them."""

    @property
    def shortest(self) -> Floats:
        """Lower bounds of the log length-scales, −∞ where the features give none."""

    def covariance_on(self, features: Any) -> CovarianceAtScales:
        """The covariance among these arms as a function of the log length-scales."""

    def kernel(self, log_scales: Floats) -> KernelLike:
        """The kernel with these length-scales, for features as the pool holds them."""


@dataclass(frozen=True)
class StationaryFamily:
    """RBF (nu=None) or Matérn-5/2 of numbers; the scales of the features are part of the length-scales.

    `spreads` are the standard deviations of the columns. Length-scales are measured in them: the kernel has
    l_j = spread_j · exp(θ_g(j)). Columns on scales 1e-9 and 1e9 are therefore equivalent to the learner, and
    the pool is never copied. `groups` holds the index of the length-scale of each column: all zeros mean one
    shared length-scale, −1 a constant column that is ignored. With `own_units` the spreads undo the
    transforms of the columns, so that columns count in their own units. `spacings` bound the length-scales of
    columns of settings.
    """

    spreads: tuple[float, ...]
    groups: tuple[int, ...]
    nu: float | None = None
    own_units: bool = False
    spacings: Spacings | None = None

    @property
    def name(self) -> str:
        """The kernel and its number of length-scales."""
        kernel = "RBF" if self.nu is None else "Matérn-5/2"
        scales = "one length-scale" if self.n_scales == 1 else "a length-scale per feature"
        return f"{kernel}, {scales}{', columns in their own units' if self.own_units else ''}"

    @property
    def n_scales(self) -> int:
        """The number of length-scales learned."""
        return max(1, 1 + max(self.groups))

    @property
    def typical(self) -> Floats:
        """√d spreads: two arms whose d features all differ by a typical amount then have correlation 1/e."""
        active = sum(group >= 0 for group in self.groups)
        return np.full(self.n_scales, 0.5 * math.log(max(active, 1)))

    @property
    def shortest(self) -> Floats:
        """The spacings of the columns, see `spacing.py`."""
        if self.spacings is None:
            return np.full(self.n_scales, -math.inf)
        return self.spacings.shortest(np.array(self.groups), self.n_scales)

    def regrouped(self, groups: tuple[int, ...]) -> StationaryFamily:
        """The same family with other groups of columns sharing a length-scale."""
        return replace(self, groups=groups)

    def covariance_on(self, features: Any) -> CovarianceAtScales:
        """The kernel of distances measured in spreads."""
        used = np.flatnonzero(np.array(self.groups) >= 0)
        if not len(used):
            return _constant_covariance(len(features))
        X = np.asarray(features)[:, used].astype(np.float64)
        X = (X - X.mean(axis=0)) / np.array(self.spreads)[used]
        if self.n_scales == 1:
            return self._with_shared_scale(X)
        return self._with_separate_scales(X, np.array(self.groups)[used])

    def _with_shared_scale(self, X: Floats) -> CovarianceAtScales:
        """One length-scale: distances are computed once and then only divided by it."""
        unscaled = squared_distances(X, X, 1.0)

        def at(log_scales: Floats) -> Covariance:
            squares = unscaled * np.exp(-2.0 * log_scales[0])
            K, weight = self._kernel_and_derivative(squares)

            def contract(G: Floats) -> Floats:
                return np.array([np.vdot(np.multiply(G, weight, out=G), squares)])

            return Covariance(K, contract)

        return at

    def _with_separate_scales(self, X: Floats, groups: Ints) -> CovarianceAtScales:
        """Several length-scales; `groups` holds the index of the one of each column."""

        def at(log_scales: Floats) -> Covariance:
            scaled = X / np.exp(log_scales)[groups]
            K, weight = self._kernel_and_derivative(squared_distances(scaled, scaled, 1.0))

            def contract(G: Floats) -> Floats:
                # ∂k/∂log l_j = w(r²) (x_j − y_j)²/l_j², and with h the sum of H's row sums and column sums,
                # Σ_ab H_ab (x_a − x_b)² = Σ h_a x_a² − 2xᵀHx.
                H = np.multiply(G, weight, out=G)
                sums = (H.sum(axis=0) + H.sum(axis=1)) @ (scaled * scaled)
                sums -= 2.0 * np.einsum("aj,aj->j", scaled, H @ scaled)
                return np.bincount(groups, sums, self.n_scales).astype(np.float64)

            return Covariance(K, contract)

        return at

    def _kernel_and_derivative(self, squares: Floats) -> tuple[Floats, Floats]:
        """k, and −2 dk/d(r²), which multiplies the squared differences in the derivative."""
        if self.nu is None:
            K = -0.5 * squares
            return np.exp(K, out=K), K
        flat, K, weight = squares.reshape(-1), np.empty(squares.size), np.empty(squares.size)
        for start in range(0, squares.size, CHUNK):
            chunk = slice(start, start + CHUNK)
            square = 5.0 * flat[chunk]
            u = np.sqrt(square)
            decay = np.exp(-u)
            u += 1.0
            np.multiply(u, decay, out=weight[chunk])
            square /= 3.0
            square += u
            np.multiply(square, decay, out=K[chunk])  # (1 + u + u²/3) e^(−u)
        weight *= 5.0 / 3.0
        return K.reshape(squares.shape), weight.reshape(squares.shape)

    def kernel(self, log_scales: Floats) -> KernelLike:
        """Length-scales in the units of the pool's columns; an ignored column gets its own spread."""
        by_group = np.append(np.exp(log_scales), 1.0)  # group −1 reads the last entry
        lengthscale = tuple((np.array(self.spreads) * by_group[np.array(self.groups)]).tolist())
        return RBF(lengthscale) if self.nu is None else Matern(lengthscale, self.nu)


@dataclass(frozen=True)
class HammingFamily:
    """Hamming on codes, words or strings: exp(−h/l) with h the share of positions that differ."""

    name: str = "Hamming"

    @property
    def typical(self) -> Floats:
        """See HAMMING_SCALE."""
        return np.log([HAMMING_SCALE])

    @property
    def shortest(self) -> Floats:
        """None."""
        return np.array([-math.inf])

    def covariance_on(self, features: Any) -> CovarianceAtScales:
        """The share of differing positions is computed once."""
        with np.errstate(divide="ignore"):
            shares = -np.log(Hamming(1.0).matrix(features, features))

        def at(log_scales: Floats) -> Covariance:
            scaled = shares / np.exp(log_scales[0])
            K = np.exp(-scaled)
            return Covariance(K, lambda G: np.array([np.vdot(G, K * scaled)]))

        return at

    def kernel(self, log_scales: Floats) -> KernelLike:
        """Hamming with this length-scale."""
        return Hamming(float(np.exp(log_scales[0])))


@dataclass(frozen=True)
class TanimotoFamily:
    """Tanimoto on packed bits, which has no length-scale."""

    name: str = "Tanimoto"

    @property
    def typical(self) -> Floats:
        """Empty: only signal, noise and mean are learned."""
        return np.empty(0)

    @property
    def shortest(self) -> Floats:
        """Empty."""
        return np.empty(0)

    def covariance_on(self, features: Any) -> CovarianceAtScales:
        """Similarities, computed once."""
        covariance = Covariance(Tanimoto().matrix(features, features), lambda G: np.empty(0))
        return lambda log_scales: covariance

    def kernel(self, log_scales: Floats) -> KernelLike:
        """Tanimoto."""
        return Tanimoto()


def _constant_covariance(n: int) -> CovarianceAtScales:
    """Every feature is constant: one value for all arms."""
    covariance = Covariance(np.ones((n, n)), lambda G: np.zeros(1))
    return lambda log_scales: covariance
