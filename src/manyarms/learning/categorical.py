"""Pools that are not numbers: zeros and ones, words, strings, and tables that mix numbers and texts."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError
from manyarms.learning.kernel_families import Bits, Codes
from manyarms.learning.numeric_columns import columns_of
from manyarms.learning.prepared import Prepared, from_numbers, rewritten
from manyarms.pool.pool import Pool

FINGERPRINT_BITS = 64  # columns of zeros and ones from which on they are taken for a fingerprint
_NONE = -1  # the code of an arm, added later, that is none of the categories
MANY_TEXTS = 100  # a column with more different texts than this, in half the arms or more, is a name


# ------------------------------------------------------------------ zeros and ones


def from_bits(pool: Pool) -> Prepared | None:
    """One-hot blocks as codes, many bits as a fingerprint; None for a few columns of other bits."""
    starts = _one_hot_starts(pool)
    if starts is not None and len(starts) < pool.n_features:

        def decode(features: Any) -> NDArray[Any]:
            ones = np.asarray(features) != 0
            ends = [*starts[1:], ones.shape[1]]
            blocks = [ones[:, a:b] for a, b in zip(starts, ends, strict=True)]
            codes = [np.where(block.any(axis=1), block.argmax(axis=1), _NONE) for block in blocks]
            return np.column_stack(codes).astype(np.int32)

        said = f"{pool.n_features} columns of zeros and ones are {len(starts)} one-hot blocks: Hamming"
        return Prepared(rewritten(pool, decode), (Codes(),), (), decode, (said,))
    if pool.n_features < FINGERPRINT_BITS:
        return None

    def pack(features: Any) -> NDArray[Any]:
        return np.packbits(np.asarray(features) != 0, axis=1)

    said = f"{pool.n_features} columns of zeros and ones are taken for a fingerprint: Tanimoto"
    return Prepared(rewritten(pool, pack), (Bits(),), (), pack, (said,))


def _one_hot_starts(pool: Pool) -> list[int] | None:
    """First columns of neighbouring blocks with exactly one 1 per row, or None when columns are not that."""
    levels: NDArray[Any] | None = None  # ones up to each column, where all rows agree on it; else −1
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
        return Prepared(pool, (Codes(),), (), np.asarray, ("columns of words: Hamming",))
    if features.ndim == 2:
        return from_table(pool)
    width = features.dtype.itemsize // (4 if features.dtype.kind == "U" else 1)

    def characters(texts: Any) -> NDArray[Any]:
        letters = np.asarray(texts)
        letters = letters if letters.dtype.kind == "U" else np.char.decode(letters, "latin-1")
        fixed = np.ascontiguousarray(letters.astype(f"<U{width}"))
        return fixed.view(np.uint32).reshape(len(fixed), width).astype(np.int32)

    lengths = np.strings.str_len(features)
    said = ["strings are compared position by position: Hamming"]
    if lengths.min() < lengths.max():
        said.append(f"strings of {lengths.min()} to {lengths.max()} characters are padded at the end")
    elif features.dtype.kind == "U" and lengths.min() > 0:
        return Prepared(pool, (Codes(),), (), np.asarray, tuple(said))
    return Prepared(rewritten(pool, characters), (Codes(),), (), characters, tuple(said))


def from_table(pool: Pool) -> Prepared:
    """Rows of numbers and texts: numbers stay, a text column becomes zeros and ones, names are left out."""
    table = _as_table(pool.features)
    places, said = _categories(table, pool.names)
    if not places:
        raise InvalidFeaturesError("no column of the table can be learned from: give a kernel")

    def encode(features: Any) -> NDArray[Any]:
        rows = _as_table(np.asarray(features))
        if rows.shape[1] != table.shape[1]:
            raise InvalidFeaturesError(f"an arm has {rows.shape[1]} cells, the pool's have {table.shape[1]}")
        return np.hstack([_encoded(rows[:, j], codes) for j, codes in places.items()])

    numbers = rewritten(pool, encode)
    prepared = from_bits(numbers) if all(places.values()) else None
    if prepared is None:
        blocks = np.repeat(list(places), [len(codes) or 1 for codes in places.values()])
        prepared = from_numbers(numbers, columns_of(numbers), blocks, pool.names)
    inner = prepared.encode
    return replace(
        prepared,
        encode=lambda features: inner(encode(features)),
        assumptions=(*said, *prepared.assumptions),
    )


def _categories(
    table: NDArray[np.object_], names: list[str] | None
) -> tuple[dict[int, dict[str, int]], list[str]]:
    """For every column to be used the place of each text (empty for numbers), and what to tell the user."""
    places: dict[int, dict[str, int]] = {}
    said: list[str] = []
    for j in range(table.shape[1]):
        values = table[:, j].tolist()
        if all(isinstance(value, Real) for value in values):
            places[j] = {}
            continue
        different = sorted(set(map(str, values)))
        found = f"column {repr(names[j]) if names else j} holds {len(different)} different texts"
        if len(different) > MANY_TEXTS and 2 * len(different) > len(values):
            said.append(f"{found}: taken for a name, left out")
        else:
            said.append(f"{found}: one column of zeros and ones for each")
            places[j] = {text: place for place, text in enumerate(different)}
    return places, said


def _as_table(features: NDArray[Any]) -> NDArray[np.object_]:
    """Objects as a matrix of cells, when every arm is a row of numbers and texts of one length."""
    rows = [list(row) if isinstance(row, list | tuple | np.ndarray) else None for row in features]
    lengths = {len(row) if row is not None else -1 for row in rows}
    cells = (cell for row in rows if row is not None for cell in row)
    if len(lengths) != 1 or lengths <= {-1, 0} or not all(isinstance(c, Real | str | bytes) for c in cells):
        raise InvalidFeaturesError(
            "nothing can be assumed about arms that are objects: give a kernel that knows them"
        )
    table = np.empty((len(rows), lengths.pop()), dtype=object)
    for i, row in enumerate(rows):
        assert row is not None
        table[i] = row
    return table


def _encoded(values: NDArray[np.object_], places: dict[str, int]) -> NDArray[Any]:
    """A column of numbers, or one column per category; a category never seen before is none of them."""
    if not places:
        try:
            return values.astype(np.float64)[:, None]
        except ValueError as problem:
            raise InvalidFeaturesError(f"a text in a column that holds numbers: {problem}") from None
    ones = np.zeros((len(values), len(places)))
    for row, value in enumerate(values.tolist()):
        if str(value) in places:
            ones[row, places[str(value)]] = 1.0
    return ones
