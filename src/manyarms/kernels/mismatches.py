"""Weighted numbers of differing positions, Σ_j w_j [x_j ≠ y_j], for very many pairs of rows of codes.

Comparing position by position takes an operation for each position of each pair. Where there are many pairs
and the codes are whole numbers, the positions are merged into a few: rows that agree in several positions
agree in one code that stands for all of them, and a table for each of the few arms holds the weights that
each such code adds. A pair then takes one look-up for each merged position, of which eight letters make two.

The weights are rounded to multiples of one power of two (by less than the rounding error of their sum).
Their sums are then exact, and do not depend on the order of the additions nor on which way was taken.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.support.validation import Floats, Ints

_TABLE = 2048  # entries of a table, which must stay in the cache
_WIDEST = 4096  # difference between the highest and the lowest code that is translated by a table
_BITS = 8  # positions compared one by one whose results fit into a byte
_LOOK_UP_FROM = 8  # arms on the shorter side, from which making the tables is worthwhile


class Mismatches:
    """The distances Σ_j w_j [x_j ≠ y_j] from a few rows of codes; a `Measure` of kernels/distances.py."""

    rows, points = 4096, 16

    def __init__(self, few: NDArray[Any], weights: Floats) -> None:
        self._few, self._weights = few, exactly_summable(weights)
        self._merged: list[_Merged] | None = None
        if len(few) >= _LOOK_UP_FROM:
            self._merged = _merged(few, self._weights)

    def prepared(self, block: NDArray[Any]) -> list[Any]:
        """The columns of the block, or the merged ones."""
        if self._merged is None:
            return [np.ascontiguousarray(column) for column in block.T]
        return [merged.codes(block) for merged in self._merged]

    def fill(self, piece: Floats, points: slice, block: list[Any]) -> None:
        """Write the distances between these points and the rows of the block."""
        if self._merged is None:
            piece[:] = self._of_bits(slice(0, _BITS), points, block)
            for first in range(_BITS, len(block), _BITS):
                piece += self._of_bits(slice(first, first + _BITS), points, block)
            return
        (first_merged, *others), (first_codes, *other_codes) = self._merged, block
        more = np.empty(piece.shape[1])
        for point, row in enumerate(piece, points.start):
            np.take(first_merged.tables[point], first_codes, out=row, mode="clip")
            for merged, codes in zip(others, other_codes, strict=True):
                row += np.take(merged.tables[point], codes, out=more, mode="clip")

    def _of_bits(self, positions: slice, points: slice, block: list[Any]) -> Floats:
        """The distances in at most eight positions: a byte says which differ, a table what that adds."""
        few, weights = self._few[points, positions], self._weights[positions]
        differing = np.zeros((len(few), len(block[0])), dtype=np.uint8)
        for j, column in enumerate(block[positions]):
            differing |= (column[None, :] != few[:, j, None]).view(np.uint8) << np.uint8(j)
        table = (np.arange(1 << len(weights))[:, None] >> np.arange(len(weights)) & 1) @ weights
        return np.asarray(np.take(table, differing, mode="clip"))


class _Merged:
    """Several positions as one code: Σ_j stride_j · (place of x_j among the values of the few arms)."""

    def __init__(self, positions: list[int], few: NDArray[Any], weights: Floats) -> None:
        self._positions = positions
        self._values = [np.unique(few[:, j]) for j in positions]
        sizes = [len(values) + 1 for values in self._values]  # the last place: a value that no arm has
        self._strides = np.cumprod([1, *sizes[:-1]])
        self._places = [
            _places(values, int(s)) for values, s in zip(self._values, self._strides, strict=True)
        ]
        self.tables = np.zeros((len(few), math.prod(sizes)))
        everything = np.arange(math.prod(sizes))
        for j, values, stride, size in zip(positions, self._values, self._strides, sizes, strict=True):
            own = np.searchsorted(values, few[:, j])
            self.tables += weights[j] * (everything // stride % size != own[:, None])

    def codes(self, block: NDArray[Any]) -> Ints:
        """The merged code of each row."""
        total = np.zeros(len(block), dtype=np.int64)
        for j, values, places in zip(self._positions, self._values, self._places, strict=True):
            offset = np.clip(block[:, j], values[0] - 1, values[-1] + 1) - (values[0] - 1)
            total += places[offset.astype(np.int64)]
        return total


def _places(values: NDArray[Any], stride: int) -> Ints:
    """Stride times the place of every whole number from one below the values to one above them."""
    offsets = (values - values[0]).astype(np.int64) + 1
    places = np.full(int(offsets[-1]) + 2, len(values), dtype=np.int64)
    places[offsets] = np.arange(len(values))
    return places * stride


def _merged(few: NDArray[Any], weights: Floats) -> list[_Merged] | None:
    """Neighbouring positions merged as far as tables reach; None if codes are not whole numbers in reach."""
    whole = few.dtype.kind in "iu" or (few.dtype.kind == "f" and bool((few == np.floor(few)).all()))
    if not whole or not few.size:
        return None
    few = few.astype(np.float64)  # of unsigned numbers, differences would wrap around
    if (np.ptp(few, axis=0) > _WIDEST).any():
        return None
    sizes = [len(np.unique(column)) + 1 for column in few.T]
    groups: list[list[int]] = []
    size = _TABLE + 1
    for j, levels in enumerate(sizes):
        if size * levels > _TABLE:
            groups.append([])
            size = 1
        groups[-1].append(j)
        size *= levels
    return [_Merged(group, few, weights) for group in groups]


def exactly_summable(weights: Floats) -> Floats:
    """The weights as multiples of 2⁻⁵² times a power of two that is at least their sum."""
    total = float(np.sum(weights))
    if not total > 0:
        return weights
    quantum = 2.0 ** (math.frexp(total)[1] - 52)
    return np.asarray(np.round(weights / quantum) * quantum)
