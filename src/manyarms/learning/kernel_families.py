"""Covariances whose length-scales are to be learned, with the derivative that the evidence needs.

A family has unit variance; signal, noise and mean are the same for all of them and live in `evidence.py`.
On fixed arms (`Family.on`) it is a function of θ = log length-scales alone, and instead of one n × n
derivative matrix per length-scale it gives the contraction Σ_ab G_ab ∂K_ab/∂θ_g for any G, which for
distances takes one matrix product however many features there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from manyarms.kernels import RBF, Hamming, KernelLike, Matern, Tanimoto
from manyarms.kernels.stationary import PIECE, squared_distances
from manyarms.support.validation import Floats, Ints

HAMMING_SCALE = 0.5  # arms that differ in half of their positions are then correlated by 1/e


@dataclass(frozen=True)
class Covariance:
    """K at one θ, and the contraction of its derivatives with a matrix, which may be overwritten."""

    matrix: Floats
    contract: Callable[[Floats], Floats]


Geometry = Callable[[Floats], Covariance]


class Family(Protocol):
    """A covariance up to its length-scales."""

    @property
    def name(self) -> str:
        """What to call it in a report."""

    @property
    def typical(self) -> Floats:
        """Log length-scales before anything is known: where the priors are centred."""

    def on(self, features: Any) -> Geometry:
        """The covariance among these arms as a function of the log length-scales."""

    def kernel(self, log_scales: Floats) -> KernelLike:
        """The package's kernel with these length-scales, for features as the pool holds them."""


@dataclass(frozen=True)
class Distances:
    """RBF (nu=None) or Matérn-5/2 of numbers, with the features' own scales absorbed.

    `spreads` are typical differences of each column; a length-scale counts in them, and the kernel
    that comes out has l_j = spread_j · exp(θ_g(j)). So columns on scales 1e-9 and 1e9 are alike to the
    learner and the pool is never copied. `groups` names the parameter of each column: all zero is one
    shared length-scale, −1 a column that says nothing. With `own_units` the spreads undo what was done to
    the columns, so that they count as they are.
    """

    spreads: tuple[float, ...]
    groups: tuple[int, ...]
    nu: float | None = None
    own_units: bool = False

    @property
    def name(self) -> str:
        """Kernel, and how many length-scales."""
        kernel = "RBF" if self.nu is None else "Matérn-5/2"
        scales = "one length-scale" if self.n_scales == 1 else "a length-scale per feature"
        return f"{kernel}, {scales}{', columns in their own units' if self.own_units else ''}"

    @property
    def n_scales(self) -> int:
        """How many length-scales are learned."""
        return max(1, 1 + max(self.groups))

    @property
    def typical(self) -> Floats:
        """√d spreads: two arms that differ typically in all d features are then correlated by 1/e."""
        active = sum(group >= 0 for group in self.groups)
        return np.full(self.n_scales, 0.5 * math.log(max(active, 1)))

    def regrouped(self, groups: tuple[int, ...]) -> Distances:
        """The same with other columns sharing a length-scale."""
        return replace(self, groups=groups)

    def on(self, features: Any) -> Geometry:
        """Distances in units of the spreads."""
        used = np.flatnonzero(np.array(self.groups) >= 0)
        if not len(used):
            return _all_alike(len(features))
        X = np.asarray(features)[:, used].astype(np.float64)
        X = (X - X.mean(axis=0)) / np.array(self.spreads)[used]
        return self._shared(X) if self.n_scales == 1 else self._separate(X, np.array(self.groups)[used])

    def _shared(self, X: Floats) -> Geometry:
        """One length-scale: the distances are computed once, and only divided by it."""
        apart = squared_distances(X, X, 1.0)

        def at(log_scales: Floats) -> Covariance:
            squares = apart * np.exp(-2.0 * log_scales[0])
            K, weight = self._values(squares)

            def contract(G: Floats) -> Floats:
                return np.array([np.vdot(np.multiply(G, weight, out=G), squares)])

            return Covariance(K, contract)

        return at

    def _separate(self, X: Floats, groups: Ints) -> Geometry:
        """Several length-scales: `groups` names that of each column."""

        def at(log_scales: Floats) -> Covariance:
            scaled = X / np.exp(log_scales)[groups]
            K, weight = self._values(squared_distances(scaled, scaled, 1.0))

            def contract(G: Floats) -> Floats:
                # ∂k/∂log l_j = w(r²) (x_j − y_j)²/l_j², and with h the sums of H's rows and columns together
                # Σ_ab H_ab (x_a − x_b)² = Σ h_a x_a² − 2xᵀHx
                H = np.multiply(G, weight, out=G)
                sums = (H.sum(axis=0) + H.sum(axis=1)) @ (scaled * scaled)
                sums -= 2.0 * np.einsum("aj,aj->j", scaled, H @ scaled)
                return np.bincount(groups, sums, self.n_scales).astype(np.float64)

            return Covariance(K, contract)

        return at

    def _values(self, squares: Floats) -> tuple[Floats, Floats]:
        """k, and −2 dk/d(r²), which multiplies the squared differences in the derivative."""
        if self.nu is None:
            K = -0.5 * squares
            return np.exp(K, out=K), K
        flat, K, weight = squares.reshape(-1), np.empty(squares.size), np.empty(squares.size)
        for start in range(0, squares.size, PIECE):
            piece = slice(start, start + PIECE)
            square = 5.0 * flat[piece]
            u = np.sqrt(square)
            decay = np.exp(-u)
            u += 1.0
            np.multiply(u, decay, out=weight[piece])
            square /= 3.0
            square += u
            np.multiply(square, decay, out=K[piece])  # (1 + u + u²/3) e^(−u)
        weight *= 5.0 / 3.0
        return K.reshape(squares.shape), weight.reshape(squares.shape)

    def kernel(self, log_scales: Floats) -> KernelLike:
        """Length-scales in the units of the pool's columns; a silent column gets its own spread."""
        by_group = np.append(np.exp(log_scales), 1.0)  # group −1 reads the last entry
        lengthscale = tuple((np.array(self.spreads) * by_group[np.array(self.groups)]).tolist())
        return RBF(lengthscale) if self.nu is None else Matern(lengthscale, self.nu)


@dataclass(frozen=True)
class Codes:
    """Hamming on codes, words or strings: exp(−h/l) with h the share of positions that differ."""

    name: str = "Hamming"

    @property
    def typical(self) -> Floats:
        """See HAMMING_SCALE."""
        return np.log([HAMMING_SCALE])

    def on(self, features: Any) -> Geometry:
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
class Bits:
    """Tanimoto on packed bits, which has no length-scale."""

    name: str = "Tanimoto"

    @property
    def typical(self) -> Floats:
        """Nothing to learn but signal, noise and mean."""
        return np.empty(0)

    def on(self, features: Any) -> Geometry:
        """Similarities, computed once."""
        covariance = Covariance(Tanimoto().matrix(features, features), lambda G: np.empty(0))
        return lambda log_scales: covariance

    def kernel(self, log_scales: Floats) -> KernelLike:
        """Tanimoto."""
        return Tanimoto()


def _all_alike(n: int) -> Geometry:
    """No column tells arms apart: one value for all of them."""
    covariance = Covariance(np.ones((n, n)), lambda G: np.zeros(1))
    return lambda log_scales: covariance
