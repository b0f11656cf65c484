"""A pool as the model sees it, and the most common case: a table of numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError
from manyarms.kernels import KernelLike
from manyarms.learning.columns import Column
from manyarms.learning.families import Codes, Distances, Family
from manyarms.pool import Pool

Encode = Callable[[Any], NDArray[Any]]


@dataclass(frozen=True)
class Prepared:
    """A pool as the model sees it: the same arms and ids, features with known scales.

    `pool` is the user's own object where nothing had to be rewritten. `families` are the kernels to be
    compared, with one length-scale; the first is assumed before there are results. `groups` says which
    columns share a length-scale when each feature has its own (−1: a constant column). `encode` takes
    features of further arms to those of `pool`. `assumptions` are sentences for the user. `levels` is how
    many steps a column has that was made of few uneven values, 0 for others.
    """

    pool: Pool
    families: tuple[Family, ...]
    groups: tuple[int, ...]
    encode: Encode
    assumptions: tuple[str, ...]
    levels: tuple[int, ...] = ()

    @property
    def dimension(self) -> int:
        """How many features can each have a length-scale of their own."""
        return 1 + max(self.groups, default=-1)

    def suits(self, features: Any) -> bool:
        """Whether further arms, encoded, are the like of those here.

        In a column left out as constant they must have its value, in one made of steps a known step.
        """
        known = [np.isin(features[:, j], np.arange(levels)) for j, levels in enumerate(self.levels) if levels]
        alike = [
            features[:, j] == self.pool.features[0, j] for j, group in enumerate(self.groups) if group < 0
        ]
        return all(column.all() for column in (*known, *alike))

    def extended(self, pool: Pool) -> Prepared:
        """On a pool with more arms; kernels that cannot take those are compared no longer."""
        more = pool.features[self.pool.n_arms :]
        usual, *others = self.families
        return replace(
            self,
            pool=pool,
            families=(usual, *(each for each in others if takes(each.kernel(each.typical), more))),
        )

    def per_feature(self, family: Family) -> Family | None:
        """The family with a length-scale per feature, where that is different."""
        if isinstance(family, Distances) and self.dimension > 1:
            return family.regrouped(self.groups)
        return None


def takes(kernel: KernelLike, features: Any) -> bool:
    """Whether the kernel is defined on these features."""
    try:
        kernel.diag(features)
    except InvalidFeaturesError:
        return False
    return True


def rewritten(pool: Pool, encode: Encode) -> Pool:
    """The same arms with other features, made block by block."""
    parts = [encode(block) for _, block in pool.blocks(bytes_per_arm=24 * pool.n_features)]
    return Pool(np.concatenate(parts), pool.ids if pool.has_ids else None, max_memory=pool.max_memory)


def from_numbers(pool: Pool, columns: list[Column], blocks: NDArray[Any]) -> Prepared:
    """Matérn-5/2 and RBF, and Hamming where all columns look like codes. `blocks` joins one-hot columns."""
    said = _said_about(pool, columns)
    encode: Encode = np.asarray
    if any(column.bent for column in columns):

        def encode(features: Any) -> NDArray[Any]:
            block = np.array(features, dtype=np.float64)
            for j, column in enumerate(columns):
                block[:, j] = column.straightened(block[:, j])
            return block

        pool = rewritten(pool, encode)
    spreads = tuple(column.spread for column in columns)
    shared = tuple(-1 if column.constant else 0 for column in columns)
    families: list[Family] = [Distances(spreads, shared, nu=2.5), Distances(spreads, shared)]
    if all(column.few and (column.whole or column.steps) for column in columns):
        families.append(Codes())
    levels = tuple(len(column.steps) for column in columns)
    return Prepared(pool, tuple(families), _numbered(shared, blocks), encode, tuple(said), levels)


def _numbered(shared: tuple[int, ...], blocks: NDArray[Any]) -> tuple[int, ...]:
    """A running number for each block of columns that says anything, −1 for the rest."""
    used = [block for group, block in zip(shared, blocks.tolist(), strict=True) if group >= 0]
    place = {block: i for i, block in enumerate(dict.fromkeys(used))}
    return tuple(-1 if g < 0 else place[b] for g, b in zip(shared, blocks.tolist(), strict=True))


def _said_about(pool: Pool, columns: list[Column]) -> list[str]:
    def named(chosen: list[int]) -> str:
        names = [repr(pool.names[j]) if pool.names else str(j) for j in chosen[:5]]
        rest = f" and {len(chosen) - 5} more" if len(chosen) > 5 else ""
        return f"column{'s' if len(chosen) > 1 else ''} {', '.join(names)}{rest}"

    said = []
    constant = [j for j, column in enumerate(columns) if column.constant]
    heavy = [j for j, column in enumerate(columns) if column.heavy]
    steps = [j for j, column in enumerate(columns) if column.steps]
    if len(constant) == len(columns):
        said.append("no column tells arms apart: every arm is taken to be worth the same")
    elif constant:
        said.append(f"{named(constant)}: constant, left out")
    if heavy:
        said.append(f"{named(heavy)}: heavy tails, modelled on a logarithmic scale away from the middle")
    if steps:
        said.append(f"{named(steps)}: few uneven values, taken to be equally far apart")
    return said
