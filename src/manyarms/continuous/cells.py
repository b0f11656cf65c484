"""The tree of cells: boxes within the box, each the union of its children (theory §13.1).

The leaves are disjoint and cover the box: a coordinate on a cut belongs to the cell above it. A cell is named
by its number; the root is 0, and the children of a cell have consecutive numbers. Every cell has a
*centroid*, an arm of the pool. The child that has its parent's centroid in its middle shares it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.support.validation import Floats, Ints

_SAME = 1e-9  # of a cell's side: a centroid this close to the parent's is the parent's


@dataclass(frozen=True, eq=False)
class Tree:
    """All cells ever made, as arrays with one entry per cell; no array is modified.

    `low`, `high` and `centre` are coordinates, C × d; `arm` is the arm of the centroid. `axis` is the axis
    that a cell was cut along, −1 for a leaf; `first` is the number of its first child and `children` how many
    it has.
    `pruned` marks leaves that cannot contain a maximum.
    """

    low: Floats
    high: Floats
    centre: Floats
    arm: Ints
    parent: Ints
    depth: Ints
    axis: Ints
    first: Ints
    children: Ints
    pruned: NDArray[np.bool_]

    @classmethod
    def root(cls, centre: Floats, arm: int = 0) -> Tree:
        """One cell, the whole box, whose centroid has these coordinates and is this arm."""
        none, d = np.array([-1]), len(centre)
        return cls(
            low=np.zeros((1, d)),
            high=np.ones((1, d)),
            centre=centre[None, :].copy(),
            arm=np.array([arm]),
            parent=none,
            depth=np.array([0]),
            axis=none,
            first=none,
            children=np.array([0]),
            pruned=np.array([False]),
        )

    def __len__(self) -> int:
        return len(self.arm)

    @property
    def leaves(self) -> Ints:
        """The numbers of all leaves, pruned or not; together they cover the box."""
        return np.flatnonzero(self.axis < 0)

    @property
    def active(self) -> Ints:
        """The numbers of the leaves that are not pruned."""
        return np.flatnonzero((self.axis < 0) & ~self.pruned)

    def leaf_of(self, coordinates: Floats) -> Ints:
        """The number of the leaf that each row of `coordinates` belongs to."""
        cells, rows = np.zeros(len(coordinates), dtype=np.int64), np.arange(len(coordinates))
        while len(rows):
            inner = self.axis[cells[rows]] >= 0
            rows = rows[inner]
            for cell in np.unique(cells[rows]).tolist():
                here = rows[cells[rows] == cell]
                cuts = self.cuts(cell)
                cells[here] = self.first[cell] + np.searchsorted(
                    cuts, coordinates[here, self.axis[cell]], side="right"
                )
        return cells

    def cuts(self, cell: int) -> Floats:
        """The coordinates at which a cell was cut along its `axis`, in increasing order."""
        first, number, axis = self.first[cell], self.children[cell], self.axis[cell]
        return np.asarray(self.low[first + 1 : first + number, axis])

    def split(self, cell: int, axis: int, cuts: Floats, centres: Floats, arms: Ints) -> Tree:
        """The tree with a leaf cut along an axis; `centres` and `arms` are the centroids of the children."""
        assert self.axis[cell] < 0
        assert len(cuts)
        n, d = len(cuts) + 1, self.low.shape[1]
        low, high = np.tile(self.low[cell], (n, 1)), np.tile(self.high[cell], (n, 1))
        low[1:, axis], high[:-1, axis] = cuts, cuts
        born = {
            "low": low,
            "high": high,
            "centre": np.asarray(centres).reshape(n, d),
            "arm": np.asarray(arms),
            "parent": np.full(n, cell),
            "depth": np.full(n, self.depth[cell] + 1),
            "axis": np.full(n, -1),
            "first": np.full(n, -1),
            "children": np.zeros(n, dtype=np.int64),
            "pruned": np.zeros(n, dtype=bool),
        }
        grown = {name: np.concatenate([getattr(self, name), values]) for name, values in born.items()}
        grown["axis"][cell], grown["first"][cell], grown["children"][cell] = axis, len(self), n
        return Tree(**grown)

    def inherits(self, cell: int, low: Floats, high: Floats, centres: Floats) -> NDArray[np.bool_]:
        """Which of these centroids (of cells from `low` to `high`) are that of `cell`, up to rounding."""
        return np.asarray((np.abs(centres - self.centre[cell]) <= _SAME * (high - low)).all(axis=1))

    def with_pruned(self, cells: Ints) -> Tree:
        """The tree with these leaves pruned."""
        if not len(cells):
            return self
        pruned = self.pruned.copy()
        pruned[cells] = True
        return replace(self, pruned=pruned)

    def to_plain(self) -> dict[str, Any]:
        """The arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Tree:
        """The tree that `to_plain` wrote."""
        return cls(**{field.name: np.asarray(plain[field.name]) for field in fields(cls)})
