"""Tanimoto similarities of packed bits in 64-bit words, compiled (support/compiled.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64
from numba.extending import intrinsic
from numpy.typing import NDArray

from manyarms.support.compiled import compiled
from manyarms.support.validation import Floats

_ROWS = 256  # of the longer side, compared with every row of the shorter one while they are in the cache


def _ones_of(context: Any, word: Any) -> Any:
    """The number of ones in a word, as LLVM's instruction; numba has no function of this name."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return uint64(uint64), generate


_ones: Any = intrinsic(_ones_of)


@compiled
def similarities(few: NDArray[Any], many: NDArray[Any], result: Floats) -> None:
    """result[i, j] = |few_i ∧ many_j| / |few_i ∨ many_j|, 1 for two empty rows; rows of 64-bit words."""
    few_bits = _bits(few)
    for start in range(0, len(many), _ROWS):
        block = many[start : start + _ROWS]
        bits = _bits(block)
        for i in range(len(few)):
            values = result[i, start : start + _ROWS]
            for j in range(len(block)):
                shared = uint64(0)
                for w in range(few.shape[1]):
                    shared += _ones(few[i, w] & block[j, w])
                either = few_bits[i] + bits[j] - shared
                values[j] = shared / either if either else 1.0


@compiled
def _bits(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """The number of ones in each row."""
    bits = np.zeros(len(rows), dtype=np.uint64)
    for i in range(len(rows)):
        for w in range(rows.shape[1]):
            bits[i] += _ones(rows[i, w])
    return bits
