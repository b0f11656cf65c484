"""Functions drawn from the prior, g(x) = p(x)ᵀw with standard normal w, at every arm of a pool at once.

S-GP-TS splits a posterior draw into a prior draw g and its correction at the inducing arms Z (theory §7.1).
After the correction, the residual e(x) = g(x) − z(x)ᵀL⁻¹g(Z) remains, whose exact variance is
k(x, x) − ‖z(x)‖². A feature map p is not exact, and where the posterior variance is small the error of p is
no longer negligible: too few eigenfunctions give too small a variance, other maps too large a one. The
actual variance v(x) of e is therefore kept up to date, and draws are adjusted to the exact variance at every
arm (`completed`). `prior_features.py` chooses the map for a kernel. What has the length of the pool is held
by the shards (`prior_columns.py`).
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from manyarms.choice.prior_columns import (
    PriorColumns,
    append_variance,
    keep_variance,
    keyed_normals,
    rebuild_variance,
    row_names,
    rows_in,
    set_variance,
    start_variance,
    variance_of,
)
from manyarms.embeddings import Embedding
from manyarms.engines.base import Shards, by_shard
from manyarms.kernels import KernelLike
from manyarms.pool.pool import Pool
from manyarms.posterior.over_pool import OverPool, joined
from manyarms.posterior.state import PosteriorState
from manyarms.support.linalg import forward
from manyarms.support.validation import Floats, Ints

_STORED_BYTES = 1 << 31  # columns of p that need more memory are recomputed for each draw
_KEYS = count()


@dataclass(frozen=True)
class PriorDraw:
    """n functions g: the weights of the feature map (M × n), and a key for the noise of each function."""

    weights: Floats
    keys: NDArray[np.uint64]

    @classmethod
    def joined(cls, draws: list[PriorDraw]) -> PriorDraw:
        """Several draws as one object."""
        weights, keys = [draw.weights for draw in draws], [draw.keys for draw in draws]
        return cls(np.hstack(weights), np.concatenate(keys))


@dataclass(frozen=True)
class PriorSampler:
    """Prior draws over a pool through the map p. The columns of p are stored if they fit, or if `stored`."""

    pool: Pool
    kernel: KernelLike
    feature_map: Embedding
    storage: DTypeLike
    stored: bool = False

    @property
    def dimension(self) -> int:
        """M, the dimension of the feature map p."""
        return self.feature_map.dimension

    @property
    def keeps_columns(self) -> bool:
        """Whether the columns of p are stored."""
        needed = self.pool.n_arms * self.dimension * np.dtype(self.storage).itemsize
        return self.stored or needed <= _STORED_BYTES

    def extended(self, pool: Pool) -> PriorSampler:
        """A sampler of the same functions on a pool with more arms."""
        return PriorSampler(pool, self.kernel, self.feature_map, self.storage)

    def draw(self, rng: np.random.Generator) -> PriorDraw:
        """Draw one function."""
        weights = rng.standard_normal(self.dimension)[:, None]
        return PriorDraw(weights, rng.integers(2**63, size=1).astype(np.uint64))

    def noise_at(self, points: Any, key: np.uint64) -> Floats:
        """The noise at any points; at the features of an arm it is the same as on the pool."""
        return keyed_normals(row_names(np.asarray(points).astype(self.pool.features.dtype)), key)


class PlacedSampler:
    """The columns of a sampler with the shards of a pool, until nothing refers to this object any more."""

    def __init__(self, sampler: PriorSampler, shards: Shards) -> None:
        self.shards, self.key = shards, next(_KEYS)
        storage = np.dtype(sampler.storage)
        call = self.key, PriorColumns, sampler.feature_map, storage, sampler.keeps_columns
        n_shards = len(shards.starts) - 1
        shards.each("place", [call] * n_shards)
        self._watch()

    def _watch(self) -> None:
        weakref.finalize(self, self.shards.release, "displace", self.key).atexit = False

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes)
        self._watch()


@dataclass(frozen=True)
class CorrectedPrior:
    """The prior from which Thompson draws start, after its correction at the inducing arms of one state.

    The correction is C = L⁻¹p(Z). The shards keep v(x) = ‖p(x) − Cᵀz(x)‖², the variance of e, with
    the version `over_pool`.
    """

    sampler: PriorSampler
    placed: PlacedSampler
    over_pool: OverPool
    inducing: Ints
    correction: Floats  # C, m × M

    @classmethod
    def of(cls, sampler: PriorSampler | None, state: PosteriorState) -> CorrectedPrior | None:
        """The corrected prior for a newly built posterior; None without a sampler."""
        if sampler is None:
            return None
        placed = PlacedSampler(sampler, state.over_pool.shards)
        return cls._built(sampler, placed, state)

    @classmethod
    def _built(cls, sampler: PriorSampler, placed: PlacedSampler, state: PosteriorState) -> CorrectedPrior:
        """Everything from scratch."""
        if not len(state.inducing):
            state.over_pool.map(start_variance, placed.key)
            nothing = np.empty((0, sampler.dimension))
            return cls(sampler, placed, state.over_pool, state.inducing, nothing)
        factor = np.tril(state.rows(state.inducing))
        correction = forward(factor, _rows(state.over_pool, placed.key, state.inducing))
        state.over_pool.map(rebuild_variance, placed.key, correction)
        return cls(sampler, placed, state.over_pool, state.inducing, correction)

    def at(self, state: PosteriorState) -> CorrectedPrior:
        """The corrected prior for a later state of the same posterior.

        Appended arms are added one after the other, each in one pass over the columns of z and p. After the
        sketch was rebuilt, the correction is computed from scratch.
        """
        known = len(self.inducing)
        appended = np.array_equal(state.inducing[:known], self.inducing)
        if not appended or state.over_pool is self.over_pool:
            return self if appended else self._built(self.sampler, self.placed, state)
        over_pool, correction = state.over_pool, self.correction
        over_pool.map(keep_variance, self.placed.key, self.over_pool.number)
        for place in range(known, len(state.inducing)):
            arm = state.inducing[place : place + 1]
            row = state.rows(arm)[0, : place + 1]
            c = (_rows(over_pool, self.placed.key, arm)[0] - correction.T @ row[:place]) / row[place]
            over_pool.map(append_variance, self.placed.key, place, c, correction @ c)
            correction = np.vstack([correction, c])
        return CorrectedPrior(self.sampler, self.placed, over_pool, state.inducing, correction)

    def variance(self) -> Floats:
        """v of every arm."""
        whole: Floats = joined(self.over_pool.map(variance_of, self.placed.key))
        return whole

    def to_plain(self) -> dict[str, Any]:
        """The arrays that the next draw reads and that cannot be recomputed bit for bit."""
        return {"inducing": self.inducing, "correction": self.correction, "variance": self.variance()}

    def from_plain(self, arrays: Mapping[str, Any], state: PosteriorState) -> CorrectedPrior:
        """The corrected prior that `to_plain` wrote, with the same sampler, for the restored state."""
        ranges = state.over_pool.ranges
        parts = [(self.placed.key, arrays["variance"][first:stop]) for first, stop in ranges]
        state.over_pool.map_each(set_variance, parts)
        return CorrectedPrior(
            self.sampler, self.placed, state.over_pool, arrays["inducing"], arrays["correction"]
        )


def _rows(over_pool: OverPool, key: int, arms: Ints) -> Floats:
    """p(x) of these arms, as the shards have it."""
    places = by_shard(over_pool.shards.starts, arms)
    calls = [None if here is None else (key, arms[here]) for here in places]
    found = over_pool.map_each(rows_in, calls)
    parts = [(here, part) for here, part in zip(places, found, strict=True) if here is not None]
    rows = np.empty((len(arms), parts[0][1].shape[1]))
    for here, part in parts:
        rows[here] = part
    return rows
