"""Prepare pools that are not numbers: zeros and ones, words, strings, and tables of numbers and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError
from manyarms.learning.column_ways import LEAST_CATEGORIES, ways_of_names
from manyarms.learning.kernel_families import HammingFamily, TanimotoFamily
from manyarms.learning.mixed_family import positions_family
from manyarms.learning.natural_order import common_name
from manyarms.learning.numeric_columns import Column, columns_of, sampled_rows
from manyarms.learning.numeric_pool import from_numbers
from manyarms.learning.prepared_pool import Encode, Prepared, transformed_pool
from manyarms.pool.pool import Pool

FINGERPRINT_BITS = 64  # at least this many columns of zeros and ones are treated as a fingerprint
_UNKNOWN_CATEGORY = -1  # the code of an arm, added later, that has none of the known categories
MANY_TEXTS = (
    100  # a column with more different texts than this, in half of the arms or more, is an identifier
)

Categories = dict[str, int]  # the position of each text of a column; empty for a column of numbers


# ------------------------------------------------------------------ zeros and ones


def from_bits(
    pool: Pool, labels: Sequence[str] | None = None, names: Sequence[str] | None = None
) -> Prepared | None:
    """One-hot blocks as codes, many bits as a fingerprint; None for a few columns of other bits.

    `labels` are the names of the columns, which may say that the categories of a block have an order, and
    `names` those of the blocks.
    """
    starts = _one_hot_starts(pool)
    if starts is not None and len(starts) < pool.n_features:
        decode = OneHotCodes(tuple(starts))
        blocks = f"{pool.n_features} columns of zeros and ones form {len(starts)} one-hot blocks"
        assumptions = (f"{blocks}: categories",)
        ends = [*starts[1:], pool.n_features]
        texts = [None if labels is None else labels[a:b] for a, b in zip(starts, ends, strict=True)]
        names = names or [common_name(each) if each else "" for each in texts]
        return from_codes(transformed_pool(pool, decode), decode, texts, names, assumptions)
    if pool.n_features < FINGERPRINT_BITS:
        return None
    assumption = f"{pool.n_features} columns of zeros and ones are treated as a fingerprint: Tanimoto kernel"
    return Prepared(transformed_pool(pool, packed), (TanimotoFamily(),), (), packed, (assumption,))


def from_codes(
    pool: Pool,
    encode: Encode,
    labels: Sequence[Sequence[str] | None],
    names: Sequence[str],
    assumptions: tuple[str, ...],
) -> Prepared:
    """Columns of codes: Hamming and Matérn-5/2 of categories, which may also turn out to have an order.

    `labels` are the texts of each column's categories, None where there were none, and `names` those of the
    columns, which may be empty.
    """
    families = (HammingFamily(), positions_family(pool.n_features))
    shown = [repr(name) if name else str(j) for j, name in enumerate(names)]
    ways = ways_of_names(pool.features, labels, shown)
    return Prepared(pool, families, (), encode, assumptions, ways=ways)


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


def one_hot_blocks(pool: Pool, columns: Sequence[Column]) -> list[int | str]:
    """For each column of a table, its number or, in a one-hot block, the name of the block.

    A block consists of at least three adjacent columns of zeros and ones, with exactly one 1 in every row.
    """
    sample, blocks = sampled_rows(pool), list[int | str](range(len(columns)))
    first = 0
    while first < len(columns):
        ones, last = np.zeros(len(sample)), first
        while last < len(columns) and columns[last].binary and ones.max() <= 1 and ones.min() < 1:
            ones += sample[:, last]
            last += 1
        if last - first >= LEAST_CATEGORIES and (ones == 1).all() and _is_one_hot(pool, first, last):
            name = common_name(pool.names[first:last]) if pool.names else ""
            blocks[first:last] = [name if name and name not in blocks else first] * (last - first)
            first = last
        else:
            first += 1
    return blocks


def _is_one_hot(pool: Pool, first: int, last: int) -> bool:
    passes = pool.blocks(bytes_per_arm=8 * (last - first))
    return all(bool((np.sum(block[:, first:last] != 0, axis=1) == 1).all()) for _, block in passes)


# ------------------------------------------------------------------ texts and mixed tables


def from_texts(pool: Pool) -> Prepared:
    """Words as codes; strings as rows of characters, shorter ones padded."""
    features = pool.features
    if features.ndim == 2 and features.dtype.kind == "U":
        return _from_words(pool)
    if features.ndim == 2:
        return from_table(pool)
    length = features.dtype.itemsize // (4 if features.dtype.kind == "U" else 1)

    def characters(texts: Any) -> NDArray[Any]:
        letters = np.asarray(texts)
        letters = letters if letters.dtype.kind == "U" else np.char.decode(letters, "latin-1")
        fixed = np.ascontiguousarray(letters.astype(f"<U{length}"))
        return fixed.view(np.uint32).reshape(len(fixed), length).astype(np.int32)

    lengths = np.strings.str_len(features)
    assumptions = ["strings are compared position by position: categories"]
    encode: Encode = characters
    if lengths.min() < lengths.max():
        assumptions.append(f"strings of {lengths.min()} to {lengths.max()} characters are padded at the end")
    elif features.dtype.kind == "U" and lengths.min() > 0:
        encode = np.asarray
    family = positions_family(length)
    encoded = pool if encode is np.asarray else transformed_pool(pool, encode)
    ways = tuple((way,) for way in family.ways)
    return Prepared(encoded, (HammingFamily(), family), (), encode, tuple(assumptions), ways=ways)


def _from_words(pool: Pool) -> Prepared:
    """A matrix of words. New words among arms added later are a reason to prepare all arms again."""
    words = tuple(tuple(np.unique(column).tolist()) for column in pool.features.T)
    encode, sizes = WordCodes(words), tuple(map(len, words))
    names = pool.names or [""] * len(words)
    assumptions = ("columns of words: categories",)
    prepared = from_codes(transformed_pool(pool, encode), encode, words, names, assumptions)
    return replace(prepared, n_levels=sizes)


@dataclass(frozen=True)
class WordCodes:
    """The places of words in sorted lists, one for each column; −1 for a word that is not in its list."""

    words: tuple[tuple[str, ...], ...]

    def __call__(self, features: Any) -> NDArray[Any]:
        """One column of codes for each column of words."""
        rows = np.asarray(features)
        codes = np.empty(rows.shape, dtype=np.int32)
        for j, known in enumerate(map(np.array, self.words)):
            places = np.minimum(np.searchsorted(known, rows[:, j]), len(known) - 1)
            codes[:, j] = np.where(known[places] == rows[:, j], places, _UNKNOWN_CATEGORY)
        return codes


def from_table(pool: Pool) -> Prepared:
    """Rows of numbers and texts: numbers stay, text columns become one-hot, identifiers are left out."""
    table = as_table(pool.features)
    categories, assumptions = _categories(table, pool.names)
    if not categories:
        raise InvalidFeaturesError("no column of the table can be learned from: give a kernel")

    def encode(features: Any) -> NDArray[Any]:
        rows = as_table(np.asarray(features))
        if rows.shape[1] != table.shape[1]:
            raise InvalidFeaturesError(
                f"an arm has {rows.shape[1]} cells, the arms of the pool have {table.shape[1]}"
            )
        return np.hstack([_encoded(rows[:, j], known) for j, known in categories.items()])

    numbers = transformed_pool(pool, encode)
    labels = [text for known in categories.values() for text in known or [""]]
    names = [pool.names[j] for j in categories] if pool.names else None
    prepared = from_bits(numbers, labels, names) if all(categories.values()) else None
    if prepared is None:
        blocks = [j for j, known in categories.items() for _ in known or [""]]
        prepared = from_numbers(numbers, columns_of(numbers), blocks, pool.names, labels)
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


def as_table(features: NDArray[Any]) -> NDArray[np.object_]:
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
