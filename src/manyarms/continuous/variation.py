"""How much a function of norm one in the RKHS can vary within a cell (theory §13.1).

|f(x) − f(c)| ≤ ‖f‖ · d_k(x, c) with the distance d_k(x, c)² = k(x, x) − 2k(x, c) + k(c, c) of the kernel. The
*radius* of a cell is the largest d_k(x, c) to its centroid c. It is attained in the corner farthest from c if
k decreases with the distance along every axis (RBF, Matérn, their multiples, sums and products), and in some
corner if d_k is a norm (linear kernels), provided that the features are linear in the coordinates of the box.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from manyarms.continuous.box import Box
from manyarms.errors import InvalidParameterError
from manyarms.kernels import RBF, KernelLike, Matern, Product, Scale, Sum
from manyarms.kernels.log_features import LogFeatures
from manyarms.support.validation import Floats

Encode = Callable[[Floats], Any]  # from coordinates to the features that the kernel is evaluated on
_ROUNDING = 1e-9
_CHUNK = 64  # cells whose distances are computed together
MOST_AXES = 12  # of a kernel that needs all 2^d corners of a cell


def decreases_with_distance(kernel: KernelLike) -> bool:
    """Whether k(x, y) falls as x and y move apart along any axis."""
    if isinstance(kernel, Scale | LogFeatures):
        return decreases_with_distance(kernel.kernel)
    if isinstance(kernel, Sum | Product):
        return all(decreases_with_distance(part) for part in kernel.parts)
    return isinstance(kernel, RBF | Matern)


@dataclass(frozen=True)
class Variation:
    """The distance of a kernel on the cells of a box."""

    kernel: KernelLike
    encode: Encode
    box: Box

    def __post_init__(self) -> None:
        if len(self.box) > MOST_AXES and not decreases_with_distance(self.kernel):
            rule = f"RBF, Matern, or a combination of them, for a box of more than {MOST_AXES} axes"
            raise InvalidParameterError("kernel", self.kernel, rule)

    def distances(self, first: Floats, second: Floats) -> Floats:
        """d_k between row i of `first` and row i of `second`, both coordinates."""
        found = [np.empty(0)]
        for start in range(0, len(first), _CHUNK):
            here = slice(start, start + _CHUNK)
            x, y = self.encode(first[here]), self.encode(second[here])
            squares = self.kernel.diag(x) + self.kernel.diag(y) - 2.0 * np.diagonal(self.kernel.matrix(x, y))
            found.append(np.sqrt(np.maximum(squares, 0.0)))
        return np.concatenate(found)

    def radii(self, low: Floats, high: Floats, centre: Floats) -> Floats:
        """The radius of each of these cells."""
        low, high = self._ends(low, high)
        if decreases_with_distance(self.kernel):
            farthest = np.where(centre - low >= high - centre, low, high)
            return self.distances(centre, farthest)
        corners = [np.where(np.array(choice), high, low) for choice in product((0, 1), repeat=low.shape[1])]
        return np.asarray(np.max([self.distances(centre, corner) for corner in corners], axis=0))

    def widest_axis(self, low: Floats, high: Floats, centre: Floats) -> int:
        """The axis along which a cell reaches farthest from its centroid in the distance of the kernel.

        Where the kernel sees no difference, the longest side decides, and then the first axis.
        """
        low, high = (ends[0] for ends in self._ends(low[None], high[None]))
        d = len(centre)
        ends = np.where(centre - low >= high - centre, low, high)
        there = np.tile(centre, (d, 1))
        there[np.diag_indices(d)] = ends
        reach = self.distances(np.tile(centre, (d, 1)), there)
        sides = np.where(reach >= reach.max() * (1 - _ROUNDING), high - low, -1.0)
        return int(np.argmax(sides >= sides.max() * (1 - _ROUNDING)))

    def _ends(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """The ends of cells, on axes of integers moved to the first and last number that a cell owns."""
        low, high = low.copy(), high.copy()
        for axis in np.flatnonzero(self.box.integer).tolist():
            for cell in range(len(low)):
                first, last = self.box.integers(axis, low[cell, axis], high[cell, axis])
                values = self.box.at_values(axis, np.array([first, last], dtype=np.float64))
                low[cell, axis], high[cell, axis] = values
        return low, high
