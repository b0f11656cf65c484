"""The kernels by which the probability of success may depend on the features: all of them, one, or two.

Failures mostly have one or two causes, such as one solvent, or a high temperature in an acid. A kernel of all
features would have to learn that the others do not matter, from few outcomes. So columns are also tried one
by one, and then each other one together with the best.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyarms.kernels import RBF, Hamming, KernelLike, Matern, OnColumns
from manyarms.kernels.mixed import Mixed
from manyarms.learning.kernel_families import HammingFamily, StationaryFamily
from manyarms.learning.mixed_family import MixedFamily
from manyarms.learning.old_family import WithOldResults
from manyarms.learning.prepared_pool import Prepared
from manyarms.support.validation import Ints

MOST_PARTS = 40  # with more, features are compared as a whole: each part and each pair takes time
SHIFTS = (0.0, -0.7)  # of the typical log length-scales of all features together


@dataclass(frozen=True)
class Parts:
    """The features of a pool, as causes of failures: `whole` kernels, and kernels of a few of its parts.

    A part is a column of the user: one column of the pool or, for a category, several.
    """

    whole: tuple[KernelLike, ...]
    n_parts: int = 0
    family: Any = None
    groups: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, prepared: Prepared, some: Ints) -> Parts:
        """The causes that a learned model can tell apart in features like those of `some` arms."""
        family, width = prepared.families[0], 0
        if isinstance(family, WithOldResults):
            width, family = family.width, family.family
        whole = tuple(family.kernel(family.typical + shift) for shift in SHIFTS[: 1 + len(family.typical)])
        if width:
            whole = tuple(OnColumns(kernel, range(width)) for kernel in whole)
        groups = _groups(family, prepared, prepared.pool.take(some))
        return cls(whole, len(groups) if 1 < len(groups) <= MOST_PARTS else 0, family, groups)

    def kernel(self, *parts: int) -> KernelLike:
        """The kernel of these parts alone, with the scale on which each of them varies as length-scale."""
        family, columns = self.family, [j for part in parts for j in self.groups[part]]
        if isinstance(family, MixedFamily):
            readings = tuple(reading for part in parts for reading in family.ways[part].readings)
            return Mixed(readings, 1.0, family.nu)
        if isinstance(family, HammingFamily):
            return OnColumns(Hamming(1.0), columns)
        spreads = tuple(family.spreads[j] for j in columns)
        return OnColumns(RBF(spreads) if family.nu is None else Matern(spreads, family.nu), columns)


def _groups(family: Any, prepared: Prepared, features: Any) -> tuple[tuple[int, ...], ...]:
    """The columns of each part; none where features are compared as a whole."""
    if isinstance(family, MixedFamily):
        return tuple(tuple(way.readings[0].columns) for way in family.ways) if not family.positions else ()
    if isinstance(family, HammingFamily):
        array = np.asarray(features)
        return tuple((j,) for j in range(array.shape[1] - prepared.n_old)) if array.ndim == 2 else ()
    if not isinstance(family, StationaryFamily):
        return ()
    return tuple(_columns_of(prepared.groups))


def _columns_of(groups: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for number in range(1 + max(groups, default=-1)):
        yield tuple(j for j, group in enumerate(groups) if group == number)
