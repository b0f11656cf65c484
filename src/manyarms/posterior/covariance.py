"""The posterior covariance on the leverage scale, between any arms and a growing set of pulled arms.

    c(x, y) = (k(x, y) − z(x)ᵀz(y))/λ + z(x)ᵀ V⁻¹ z(y),        c(x, x) = σ̃²(x)             (theory §2.5)

The first term is the covariance of the residuals. It is zero if either arm lies in the span of the sketch,
and is left out of posteriors without a residual.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.embeddings.nystrom import covariances
from manyarms.posterior.posterior import Posterior
from manyarms.support.growing_matrix import GrowingMatrix
from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True)
class ArmRows:
    """What the covariance reads of some arms: z, the features, and the standard deviation of the residual."""

    z: Floats
    features: Any
    residual_std: Floats

    def part(self, which: Any) -> ArmRows:
        """Some of these arms."""
        return ArmRows(self.z[which], self.features[which], self.residual_std[which])

    def joined(self, other: ArmRows) -> ArmRows:
        """These arms and the others."""
        return ArmRows(
            np.concatenate([self.z, other.z]),
            np.concatenate([self.features, other.features]),
            np.concatenate([self.residual_std, other.residual_std]),
        )


class PulledCovariance:
    """c(·, U) for a set U of different arms that grows by one arm at a time."""

    def __init__(self, posterior: Posterior) -> None:
        self._posterior, self._state = posterior, posterior.state
        self.places: dict[int, int] = {}  # arm → its position in U
        self._z = GrowingMatrix(0, self._state.sketch_size)
        self._solved = GrowingMatrix(0, self._state.sketch_size)  # V⁻¹z
        self._between = GrowingMatrix(0)

    def __len__(self) -> int:
        return len(self.places)

    def rows_of(self, arms: Ints) -> ArmRows:
        """What the covariance reads of these arms."""
        return self._rows(arms, self._state.rows(arms))

    def add(self, arm: int, row: ArmRows | None = None, column: Floats | None = None) -> None:
        """Append a new arm to U; `row` and c(U, s) as a `column` are computed unless they are given."""
        place = len(self)
        row = self.rows_of(np.array([arm])) if row is None else row
        solved = self._state.weights.precision.apply(row.z.T).T
        if column is None:
            column = self._columns(self._pulled(), row, solved)
        here, before, everything = slice(place, place + 1), slice(0, place), slice(None)
        self._between.reserve(place + 1, place + 1)
        self._between.write(before, here, column)
        self._between.write(here, before, column.T)
        self._between.write(here, here, self._state.leverage[arm])
        for matrix, values in ((self._z, row.z), (self._solved, solved)):
            matrix.reserve(place + 1, self._state.sketch_size)
            matrix.write(here, everything, values)
        self.places[arm] = place

    def between(self) -> Floats:
        """c(U, U), u × u."""
        return self._between.corner(len(self), len(self))

    def with_all(self, rows: ArmRows) -> Floats:
        """c(x, U) for each of these arms x."""
        return self._columns(rows, self._pulled(), self._all(self._solved))

    def with_last(self, rows: ArmRows) -> Floats:
        """c(x, s) for each of these arms x and the last arm s of U."""
        last = self._rows(np.array([next(reversed(self.places))]), self._all(self._z)[-1:])
        return self._columns(rows, last, self._all(self._solved)[-1:])[:, 0]

    def over_pool(self) -> Iterator[tuple[slice, Floats]]:
        """c(x, U) for all arms x of the pool, block by block: one pass."""
        pulled, u = self._pulled(), len(self)
        outside = pulled.residual_std > 0
        beyond = pulled.part(outside)
        forms = np.vstack([self._all(self._solved), beyond.z]).T
        for where, block in self._posterior.pool.blocks(bytes_per_arm=8 * (4 * forms.shape[1] + 4)):
            products = self._state.columns.product(forms, where)
            columns = np.ascontiguousarray(products[:u].T)
            if len(beyond.z):
                std = np.sqrt(self._state.pool_values.residual[where])
                columns[:, outside] += self._residual(block, std, beyond, products[u:].T)
            yield where, columns

    # ------------------------------------------------------------------ inside

    def _all(self, matrix: GrowingMatrix) -> Floats:
        return matrix.corner(len(self), self._state.sketch_size)

    def _pulled(self) -> ArmRows:
        return self._rows(np.fromiter(self.places, dtype=np.int64, count=len(self)), self._all(self._z))

    def _rows(self, arms: Ints, z: Floats) -> ArmRows:
        state = self._state
        residual = state.pool_values.residual[arms] if state.keeps_residual else np.zeros(len(arms))
        return ArmRows(z, self._posterior.pool.features[arms], np.sqrt(residual))

    def _columns(self, rows: ArmRows, pulled: ArmRows, solved: Floats) -> Floats:
        """c(x, s) for each x of `rows` and each s of `pulled`, whose V⁻¹z is `solved`."""
        columns = rows.z @ solved.T
        outside = pulled.residual_std > 0
        if outside.any() and rows.residual_std.any():
            part = pulled if outside.all() else pulled.part(outside)
            columns[:, outside] += self._residual(rows.features, rows.residual_std, part, rows.z @ part.z.T)
        return columns

    def _residual(self, features: Any, std: Floats, pulled: ArmRows, products: Floats) -> Floats:
        """(k(x, s) − z(x)ᵀz(s))/λ; `products` holds z(x)ᵀz(s).

        It is limited to what the residual variances of the two arms allow, which rounding may exceed.
        """
        limit = std[:, None] * pulled.residual_std
        residual = covariances(self._posterior.kernel, features, pulled.features) - products
        return np.asarray(np.clip(residual, -limit, limit) / self._posterior.ridge)
