"""Ada-BKB: from the leaf with the highest index, split cells until one is worth an evaluation (theory §13.2).

The index of a leaf bounds f on its whole cell, if the bounds on f at the centroids hold:

    index(cell) = min(upper(c), upper(c of the parent) + V(parent)) + V(cell),     V = F · radius

A leaf is split if βσ̃(c) ≤ V(cell): its centroid is known better than the rest of the cell. Otherwise its
centroid is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from manyarms.continuous.box import Box
from manyarms.continuous.cells import Tree
from manyarms.continuous.surface import Surface
from manyarms.continuous.variation import Variation
from manyarms.support.validation import Floats, Ints

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Division:
    """How cells are divided: the box, the kernel's distance, the number of parts and the largest depth."""

    box: Box
    variation: Variation
    parts: int = 3
    max_depth: int | None = None
    max_splits: int = 30  # before a point is chosen

    def children(self, tree: Tree, cell: int) -> Children | None:
        """The children that a leaf would have, or None if it cannot be split."""
        if self.max_depth is not None and tree.depth[cell] >= self.max_depth:
            return None
        low, high = tree.low[cell], tree.high[cell]
        axis = self.variation.widest_axis(low, high, tree.centre[cell])
        cuts = self.box.cuts(axis, low[axis], high[axis], self.parts)
        if not len(cuts):  # no other axis is wider
            return None
        lows, highs = np.tile(low, (len(cuts) + 1, 1)), np.tile(high, (len(cuts) + 1, 1))
        lows[1:, axis], highs[:-1, axis] = cuts, cuts
        middle = self.box.coordinates(self.box.points(0.5 * (lows + highs)))
        own = tree.inherits(cell, lows, highs, middle)
        centres = np.where(own[:, None], tree.centre[cell], middle)
        return Children(axis, cuts, lows, highs, centres, own)


class Children(NamedTuple):
    """The parts of a cell: the axis and cuts, the ends and centroids, and which centroid is the parent's."""

    axis: int
    cuts: Floats
    low: Floats
    high: Floats
    centre: Floats
    inherited: np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass
class Cells:
    """A tree with the bounds of every cell, while it is being split; for one step only.

    `mean` and `std` are those of the centroids, in reward units. `new` holds the coordinates of the new
    centroids, which are numbered from `n_arms` on.
    """

    tree: Tree
    radius: Floats
    mean: Floats
    std: Floats
    width: float  # β in standard deviations
    norm_bound: float  # F
    n_arms: int

    def __post_init__(self) -> None:
        self.new: list[Floats] = []

    @property
    def upper(self) -> Floats:
        """The upper bound on f at every centroid."""
        return np.asarray(self.mean + self.width * self.std)

    def indices(self, cells: Ints) -> Floats:
        """The upper bound on f in each of these cells."""
        upper, variation = self.upper, self.norm_bound * self.radius
        parents = self.tree.parent[cells]
        from_parent = np.where(parents < 0, np.inf, upper[parents] + variation[parents])
        return np.asarray(np.minimum(upper[cells], from_parent) + variation[cells])

    def is_known(self, cell: int) -> bool:
        """Whether the centroid is known better than the rest of the cell."""
        return bool(self.width * self.std[cell] <= self.norm_bound * self.radius[cell])

    def split(self, cell: int, parts: Children, division: Division, surface: Surface) -> None:
        """Split a leaf; the children's bounds come from the surface."""
        fresh = ~parts.inherited
        mean, std = np.full(len(fresh), self.mean[cell]), np.full(len(fresh), self.std[cell])
        if fresh.any():
            mean[fresh], variance = surface.values(parts.centre[fresh])
            std[fresh] = np.sqrt(variance)
        arms = np.full(len(fresh), self.tree.arm[cell])
        arms[fresh] = self.n_arms + np.arange(np.count_nonzero(fresh))
        self.n_arms += int(np.count_nonzero(fresh))
        self.new.append(parts.centre[fresh])
        self.tree = self.tree.split(cell, parts.axis, parts.cuts, parts.centre, arms)
        radius = division.variation.radii(parts.low, parts.high, parts.centre)
        self.radius = np.concatenate([self.radius, radius])
        self.mean, self.std = np.concatenate([self.mean, mean]), np.concatenate([self.std, std])


def _highest(values: Floats) -> int:
    """The position of the largest value, the first of several that are equal up to rounding.

    Cells on either side of a centroid often have the same index.
    """
    largest = values.max()
    return int(np.argmax(values >= largest - _ROUNDING * (1.0 + abs(largest))))


def descended(cells: Cells, division: Division, surface: Surface) -> int | None:
    """Split cells until the leaf with the highest index is to be evaluated; its number.

    After `max_splits` splits it is evaluated in any case. None if that leaf can be neither split nor improved
    by an evaluation, or if no leaf is left: then the maximum is known as well as the depth allows.
    """
    for splits in count():
        active = cells.tree.active
        if not len(active):
            return None
        top = int(active[_highest(cells.indices(active))])
        parts = division.children(cells.tree, top)
        if parts is None:
            return None if cells.is_known(top) or len(active) == 1 else top
        if not cells.is_known(top) or splits >= division.max_splits:
            return top
        cells.split(top, parts, division, surface)
    raise AssertionError("the loop ends by returning")


def refined(cells: Cells, division: Division, surface: Surface, splits: int) -> None:
    """Split at most `splits` known leaves, those with the highest indices first."""
    for _ in range(splits):
        active = cells.tree.active
        for place in np.argsort(-cells.indices(active), kind="stable").tolist():
            cell = int(active[place])
            parts = division.children(cells.tree, cell) if cells.is_known(cell) else None
            if parts is not None:
                cells.split(cell, parts, division, surface)
                break
        else:
            return


def pruned(cells: Cells, best_lower: float) -> Tree:
    """The tree without the leaves in which f is smaller than `best_lower`, a lower bound on its maximum."""
    active = cells.tree.active
    return cells.tree.with_pruned(active[cells.indices(active) < best_lower])
