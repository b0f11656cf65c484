"""The tree of cells together with the radius of every cell under the kernel in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.continuous.cells import Tree
from manyarms.continuous.descent import Division
from manyarms.kernels import KernelLike
from manyarms.policies import Policy
from manyarms.support.validation import Floats


@dataclass(frozen=True, eq=False)
class Partition:
    """A tree and the radii of its cells; `kernel` is the one they were measured with, None for none yet."""

    tree: Tree
    radius: Floats
    kernel: KernelLike | None = None

    @classmethod
    def root(cls, centre: Floats) -> Partition:
        """One cell, the whole box, with this centroid (coordinates), which is arm 0."""
        return cls(Tree.root(centre), np.empty(0))

    def measured(self, division: Division) -> Partition:
        """The same with radii under the kernel of this division; they are kept if it is the same kernel."""
        kernel, tree = division.variation.kernel, self.tree
        if self.kernel is not None and (self.kernel is kernel or self.kernel == kernel):
            return self
        return replace(self, radius=division.variation.radii(tree.low, tree.high, tree.centre), kernel=kernel)

    def to_plain(self, policy: Policy) -> dict[str, Any]:
        """Tree and radii, and whether they belong to the kernel of this policy."""
        current = self.kernel is not None and self.kernel == policy.kernel
        return {"tree": self.tree.to_plain(), "radius": self.radius, "current": current}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], policy: Policy) -> Partition:
        """The partition that `to_plain` wrote."""
        kernel = policy.covariance if plain["current"] else None
        return cls(Tree.from_plain(plain["tree"]), np.asarray(plain["radius"]), kernel)
