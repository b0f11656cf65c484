"""The posterior covariance on the leverage scale, between any arms and a growing set of pulled arms.

    c(x, y) = (k(x, y) − z(x)ᵀz(y))/λ + z(x)ᵀ V⁻¹ z(y),        c(x, x) = σ̃²(x)             (theory §2.5)

The first term is the covariance of the residuals. It is zero if either arm lies in the span of the sketch,
and is left out of posteriors without a residual.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.embeddings.nystrom import covariances
from manyarms.kernels import KernelLike
from manyarms.posterior.posterior import Posterior
from manyarms.posterior.shard import Shard, Version
from manyarms.support.growing_matrix import GrowingMatrix
from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True)
class ArmRows:
    """What the covariance reads of some arms.

    It is z, the features, the standard deviation of the residual, and mean and σ̃² at the last feedback.
    """

    z: Floats
    features: Any
    residual_std: Floats
    mean: Floats
    leverage: Floats

    def part(self, which: Any) -> ArmRows:
        """Some of these arms."""
        return ArmRows(*(values[which] for values in vars(self).values()))

    @classmethod
    def joined(cls, parts: Sequence[ArmRows]) -> ArmRows:
        """The arms of all these parts."""
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))


@dataclass(frozen=True)
class PulledSet:
    """A set U of pulled arms as the shards are told of it: the rows of the arms, and V⁻¹z of each."""

    rows: ArmRows
    solved: Floats
    ridge: float

    def columns_of(self, shard: Shard, version: Version) -> Iterator[tuple[slice, Floats]]:
        """c(x, U) for all arms x of a shard, block by block: one pass."""
        u, outside = len(self.solved), self.rows.residual_std > 0
        beyond = self.rows.part(outside)
        forms = np.vstack([self.solved, beyond.z]).T
        for where, block in shard.pool.blocks(bytes_per_arm=8 * (4 * forms.shape[1] + 4)):
            products = version.columns.product(forms, where, version.compiled)
            columns = np.ascontiguousarray(products[:u].T)
            if len(beyond.z):
                std = np.sqrt(version.values.residual[where])
                columns[:, outside] += _residual(
                    version.start.kernel, self.ridge, block, std, beyond, products[u:].T
                )
            yield where, columns


class PulledCovariance:
    """c(·, U) for a set U of different arms that grows by one arm at a time."""

    def __init__(self, posterior: Posterior) -> None:
        self._posterior, self._state = posterior, posterior.state
        self.places: dict[int, int] = {}  # arm → its position in U
        self._rows: list[ArmRows] = []  # of U in order, in parts
        self._solved = GrowingMatrix(0, self._state.sketch_size)  # V⁻¹z
        self._between = GrowingMatrix(0)

    def __len__(self) -> int:
        return len(self.places)

    def rows_of(self, arms: Ints) -> ArmRows:
        """What the covariance reads of these arms."""
        known, z = self._state.with_rows(arms)
        std = np.sqrt(known.residual) if self._state.keeps_residual else np.zeros(len(arms))
        features = self._posterior.pool.take(arms)
        return ArmRows(z, features, std, known.mean, known.leverage)

    def add(self, arm: int, row: ArmRows | None = None, column: Floats | None = None) -> None:
        """Append a new arm to U; `row` and c(U, s) as a `column` are computed unless they are given."""
        place = len(self)
        row = self.rows_of(np.array([arm])) if row is None else row
        solved = self._state.weights.precision.apply(row.z.T).T
        if column is None:
            column = self._columns(self._pulled(), row, solved)
        here, before = slice(place, place + 1), slice(0, place)
        self._between.reserve(place + 1, place + 1)
        self._between.write(before, here, column)
        self._between.write(here, before, column.T)
        self._between.write(here, here, row.leverage[0])
        self._solved.reserve(place + 1, self._state.sketch_size)
        self._solved.write(here, slice(None), solved)
        self._rows.append(row)
        self.places[arm] = place

    def between(self) -> Floats:
        """c(U, U), u × u."""
        return self._between.corner(len(self), len(self))

    def with_all(self, rows: ArmRows) -> Floats:
        """c(x, U) for each of these arms x."""
        return self._columns(rows, self._pulled(), self._solved_rows())

    def with_last(self, rows: ArmRows) -> Floats:
        """c(x, s) for each of these arms x and the last arm s of U."""
        return self._columns(rows, self._rows[-1].part(slice(-1, None)), self._solved_rows()[-1:])[:, 0]

    def pulled_set(self) -> PulledSet:
        """U as the shards are told of it."""
        return PulledSet(self._pulled(), self._solved_rows().copy(), self._posterior.ridge)

    # ------------------------------------------------------------------ inside

    def _solved_rows(self) -> Floats:
        """V⁻¹z of each arm of U, u × m."""
        return self._solved.corner(len(self), self._state.sketch_size)

    def _pulled(self) -> ArmRows:
        if not self._rows:
            return self.rows_of(np.empty(0, dtype=np.int64))
        if len(self._rows) > 1:
            self._rows = [ArmRows.joined(self._rows)]
        return self._rows[0]

    def _columns(self, rows: ArmRows, pulled: ArmRows, solved: Floats) -> Floats:
        """c(x, s) for each x of `rows` and each s of `pulled`, whose V⁻¹z is `solved`."""
        columns = rows.z @ solved.T
        outside = pulled.residual_std > 0
        if outside.any() and rows.residual_std.any():
            part = pulled if outside.all() else pulled.part(outside)
            kernel, ridge = self._posterior.kernel, self._posterior.ridge
            columns[:, outside] += _residual(
                kernel, ridge, rows.features, rows.residual_std, part, rows.z @ part.z.T
            )
        return columns


def _residual(
    kernel: KernelLike, ridge: float, features: Any, std: Floats, pulled: ArmRows, products: Floats
) -> Floats:
    """(k(x, s) − z(x)ᵀz(s))/λ; `products` holds z(x)ᵀz(s).

    It is limited to what the residual variances of the two arms allow, which rounding may exceed.
    """
    limit = std[:, None] * pulled.residual_std
    residual = covariances(kernel, features, pulled.features) - products
    return np.asarray(np.clip(residual, -limit, limit) / ridge)
