"""What each shard keeps and computes for Thompson draws: the feature map p of the prior at its arms.

`PriorColumns` lives with a shard. The variance v(x) of the residual e belongs to one version of the posterior
and is kept with it (`prior_draws.py` explains both).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.embeddings import Embedding
from manyarms.engines.base import keeps
from manyarms.pool.pool import Pool
from manyarms.posterior.shard import Shard, Version
from manyarms.support.column_room import ColumnRoom
from manyarms.support.column_store import Columns
from manyarms.support.compiled import worthwhile
from manyarms.support.validation import Floats, Ints


class PriorColumns:
    """p(x) of the arms of a shard: stored, or computed again at each use."""

    def __init__(
        self, pool: Pool, room: ColumnRoom, feature_map: Embedding, storage: np.dtype[Any], stored: bool
    ) -> None:
        self.pool, self.feature_map = pool, feature_map
        self._columns: Columns | None = None
        self._names: NDArray[np.uint64] | None = None
        if stored:
            m = feature_map.dimension
            self._columns = room.columns(pool.n_arms, storage, pool.n_arms)
            self._columns.reserve(m)
            self._columns.remember(0, m, pool.block_rows(16 * m), self._fill)
            if self._columns.stored:
                self._fill(self._columns, slice(0, pool.n_arms))

    def _fill(self, columns: Columns, rows: slice) -> None:
        """Write p of these rows."""
        size = 16 * self.feature_map.dimension
        for where, block in self.pool.blocks(size, rows.start, stop=rows.stop):
            columns.write(where, 0, self.feature_map.matrix(block))

    def forms(self, vectors: Floats, n_arms: int) -> Floats:
        """vᵀp(x) of every arm for each column v of the M × r matrix `vectors`: r × arms.

        `n_arms` is the number of arms of the whole pool.
        """
        dimension, n_forms = vectors.shape
        compiled = worthwhile(n_arms, dimension)
        values = np.empty((n_forms, self.pool.n_arms))
        for where, block in self.pool.blocks(bytes_per_arm=8 * (2 * dimension + 2 * n_forms)):
            if self._columns is None:
                values[:, where] = (self.feature_map.matrix(block) @ vectors).T
            else:
                values[:, where] = self._columns.product(vectors, where, compiled)
        return values

    def rows(self, places: Ints) -> Floats:
        """p(x) of the arms at these places of the shard."""
        if self._columns is None:
            return self.feature_map.matrix(self.pool.take(places))
        return self._columns.rows(places, self.feature_map.dimension)

    def noise(self, key: np.uint64) -> Floats:
        """Independent standard normal numbers, one per arm; arms with equal features share their number."""
        if self._names is None:
            blocks = self.pool.blocks(bytes_per_arm=64)
            self._names = np.concatenate([row_names(block) for _, block in blocks])
        return keyed_normals(self._names, key)


# ---------------------------------------------------------------------- the variance of the residual


_WITH_COLUMNS = (("placed", 2),)


def note(key: int) -> str:
    """The name under which v is kept with a version."""
    return f"prior variance {key}"


@keeps("version", makes=1, reads=_WITH_COLUMNS)
def start_variance(shard: Shard, version: Version, key: int) -> None:
    """Without inducing arms: v(x) = ‖p(x)‖²."""
    columns: PriorColumns = shard.placed[key]
    parts = []
    for _, block in shard.pool.blocks(bytes_per_arm=16 * columns.feature_map.dimension):
        P = columns.feature_map.matrix(block)
        parts.append(np.einsum("ij,ij->i", P, P))
    version.notes[note(key)] = np.concatenate(parts)


@keeps("version", makes=1, reads=_WITH_COLUMNS)
def rebuild_variance(shard: Shard, version: Version, key: int, correction: Floats) -> None:
    """From scratch: v(x) = ‖p(x) − Cᵀz(x)‖²."""
    columns: PriorColumns = shard.placed[key]
    variance = np.empty(shard.n_arms)
    for where, _ in shard.pool.blocks(bytes_per_arm=24 * columns.feature_map.dimension):
        places = np.arange(where.start, where.stop)
        Q = columns.rows(places) - version.columns.rows(places, version.size) @ correction
        variance[where] = np.einsum("ij,ij->i", Q, Q)
    version.notes[note(key)] = variance


@keeps("version", makes=1, reads=(("version", 3),))
def keep_variance(shard: Shard, version: Version, key: int, old: int) -> None:
    """The v of an earlier version with the same inducing arms."""
    version.notes[note(key)] = shard.versions[old].notes[note(key)]


@keeps("version", makes=1)
def set_variance(shard: Shard, version: Version, key: int, variance: Floats) -> None:
    """The v that a saved run contains."""
    version.notes[note(key)] = variance


@keeps("version", makes=1, reads=_WITH_COLUMNS)
def append_variance(shard: Shard, version: Version, key: int, place: int, c: Floats, before: Floats) -> None:
    """One more inducing arm, whose column of z is at `place`: v falls by 2 z_new qᵀc − z_new²‖c‖².

    q = p(x) − Cᵀz(x); `before` is C c for the columns before.
    """
    new = version.columns.column(place)
    along = shard.placed[key].forms(c[:, None], version.start.n_arms)[0]
    if place:
        along = along - _forms(shard, version, before[:, None])[0]
    known = version.notes[note(key)]
    version.notes[note(key)] = np.maximum(known - 2 * new * along + new * new * (c @ c), 0.0)


def variance_of(shard: Shard, version: Version, key: int) -> Floats:
    """v of every arm of the shard."""
    variance: Floats = version.notes[note(key)]
    return variance


def rows_in(shard: Shard, version: Version, key: int, arms: Ints) -> Floats:
    """p(x) of these arms of the pool, which belong to this shard."""
    rows: Floats = shard.placed[key].rows(shard.local(arms))
    return rows


# ---------------------------------------------------------------------- draws


@dataclass(frozen=True)
class DrawMessage:
    """n functions as the shards are told of them: θ and, with a prior, its weights, keys and correction."""

    weights: Floats  # θ, m × n
    scale: float  # α
    key: int | None = None
    prior_weights: Floats | None = None  # M × n
    keys: NDArray[np.uint64] | None = None
    correction: Floats | None = None  # C w, m × n; None without inducing arms


def draw_values(shard: Shard, version: Version, draws: DrawMessage) -> Floats:
    """The values of the functions at every arm of the shard, n × arms."""
    values = _forms(shard, version, draws.weights)
    if draws.key is None:
        return values
    assert draws.prior_weights is not None
    assert draws.keys is not None
    columns: PriorColumns = shard.placed[draws.key]
    residuals = columns.forms(draws.prior_weights, version.start.n_arms)
    if draws.correction is not None:
        residuals -= _forms(shard, version, draws.correction)
    has, should = variance_of(shard, version, draws.key), version.values.residual
    for row, key in zip(residuals, draws.keys, strict=True):
        row[:] = completed(row, has, should, columns.noise(key))
    return values + draws.scale * residuals


def _forms(shard: Shard, version: Version, vectors: Floats) -> Floats:
    """The first len(vectors) columns of z times `vectors`, r × arms."""
    parts = [
        version.columns.product(vectors, where, version.compiled)
        for where, _ in shard.pool.blocks(16 * vectors.shape[1])
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


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
    first, second = (random_names(names, key + np.uint64(turn)) for turn in (0, 1))
    uniform, angle = ((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 for bits in (first, second))
    return np.asarray(np.sqrt(-2.0 * np.log1p(-uniform)) * np.cos(2.0 * np.pi * angle))


def random_names(numbers: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """A random 64-bit number for each of these numbers, which depends only on it and on the key."""
    return _mixed(numbers ^ _mixed(np.array([key])))


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele et al. 2014): neighbouring inputs give unrelated outputs."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))
