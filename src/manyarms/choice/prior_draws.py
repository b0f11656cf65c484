"""Functions drawn from the prior, g(x) = p(x)ᵀw with standard normal w, at every arm of a pool at once.

S-GP-TS splits a posterior draw into a prior draw g and its correction at the inducing arms Z (theory §7.1).
After the correction, the residual e(x) = g(x) − z(x)ᵀL⁻¹g(Z) remains, whose exact variance is
k(x, x) − ‖z(x)‖². A feature map p is not exact, and where the posterior variance is small the error of p is
no longer negligible: too few eigenfunctions give too small a variance, other maps too large a one. The
actual variance v(x) of e is therefore kept up to date, and draws are adjusted to the exact variance at every
arm (`completed`). `prior_features.py` chooses the map for a kernel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from manyarms.embeddings import Embedding
from manyarms.kernels import KernelLike
from manyarms.pool.pool import Pool
from manyarms.posterior.state import PosteriorState
from manyarms.support.column_store import Columns
from manyarms.support.linalg import forward
from manyarms.support.validation import Floats, Ints

_STORED_BYTES = 1 << 31  # columns of p that need more memory are recomputed for each draw


@dataclass(frozen=True)
class PriorDraw:
    """n functions g: the weights of the feature map (M × n), and a key for the noise of each function."""

    weights: Floats
    keys: NDArray[np.uint64]


@dataclass(frozen=True)
class Residual:
    """The correction at the inducing arms Z: C = L⁻¹p(Z), and v(x) = ‖p(x) − Cᵀz(x)‖², the variance of e."""

    inducing: Ints
    correction: Floats  # C, m × M
    variance: Floats  # v, one per arm


@dataclass(frozen=True)
class CorrectedPrior:
    """The prior from which Thompson draws start, and its residual after correction at the inducing arms."""

    sampler: PriorSampler
    residual: Residual

    @classmethod
    def of(cls, sampler: PriorSampler | None, state: PosteriorState) -> CorrectedPrior | None:
        """The corrected prior for a newly built posterior; None without a sampler."""
        return None if sampler is None else cls(sampler, sampler.corrected(sampler.uncorrected(), state))

    def at(self, state: PosteriorState) -> CorrectedPrior:
        """The corrected prior for a later state of the same posterior."""
        return CorrectedPrior(self.sampler, self.sampler.corrected(self.residual, state))

    def to_plain(self) -> dict[str, Any]:
        """The arrays that the next draw reads and that cannot be recomputed bit for bit."""
        residual = self.residual
        return {
            "inducing": residual.inducing,
            "correction": residual.correction,
            "variance": residual.variance,
        }

    def from_plain(self, arrays: Mapping[str, Any]) -> CorrectedPrior:
        """The corrected prior that `to_plain` wrote, with the same sampler."""
        return CorrectedPrior(
            self.sampler, Residual(arrays["inducing"], arrays["correction"], arrays["variance"])
        )


class PriorSampler:
    """Prior draws over a pool through the map p. The columns of p are stored if they fit, or if `stored`."""

    def __init__(
        self, pool: Pool, kernel: KernelLike, feature_map: Embedding, storage: DTypeLike, stored: bool = False
    ) -> None:
        self.pool, self.kernel, self.feature_map = pool, kernel, feature_map
        self._storage = np.dtype(storage)
        self._columns = self._filled_columns(stored)
        self._names: NDArray[np.uint64] | None = None

    @property
    def dimension(self) -> int:
        """M, the dimension of the feature map p."""
        return self.feature_map.dimension

    def extended(self, pool: Pool) -> PriorSampler:
        """A sampler of the same functions on a pool with more arms."""
        return PriorSampler(pool, self.kernel, self.feature_map, self._storage)

    def draw(self, rng: np.random.Generator) -> PriorDraw:
        """Draw one function."""
        weights = rng.standard_normal(self.dimension)[:, None]
        return PriorDraw(weights, rng.integers(2**63, size=1).astype(np.uint64))

    def forms(self, vectors: Floats) -> Floats:
        """vᵀp(x) of every arm for each column v of the M × r matrix `vectors`: r × A."""
        values = np.empty((vectors.shape[1], self.pool.n_arms))
        for where, block in self.pool.blocks(bytes_per_arm=8 * (2 * self.dimension + 2 * len(values))):
            if self._columns is None:
                values[:, where] = (self.feature_map.matrix(block) @ vectors).T
            else:
                values[:, where] = self._columns.product(vectors, where)
        return values

    def rows(self, arms: Ints) -> Floats:
        """p(x) of these arms, len(arms) × M."""
        if self._columns is None:
            return self.feature_map.matrix(self.pool.take(arms))
        return self._columns.rows(arms, self.dimension)

    # ------------------------------------------------------------------ the residual

    def uncorrected(self) -> Residual:
        """The residual without inducing arms, where e = g."""
        return Residual(np.empty(0, dtype=np.int64), np.empty((0, self.dimension)), self._squares())

    def corrected(self, known: Residual, state: PosteriorState) -> Residual:
        """C and v for the inducing arms of `state`; `known` is the residual for an earlier state.

        Appended arms are added one after the other, each in one pass over the columns of z and p. After the
        sketch was rebuilt, the residual is computed from scratch.
        """
        if not np.array_equal(state.inducing[: len(known.inducing)], known.inducing):
            known = self._from_nothing(state)
        for place in range(len(known.inducing), len(state.inducing)):
            known = self._appended(known, state, place)
        return known

    def _appended(self, now: Residual, state: PosteriorState, place: int) -> Residual:
        """The residual with the column z_new of one more inducing arm s.

        c = (p(s) − Cᵀz(s)) / z_new(s), and v(x) falls by 2 z_new(x) qᵀc − z_new(x)²‖c‖², q = p(x) − Cᵀz(x).
        """
        arm = state.inducing[place]
        row = state.columns.rows(arm, place + 1)
        c = (self.rows(np.array([arm]))[0] - now.correction.T @ row[:place]) / row[place]
        new = state.columns.column(place)
        along = self.forms(c[:, None])[0]
        if place:
            along = along - state.forms((now.correction @ c)[:, None])[0]
        variance = np.maximum(now.variance - 2 * new * along + new * new * (c @ c), 0.0)
        return Residual(state.inducing[: place + 1], np.vstack([now.correction, c]), variance)

    def _from_nothing(self, state: PosteriorState) -> Residual:
        factor = np.tril(state.rows(state.inducing))
        correction = forward(factor, self.rows(state.inducing))
        variance = np.empty(self.pool.n_arms)
        for where, block in self.pool.blocks(bytes_per_arm=24 * self.dimension):
            arms = np.arange(where.start, where.stop)
            P = self.feature_map.matrix(block) if self._columns is None else self.rows(arms)
            Q = P - state.rows(arms) @ correction
            variance[where] = np.einsum("ij,ij->i", Q, Q)
        return Residual(state.inducing, correction, variance)

    # ------------------------------------------------------------------ noise determined by the features

    def noise(self, key: np.uint64) -> Floats:
        """Independent standard normal numbers, one per arm; arms with equal features share their number."""
        if self._names is None:
            blocks = self.pool.blocks(bytes_per_arm=64)
            self._names = np.concatenate([row_names(block) for _, block in blocks])
        return keyed_normals(self._names, key)

    def noise_at(self, points: Any, key: np.uint64) -> Floats:
        """The noise at any points; at the features of an arm it is the same as in `noise`."""
        return keyed_normals(row_names(np.asarray(points).astype(self.pool.features.dtype)), key)

    # ------------------------------------------------------------------ helpers

    def _filled_columns(self, stored: bool) -> Columns | None:
        if not stored and self.pool.n_arms * self.dimension * self._storage.itemsize > _STORED_BYTES:
            return None
        columns = Columns(self.pool.n_arms, self._storage, self.dimension)
        for where, block in self.pool.blocks(bytes_per_arm=16 * self.dimension):
            columns.write(where, 0, self.feature_map.matrix(block))
        return columns

    def _squares(self) -> Floats:
        """‖p(x)‖² of every arm."""
        parts = []
        for _, block in self.pool.blocks(bytes_per_arm=16 * self.dimension):
            P = self.feature_map.matrix(block)
            parts.append(np.einsum("ij,ij->i", P, P))
        return np.concatenate(parts)


def joined(draws: list[PriorDraw]) -> PriorDraw:
    """Several draws as one object."""
    return PriorDraw(
        np.hstack([draw.weights for draw in draws]), np.concatenate([draw.keys for draw in draws])
    )


def completed(residual: Floats, has: Floats, should: Floats, noise: Floats) -> Floats:
    """e(x) adjusted from its actual variance `has` to its exact variance `should`, arm by arm (theory §7.4).

    Excess variance is removed by scaling; missing variance is added as noise determined by the features.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(has > should, np.sqrt(should / has), 1.0)
    return np.asarray(scale * residual + np.sqrt(np.maximum(should - has, 0.0)) * noise)


def row_names(points: Any) -> NDArray[np.uint64]:
    """A 64-bit hash of each row: equal rows have equal hashes."""
    array = np.asarray(points)
    if array.dtype == object:
        rows = [repr(row).encode() for row in array.tolist()]
    else:
        rows = [row.tobytes() for row in np.ascontiguousarray(array)]
    digests = [hashlib.blake2b(row, digest_size=8).digest() for row in rows]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def keyed_normals(names: NDArray[np.uint64], key: np.uint64) -> Floats:
    """Standard normal numbers that depend only on (row hash, key), so the same point gets the same noise."""
    first, second = (_mixed(names ^ _mixed(np.array([key + np.uint64(turn)]))) for turn in (0, 1))
    uniform, angle = ((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 for bits in (first, second))
    return np.asarray(np.sqrt(-2.0 * np.log1p(-uniform)) * np.cos(2.0 * np.pi * angle))


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele et al. 2014): neighbouring inputs give unrelated outputs."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))
