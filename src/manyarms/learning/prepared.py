"""A pool as the model sees it, and the most common case: a table of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError
from manyarms.kernels import KernelLike
from manyarms.learning.kernel_families import Codes, Distances, Family
from manyarms.learning.numeric_columns import Column
from manyarms.pool.pool import Pool

MOST_SCALES = 256  # features that may each have a length-scale; comparing takes an evaluation for each
MANY_FEATURES = 50  # from which on columns are tried in their own units too
UNLIKE = 3.0  # largest over smallest spread, from which on that is something else

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
        if isinstance(family, Distances) and 1 < self.dimension <= MOST_SCALES and not family.own_units:
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


def from_numbers(
    pool: Pool, columns: list[Column], blocks: NDArray[Any], names: Sequence[str] | None = None
) -> Prepared:
    """Matérn-5/2 and RBF, and Hamming where all columns look like codes.

    `blocks` joins one-hot columns: the user's column behind each, by name, or by its place among `names`.

    Many columns are also tried in their own units. The scores of a principal component analysis mean less
    and less from column to column; divided by their spreads they would all count alike.
    """
    said = _said_about(columns, [_called(block, names) for block in blocks.tolist()])
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
    families += _in_own_units(columns, shared)
    levels = tuple(len(column.steps) for column in columns)
    return Prepared(pool, tuple(families), _numbered(shared, blocks), encode, tuple(said), levels)


def _in_own_units(columns: list[Column], shared: tuple[int, ...]) -> list[Family]:
    """One length-scale for many columns as they are, where their spreads differ; else nothing."""
    used = [column for column in columns if not column.constant]
    if len(used) <= MANY_FEATURES or any(column.logarithmic or column.steps for column in used):
        return []
    spreads = np.array([column.spread * column.unit for column in used])
    if spreads.max() / UNLIKE <= spreads.min():
        return []
    typical = float(spreads.max() * np.sqrt(np.mean((spreads / spreads.max()) ** 2)))
    alike = tuple(max(typical / column.unit, 5e-324) for column in columns)
    if not np.isfinite(alike).all():
        return []
    return [Distances(alike, shared, nu, own_units=True) for nu in (2.5, None)]


def _numbered(shared: tuple[int, ...], blocks: NDArray[Any]) -> tuple[int, ...]:
    """A running number for each block of columns that says anything, −1 for the rest."""
    used = [block for group, block in zip(shared, blocks.tolist(), strict=True) if group >= 0]
    place = {block: i for i, block in enumerate(dict.fromkeys(used))}
    return tuple(-1 if g < 0 else place[b] for g, b in zip(shared, blocks.tolist(), strict=True))


def _called(block: int | str, names: Sequence[str] | None) -> str:
    if isinstance(block, str):
        return repr(block)
    return repr(names[block]) if names else str(block)


def _said_about(columns: list[Column], called: list[str]) -> list[str]:
    def named(chosen: list[int]) -> str:
        different = list(dict.fromkeys(called[j] for j in chosen))
        rest = f" and {len(different) - 5} more" if len(different) > 5 else ""
        return f"column{'s' if len(different) > 1 else ''} {', '.join(different[:5])}{rest}"

    said = []
    constant = [j for j, column in enumerate(columns) if column.constant]
    heavy = [j for j, column in enumerate(columns) if column.heavy and not column.logarithmic]
    logarithmic = [j for j, column in enumerate(columns) if column.logarithmic]
    steps = [j for j, column in enumerate(columns) if column.steps]
    if len(constant) == len(columns):
        said.append("no column tells arms apart: every arm is taken to be worth the same")
    elif constant:
        said.append(f"{named(constant)}: constant, left out")
    if heavy:
        said.append(f"{named(heavy)}: heavy tails, modelled on a logarithmic scale away from the middle")
    if logarithmic:
        said.append(f"{named(logarithmic)}: over orders of magnitude, modelled on a logarithmic scale")
    if steps:
        said.append(f"{named(steps)}: few uneven values, taken to be equally far apart")
    return said
