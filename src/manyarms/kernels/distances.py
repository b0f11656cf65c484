"""Squared distances between arms, and functions of them, in pieces that stay in the cache.

A kernel of a whole pool is a function of very many distances. Written as distances first and the function
afterwards, each goes through memory several times; here both are done piece by piece.

There are two ways to compute a distance. Summing squares feature by feature is accurate for near-duplicates
too. |x|² + |y|² − 2xᵀy for all pairs is one matrix product, which is several times faster, but its error is a
rounding error of |x|² + |y|²; close pairs are therefore computed again from their differences. The product is
used for large pieces of a pool and for many features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from manyarms.errors import InvalidKernelError
from manyarms.kernels.checks import numeric, numeric_pair
from manyarms.support.validation import Floats

_DIRECT_FEATURES = 64  # above, distances are products whatever the number of pairs
_PRODUCT_FROM = 16, 1024  # arms on the shorter side and in a block, from which distances are products
_BLOCK_ROWS = 4096  # of the longer side; divides `BLOCK_ROWS` of support/column_store.py
_PIECE = 1 << 15  # distances at a time
_CLOSE = 1e-6  # of |x|² + |y|²: pairs this close are computed again

Lengthscale = float | tuple[float, ...]


def squared_distances(X: Any, Y: Any, lengthscale: Lengthscale) -> Floats:
    """‖(x − y)/l‖² for all pairs, accurate also where x and y nearly coincide."""
    return of_squared_distances(X, Y, lengthscale, _unchanged)


def of_squared_distances(
    X: Any, Y: Any, lengthscale: Lengthscale, function: Callable[[Floats, Floats], object]
) -> Floats:
    """A function of ‖(x − y)/l‖² for all pairs; `function(squares, values)` writes it into `values`.

    A pair has the same bits in one call for all arms of the longer side and in calls for parts of it, if the
    parts begin at multiples of 4096 arms and none is shorter than the other side.
    """
    X, Y = numeric_pair(X, Y)
    check_scales(X, lengthscale)
    scale = np.asarray(lengthscale)

    def measure(few: Floats, n_many: int, products: bool) -> Measure:
        return squares_to(few, n_many, scale, products)

    return over_pairs(X, Y, X.shape[1], measure, function)


class Measure(Protocol):
    """Distances from a few arms to many, which come block by block.

    `rows` of the many arms and `points` of the few are worked on at a time: `prepared` does what is common
    to all points of a block of rows, and `fill` writes the distances of some points to it.
    """

    rows: int
    points: int

    def prepared(self, block: Any) -> Any:
        """What `fill` needs about these rows."""

    def fill(self, piece: Floats, points: slice, block: Any) -> None:
        """Write the distances between these points and the prepared rows."""


def over_pairs(
    X: Any,
    Y: Any,
    n_features: int,
    measure: Callable[[Any, int, bool], Measure],
    function: Callable[[Floats, Floats], object],
) -> Floats:
    """A function of the distances of all pairs; `measure(few, n_many, products)` gives the distances.

    `products` says whether distances of `n_features` numbers are to be computed as matrix products.
    """
    swapped = len(Y) < len(X)  # both ways are faster on few long rows
    few, many = (Y, X) if swapped else (X, Y)
    result = np.empty((len(few), len(many)))
    if not result.size:
        return result.T if swapped else result
    by_product = len(many)  # up to here distances are products, from here on sums of squared differences
    if n_features <= _DIRECT_FEATURES:
        by_product -= len(many) % _BLOCK_ROWS if len(many) % _BLOCK_ROWS < _PRODUCT_FROM[1] else 0
        by_product = by_product if len(few) >= _PRODUCT_FROM[0] else 0
    for products, part in ((True, slice(0, by_product)), (False, slice(by_product, len(many)))):
        if part.stop > part.start:
            _fill(result[:, part], measure(few, part.stop - part.start, products), many[part], function)
    return result.T if swapped else result


def squares_to(few: Floats, n_many: int, scale: Floats, products: bool) -> Measure:
    """Squared distances from these arms, in units of `scale`."""
    return _Products(few, scale) if products else _Differences(few, scale, n_many)


def _fill(result: Floats, measure: Measure, many: Any, function: Callable[[Floats, Floats], object]) -> None:
    """Write the function of all distances to the rows of `many` into `result`, piece by piece."""
    memory = np.empty(measure.points * min(measure.rows, len(many)))
    for start in range(0, len(many), measure.rows):
        rows = slice(start, min(start + measure.rows, len(many)))
        block = measure.prepared(many[rows])
        for first in range(0, len(result), measure.points):
            points = slice(first, min(first + measure.points, len(result)))
            shape = points.stop - points.start, rows.stop - rows.start
            piece = memory[: shape[0] * shape[1]].reshape(shape)
            measure.fill(piece, points, block)
            function(piece, result[points, rows])


def _unchanged(squares: Floats, values: Floats) -> None:
    values[:] = squares


def unit_variances(X: Any, lengthscale: Lengthscale) -> Floats:
    """k(x, x) = 1 for every arm, after checking that the features fit the kernel."""
    X = numeric(X)
    check_scales(X, lengthscale)
    return np.ones(len(X))


def check_scales(X: Floats, lengthscale: Lengthscale) -> None:
    """Refuse features that do not fit the length-scales."""
    if isinstance(lengthscale, tuple) and X.shape[1] != len(lengthscale):
        raise InvalidKernelError(
            f"the kernel has {len(lengthscale)} length-scales, the arms have {X.shape[1]} features"
        )


class _Differences:
    """Sums of squared differences."""

    def __init__(self, few: Floats, scale: Floats, n_many: int) -> None:
        from scipy.spatial.distance import cdist  # imported late: it doubles the import time of the package

        self._few, self._scale, self._cdist = few / scale, scale, cdist
        self.points = min(len(few), max(8, _PIECE // n_many))
        self.rows = _PIECE // self.points

    def prepared(self, block: Floats) -> Any:
        return block / self._scale

    def fill(self, piece: Floats, points: slice, block: Any) -> None:
        self._cdist(self._few[points], block, "sqeuclidean", out=piece)


class _Products:
    """|x|² + |y|² − 2xᵀy as the product of (−2x, |x|², 1) and (y, 1, |y|²)."""

    rows, points = _BLOCK_ROWS, 16

    def __init__(self, few: Floats, scale: Floats) -> None:
        few = few / scale
        self._scale, self._centre = scale, few.mean(axis=0)
        self._few = few - self._centre
        self._norms = np.einsum("ij,ij->i", self._few, self._few)
        self._left = np.column_stack([-2.0 * self._few, self._norms, np.ones(len(few))])

    def prepared(self, block: Floats) -> Any:
        """The block around the same centre, its squared norms, and the right factor."""
        block = block / self._scale - self._centre
        norms = np.einsum("ij,ij->i", block, block)
        right = np.empty((block.shape[1] + 2, len(block)))
        right[:-2], right[-2], right[-1] = block.T, 1.0, norms
        return block, norms, right

    def fill(self, piece: Floats, points: slice, block: Any) -> None:
        rows, norms, right = block
        np.matmul(self._left[points], right, out=piece)
        few, few_norms = self._few[points], self._norms[points]
        for i in np.flatnonzero(piece.min(axis=1) <= _CLOSE * (few_norms + norms.max())):
            close = np.flatnonzero(piece[i] <= _CLOSE * (few_norms[i] + norms))
            difference = rows[close] - few[i]
            piece[i, close] = np.einsum("ij,ij->i", difference, difference)
