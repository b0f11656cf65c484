"""Functions drawn from the prior, g(x) = p(x)ᵀw with standard normal w, at every arm of a pool at once.

S-GP-TS splits a posterior draw into a prior draw and its correction (spec §4, "Decomposed draws"), so
all it needs of a kernel is a feature map p with p(x)ᵀp(y) ≈ k(x, y) that is good *everywhere*: the
approximation of the posterior is another matter, and much smaller.

Which map a kernel gets is said in `prior_maps.py`. Maps with few features for what they stand for (a
landmark set, for kernels without eigenfunctions) leave a residual k(x, x) − ‖p(x)‖². It is drawn as well,
independently from point to point, so that no arm's variance starves.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from manyarms.embeddings import Columns, Embedding
from manyarms.kernels import KernelLike
from manyarms.pool import Pool
from manyarms.validation import Floats

_STORED_BYTES = 1 << 30  # feature columns larger than this are computed anew for each draw


@dataclass(frozen=True)
class PriorDraw:
    """One or more functions g: weights of the features (M × n), and the key of each one's residual noise."""

    weights: Floats
    keys: NDArray[np.uint64]


class Prior:
    """Prior draws over a pool. The feature columns are stored when there is room for them."""

    def __init__(
        self, pool: Pool, kernel: KernelLike, features: Embedding, *, storage: DTypeLike, residual: bool
    ) -> None:
        self.pool, self.kernel, self.features = pool, kernel, features
        self._storage, self._has_residual = np.dtype(storage), residual
        self._columns = self._stored()
        self._stds, self._names = self._residuals() if residual else (np.empty(0), np.empty(0, np.uint64))

    @property
    def width(self) -> int:
        """M, the number of features."""
        return self.features.width

    def extended(self, pool: Pool) -> Prior:
        """The same functions on a pool with more arms."""
        return Prior(pool, self.kernel, self.features, storage=self._storage, residual=self._has_residual)

    def draw(self, rng: np.random.Generator) -> PriorDraw:
        """One function."""
        weights = rng.standard_normal(self.width)[:, None]
        return PriorDraw(weights, rng.integers(2**63, size=1).astype(np.uint64))

    def on_pool(self, draws: PriorDraw) -> Floats:
        """g of every arm, n × A."""
        values = np.empty((draws.weights.shape[1], self.pool.n_arms))
        for where, block in self.pool.blocks(bytes_per_arm=8 * (2 * self.width + 2 * len(values))):
            if self._columns is None:
                values[:, where] = (self.features.matrix(block) @ draws.weights).T
            else:
                values[:, where] = self._columns.product(draws.weights, where)
        if self._has_residual:
            for row, key in zip(values, draws.keys, strict=True):
                row += self._stds * keyed_normals(self._names, key)
        return values

    def at(self, draws: PriorDraw, points: Any) -> Floats:
        """g at any points, n × points; at an arm's features the same as in `on_pool`."""
        matrix = self.features.matrix(points)
        values = np.asarray((matrix @ draws.weights).T)
        if self._has_residual:
            stds, names = _residual_stds(self.kernel, points, matrix), row_names(points)
            for row, key in zip(values, draws.keys, strict=True):
                row += stds * keyed_normals(names, key)
        return values

    def _stored(self) -> Columns | None:
        if self.pool.n_arms * self.width * self._storage.itemsize > _STORED_BYTES:
            return None
        columns = Columns(self.pool.n_arms, self._storage)
        columns.reserve(self.width)
        for where, block in self.pool.blocks(bytes_per_arm=16 * self.width):
            columns.write(where, 0, self.features.matrix(block))
        return columns

    def _residuals(self) -> tuple[Floats, NDArray[np.uint64]]:
        stds, names = [], []
        for _, block in self.pool.blocks(bytes_per_arm=16 * self.width):
            stds.append(_residual_stds(self.kernel, block, self.features.matrix(block)))
            names.append(row_names(block))
        return np.concatenate(stds), np.concatenate(names)


def joined(draws: list[PriorDraw]) -> PriorDraw:
    """Several draws as one."""
    return PriorDraw(
        np.hstack([draw.weights for draw in draws]), np.concatenate([draw.keys for draw in draws])
    )


def _residual_stds(kernel: KernelLike, points: Any, matrix: Floats) -> Floats:
    explained = np.einsum("ij,ij->i", matrix, matrix)
    return np.asarray(np.sqrt(np.maximum(kernel.diag(points) - explained, 0.0)))


# ------------------------------------------------------------------ noise that belongs to a point


def row_names(points: Any) -> NDArray[np.uint64]:
    """A number for each row, made from its contents: equal rows have equal names."""
    array = np.asarray(points)
    if array.dtype == object:
        rows = [repr(row).encode() for row in array.tolist()]
    else:
        rows = [row.tobytes() for row in np.ascontiguousarray(array)]
    digests = [hashlib.blake2b(row, digest_size=8).digest() for row in rows]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def keyed_normals(names: NDArray[np.uint64], key: np.uint64) -> Floats:
    """Standard normal numbers that depend on (name, key) alone: the same point gets the same noise."""
    first, second = (_mixed(names ^ _mixed(np.array([key + np.uint64(turn)]))) for turn in (0, 1))
    uniform, angle = ((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 for bits in (first, second))
    return np.asarray(np.sqrt(-2.0 * np.log1p(-uniform)) * np.cos(2.0 * np.pi * angle))


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele et al. 2014): neighbouring inputs give unrelated outputs."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))
