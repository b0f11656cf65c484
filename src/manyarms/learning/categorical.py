"""Prepare pools that are not numbers: zeros and ones, words, strings, and tables of numbers and texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError
from manyarms.learning.kernel_families import HammingFamily, TanimotoFamily
from manyarms.learning.numeric_columns import columns_of
from manyarms.learning.numeric_pool import from_numbers
from manyarms.learning.prepared_pool import Prepared, transformed_pool
from manyarms.pool.pool import Pool

FINGERPRINT_BITS = 64  # at least this many columns of zeros and ones are treated as a fingerprint
_UNKNOWN_CATEGORY = -1  # the code of an arm, added later, that has none of the known categories
MANY_TEXTS = (
    100  # a column with more different texts than this, in half of the arms or more, is an identifier
)

Categories = dict[str, int]  # the position of each text of a column; empty for a column of numbers


# ------------------------------------------------------------------ zeros and ones


def from_bits(pool: Pool) -> Prepared | None:
    """One-hot blocks as codes, many bits as a fingerprint; None for a few columns of other bits."""
    starts = _one_hot_starts(pool)
    if starts is not None and len(starts) < pool.n_features:
        decode = OneHotCodes(tuple(starts))
        blocks = f"{pool.n_features} columns of zeros and ones form {len(starts)} one-hot blocks"
        assumptions = (f"{blocks}: Hamming kernel",)
        return Prepared(transformed_pool(pool, decode), (HammingFamily(),), (), decode, assumptions)
    if pool.n_features < FINGERPRINT_BITS:
        return None
    assumption = f"{pool.n_features} columns of zeros and ones are treated as a fingerprint: Tanimoto kernel"
    return Prepared(transformed_pool(pool, packed), (TanimotoFamily(),), (), packed, (assumption,))


@dataclass(frozen=True)
class OneHotCodes:
    """The position of the one in each block of columns; a value, so that a fitted model can be pickled."""

    starts: tuple[int, ...]

    def __call__(self, features: Any) -> NDArray[Any]:
        """One column of codes for each block."""
        ones = np.asarray(features) != 0
        ends = [*self.starts[1:], ones.shape[1]]
        blocks = [ones[:, a:b] for a, b in zip(self.starts, ends, strict=True)]
        codes = [np.where(block.any(axis=1), block.argmax(axis=1), _UNKNOWN_CATEGORY) for block in blocks]
        return np.column_stack(codes).astype(np.int32)


def packed(features: Any) -> NDArray[Any]:
    """Rows of zeros and ones as packed bits."""
    return np.packbits(np.asarray(features) != 0, axis=1)


def _one_hot_starts(pool: Pool) -> list[int] | None:
    """First columns of adjacent blocks with exactly one 1 per row; None when the columns are not one-hot."""
    levels: NDArray[Any] | None = None  # the number of ones up to each column if equal in all rows, else −1
    for _, block in pool.blocks(bytes_per_arm=24 * pool.n_features):
        running = np.cumsum(block != 0, axis=1, dtype=np.int32)
        here = np.where((running == running[0]).all(axis=0), running[0], -1)
        levels = here if levels is None else np.where(levels == here, levels, -1)
    assert levels is not None
    ends = [np.flatnonzero(levels == k) for k in range(1, int(levels[-1]) + 1)]
    if not ends or not all(map(len, ends)):
        return None
    return [0, *(int(end[0]) + 1 for end in ends[:-1])]


# ------------------------------------------------------------------ texts and mixed tables


def from_texts(pool: Pool) -> Prepared:
    """Words as they are; strings as rows of characters, shorter ones padded."""
    features = pool.features
    if features.ndim == 2 and features.dtype.kind == "U":
        return Prepared(pool, (HammingFamily(),), (), np.asarray, ("columns of words: Hamming kernel",))
    if features.ndim == 2:
        return from_table(pool)
    length = features.dtype.itemsize // (4 if features.dtype.kind == "U" else 1)

    def characters(texts: Any) -> NDArray[Any]:
        letters = np.asarray(texts)
        letters = letters if letters.dtype.kind == "U" else np.char.decode(letters, "latin-1")
        fixed = np.ascontiguousarray(letters.astype(f"<U{length}"))
        return fixed.view(np.uint32).reshape(len(fixed), length).astype(np.int32)

    lengths = np.strings.str_len(features)
    assumptions = ["strings are compared position by position: Hamming kernel"]
    if lengths.min() < lengths.max():
        assumptions.append(f"strings of {lengths.min()} to {lengths.max()} characters are padded at the end")
    elif features.dtype.kind == "U" and lengths.min() > 0:
        return Prepared(pool, (HammingFamily(),), (), np.asarray, tuple(assumptions))
    encoded = transformed_pool(pool, characters)
    return Prepared(encoded, (HammingFamily(),), (), characters, tuple(assumptions))


def from_table(pool: Pool) -> Prepared:
    """Rows of numbers and texts: numbers stay, text columns become one-hot, identifiers are left out."""
    table = _as_table(pool.features)
    categories, assumptions = _categories(table, pool.names)
    if not categories:
        raise InvalidFeaturesError("no column of the table can be learned from: give a kernel")

    def encode(features: Any) -> NDArray[Any]:
        rows = _as_table(np.asarray(features))
        if rows.shape[1] != table.shape[1]:
            raise InvalidFeaturesError(
                f"an arm has {rows.shape[1]} cells, the arms of the pool have {table.shape[1]}"
            )
        return np.hstack([_encoded(rows[:, j], known) for j, known in categories.items()])

    numbers = transformed_pool(pool, encode)
    prepared = from_bits(numbers) if all(categories.values()) else None
    if prepared is None:
        blocks = np.repeat(list(categories), [len(known) or 1 for known in categories.values()])
        prepared = from_numbers(numbers, columns_of(numbers), blocks, pool.names)
    inner = prepared.encode
    return replace(
        prepared,
        encode=lambda features: inner(encode(features)),
        assumptions=(*assumptions, *prepared.assumptions),
    )


def _categories(
    table: NDArray[np.object_], names: list[str] | None
) -> tuple[dict[int, Categories], list[str]]:
    """The categories of every column to be used, and what to tell the user."""
    categories: dict[int, Categories] = {}
    assumptions: list[str] = []
    for j in range(table.shape[1]):
        values = table[:, j].tolist()
        if all(isinstance(value, Real) for value in values):
            categories[j] = {}
            continue
        different = sorted(set(map(str, values)))
        found = f"column {repr(names[j]) if names else j} holds {len(different)} different texts"
        if len(different) > MANY_TEXTS and 2 * len(different) > len(values):
            assumptions.append(f"{found}: treated as an identifier, left out")
        else:
            assumptions.append(f"{found}: one column of zeros and ones for each")
            categories[j] = {text: position for position, text in enumerate(different)}
    return categories, assumptions


def _as_table(features: NDArray[Any]) -> NDArray[np.object_]:
    """Objects as a matrix of cells, when every arm is a row of numbers and texts and all have one length."""
    rows = [list(row) if isinstance(row, list | tuple | np.ndarray) else None for row in features]
    lengths = {len(row) if row is not None else -1 for row in rows}
    cells = (cell for row in rows if row is not None for cell in row)
    if len(lengths) != 1 or lengths <= {-1, 0} or not all(isinstance(c, Real | str | bytes) for c in cells):
        raise InvalidFeaturesError(
            "no kernel can be learned for arms that are Python objects: give a kernel for them"
        )
    table = np.empty((len(rows), lengths.pop()), dtype=object)
    for i, row in enumerate(rows):
        assert row is not None
        table[i] = row
    return table


def _encoded(values: NDArray[np.object_], categories: Categories) -> NDArray[Any]:
    """A column of numbers, or one column of zeros and ones per category, all zero for an unknown one."""
    if not categories:
        try:
            return values.astype(np.float64)[:, None]
        except ValueError as problem:
            raise InvalidFeaturesError(f"a text in a column that holds numbers: {problem}") from None
    ones = np.zeros((len(values), len(categories)))
    for row, value in enumerate(values.tolist()):
        if str(value) in categories:
            ones[row, categories[str(value)]] = 1.0
    return ones
