"""The Tanimoto (Jaccard) kernel on packed bits: the usual similarity of molecular fingerprints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError
from manyarms.kernels.checks import as_array
from manyarms.kernels.combine import Kernel
from manyarms.support.validation import Floats

_LIKELY_UNPACKED = 64  # this many columns, all 0 or 1, are probably unpacked bits
_BLOCK_WORDS = 1 << 16  # words compared at a time, so that the intermediate arrays stay in the cache


@dataclass(frozen=True)
class Tanimoto(Kernel):
    """k(x, y) = |x ∧ y| / |x ∨ y| on bits packed eight to a byte (`numpy.packbits(bits, axis=1)`).

    Bits are counted in 64-bit words with the population count instruction. Two empty fingerprints have
    k = 1; an empty and a non-empty one have k = 0.
    """

    def matrix(self, X: Any, Y: Any) -> Floats:
        """The number of shared bits over the number of bits in either."""
        bytes_x, bytes_y = _packed(X), _packed(Y)
        if bytes_x.shape[1] != bytes_y.shape[1]:
            raise InvalidFeaturesError(
                f"fingerprints of {bytes_x.shape[1]} and {bytes_y.shape[1]} bytes cannot be compared"
            )
        x, y = _words(bytes_x), _words(bytes_y)
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
        return np.ones(len(_packed(X)))


def _ones(words: NDArray[np.uint64]) -> Floats:
    return np.asarray(np.bitwise_count(words).sum(axis=1, dtype=np.float64))


def _packed(X: Any) -> NDArray[np.uint8]:
    """Rows of packed bytes; anything else is refused."""
    array = as_array(X)
    if array.ndim != 2 or array.dtype not in (np.dtype(np.uint8), np.dtype(bool)) or not array.shape[1]:
        raise InvalidFeaturesError(
            f"Tanimoto needs packed bits (uint8) or booleans, got {array.dtype} of shape {array.shape}: "
            "pass booleans or numpy.packbits(bits, axis=1)"
        )
    if array.dtype == np.dtype(bool):
        return np.packbits(array, axis=1)
    if len(array) > 1 and array.shape[1] >= _LIKELY_UNPACKED and _only_bits(array):
        raise InvalidFeaturesError(
            f"{array.shape[1]} columns of zeros and ones look like unpacked bits: "
            "pass booleans or numpy.packbits(bits, axis=1)"
        )
    return array


def _only_bits(array: NDArray[np.uint8]) -> bool:
    """All 0 or 1, with so many ones that they are not by chance: sparse fingerprints have few bytes of 1."""
    if array[:64].max() > 1:  # decides nearly all cases, at no cost
        return False
    return bool(array.max() <= 1 and np.count_nonzero(array) >= 32)


def _words(packed: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Rows of bytes as 64-bit words, padded with zeros to a multiple of eight bytes."""
    missing = -packed.shape[1] % 8
    if missing:
        packed = np.pad(packed, ((0, 0), (0, missing)))
    return np.ascontiguousarray(packed).view(np.uint64)
