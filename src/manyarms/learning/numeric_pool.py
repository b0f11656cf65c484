"""Prepare a pool of numbers: transform the columns that need it and name the kernel families to compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.learning.column_ways import ways_of_numbers
from manyarms.learning.kernel_families import Family, HammingFamily, StationaryFamily
from manyarms.learning.numeric_columns import Column
from manyarms.learning.prepared_pool import Encode, Prepared, transformed_pool
from manyarms.learning.spacing import Spacings
from manyarms.pool.pool import Pool

MANY_FEATURES = 50  # with more features than this, columns are also tried in their own units
UNEQUAL_SPREADS = 3.0  # largest over smallest spread, above which own units make a difference
MAX_NAMED_COLUMNS = 5  # in one sentence


def from_numbers(
    pool: Pool,
    columns: list[Column],
    blocks: Sequence[int | str],
    names: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
) -> Prepared:
    """Matérn-5/2, and Hamming when all columns may be codes.

    RBF is not among the families: where its evidence is higher, its intervals are still too narrow at the
    highest values (docs/measurements.md).

    `blocks` holds, for each column, the user's column it came from, by name or by its position in `names`;
    the one-hot columns of a category have the same entry. `labels` are the names of the columns themselves.

    When there are many columns they are also tried in their own units. The scores of a principal component
    analysis matter less from one column to the next; divided by their spreads they would all count the same.
    """
    assumptions = _assumptions(columns, [_column_name(block, names) for block in blocks])

    def named(block: int | str) -> str:
        return f"column {_column_name(block, names)}"

    ways = ways_of_numbers(pool, columns, blocks, named, labels)
    encode: Encode = np.asarray
    if any(column.is_transformed for column in columns):
        encode = TransformColumns(tuple(columns))
        pool = transformed_pool(pool, encode)
    spreads = tuple(column.spread for column in columns)
    shared = tuple(-1 if column.constant else 0 for column in columns)
    families: list[Family] = [StationaryFamily(spreads, shared, nu=2.5, spacings=Spacings.of(columns))]
    if all(column.few_levels and (column.integral or column.levels) for column in columns):
        families.append(HammingFamily())
    families += _families_in_own_units(columns, shared)
    n_levels = tuple(len(column.levels) for column in columns)
    groups = _block_numbers(shared, blocks)
    return Prepared(pool, tuple(families), groups, encode, tuple(assumptions), n_levels, ways=ways)


@dataclass(frozen=True)
class TransformColumns:
    """Rows of numbers with every column transformed; a value, so that a fitted model can be pickled."""

    columns: tuple[Column, ...]

    def __call__(self, features: Any) -> NDArray[Any]:
        """The transformed rows, as a new array."""
        block = np.array(features, dtype=np.float64)
        for j, column in enumerate(self.columns):
            block[:, j] = column.transform(block[:, j])
        return block


def _families_in_own_units(columns: list[Column], shared: tuple[int, ...]) -> list[Family]:
    """One length-scale for many untransformed columns whose spreads differ; otherwise nothing."""
    varying = [column for column in columns if not column.constant]
    if len(varying) <= MANY_FEATURES or any(column.logarithmic or column.levels for column in varying):
        return []
    spreads = np.array([column.spread * column.unit for column in varying])
    if spreads.max() / UNEQUAL_SPREADS <= spreads.min():
        return []
    typical = float(spreads.max() * np.sqrt(np.mean((spreads / spreads.max()) ** 2)))
    same_unit = tuple(max(typical / column.unit, 5e-324) for column in columns)
    if not np.isfinite(same_unit).all():
        return []
    return [StationaryFamily(same_unit, shared, nu=2.5, own_units=True)]


def _block_numbers(shared: tuple[int, ...], blocks: Sequence[int | str]) -> tuple[int, ...]:
    """A running number for each block of columns that are not constant, −1 for constant columns."""
    varying = [block for group, block in zip(shared, blocks, strict=True) if group >= 0]
    number = {block: i for i, block in enumerate(dict.fromkeys(varying))}
    return tuple(-1 if g < 0 else number[b] for g, b in zip(shared, blocks, strict=True))


def _column_name(block: int | str, names: Sequence[str] | None) -> str:
    if isinstance(block, str):
        return repr(block)
    return repr(names[block]) if names else str(block)


def _assumptions(columns: list[Column], column_names: list[str]) -> list[str]:
    """Sentences for the user about the columns that are left out or transformed."""

    def listed(chosen: list[int]) -> str:
        names = list(dict.fromkeys(column_names[j] for j in chosen))
        rest = f" and {len(names) - MAX_NAMED_COLUMNS} more" if len(names) > MAX_NAMED_COLUMNS else ""
        return f"column{'s' if len(names) > 1 else ''} {', '.join(names[:MAX_NAMED_COLUMNS])}{rest}"

    sentences = []
    constant = [j for j, column in enumerate(columns) if column.constant]
    heavy_tailed = [j for j, column in enumerate(columns) if column.uses_asinh and not column.logarithmic]
    logarithmic = [j for j, column in enumerate(columns) if column.logarithmic]
    levels = [j for j, column in enumerate(columns) if column.levels]
    if len(constant) == len(columns):
        sentences.append("every feature is constant: every arm is assumed to have the same value")
    elif constant:
        sentences.append(f"{listed(constant)}: constant, left out")
    if heavy_tailed:
        sentences.append(f"{listed(heavy_tailed)}: heavy-tailed: asinh-transformed")
    if logarithmic:
        scale = "modelled on a logarithmic scale"
        sentences.append(f"{listed(logarithmic)}: values over several orders of magnitude, {scale}")
    if levels:
        sentences.append(f"{listed(levels)}: few unevenly spaced values, modelled as equally spaced levels")
    return sentences
