"""The Tanimoto (Jaccard) kernel on packed bits: the usual similarity of molecular fingerprints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError
from manyarms.kernels.base import Kernel
from manyarms.validation import Floats

_BLOCK_WORDS = 1 << 16  # words compared at a time: the intermediate arrays stay in cache


@dataclass(frozen=True)
class Tanimoto(Kernel):
    """k(x, y) = |x ∧ y| / |x ∨ y| on bits packed eight to a byte (`numpy.packbits(bits, axis=1)`).

    Counting is done on 64-bit words by the processor's population count. Two empty fingerprints are
    equal (1); an empty and a non-empty one share nothing (0).
    """

    def matrix(self, X: Any, Y: Any) -> Floats:
        """Shared bits over bits in either."""
        x, y = _words(X), _words(Y)
        if x.shape[1] != y.shape[1]:
            raise InvalidFeaturesError(
                f"fingerprints of {8 * x.shape[1]} and {8 * y.shape[1]} bytes differ in length"
            )
        x_bits, y_bits = _ones(x), _ones(y)
        result = np.empty((len(x), len(y)))
        rows = max(1, _BLOCK_WORDS // x.shape[1])
        for start in range(0, len(x), rows):
            block, bits = x[start : start + rows], x_bits[start : start + rows]
            for j in range(len(y)):
                shared = _ones(block & y[j])
                either = bits + y_bits[j] - shared
                np.divide(shared, either, out=result[start : start + rows, j], where=either > 0)
                result[start : start + rows, j][either == 0] = 1.0
        return result

    def diag(self, X: Any) -> Floats:
        """One everywhere."""
        return np.ones(len(X))


def _ones(words: NDArray[np.uint64]) -> Floats:
    return np.asarray(np.bitwise_count(words).sum(axis=1, dtype=np.float64))


def _words(X: Any) -> NDArray[np.uint64]:
    """Rows of packed bytes seen as 64-bit words, padded with zeros where a row is not a multiple of eight."""
    array = np.asarray(X)
    if array.ndim != 2 or array.dtype not in (np.dtype(np.uint8), np.dtype(bool)):
        raise InvalidFeaturesError(
            f"Tanimoto needs packed bits (uint8) or booleans, got {array.dtype} of shape {array.shape}"
        )
    if array.dtype == np.dtype(bool):
        array = np.packbits(array, axis=1)
    missing = -array.shape[1] % 8
    if missing:
        array = np.pad(array, ((0, 0), (0, missing)))
    return np.ascontiguousarray(array).view(np.uint64)
