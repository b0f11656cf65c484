"""The Tanimoto (Jaccard) kernel on packed bits: the usual similarity of molecular fingerprints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import InvalidFeaturesError
from manyarms.kernels.checks import as_array
from manyarms.kernels.combine import Kernel
from manyarms.support.compiled import worthwhile_now
from manyarms.support.validation import Floats

_LIKELY_UNPACKED = 64  # this many columns, all 0 or 1, are probably unpacked bits
_BLOCK_ROWS = 4096  # compared at a time, so that the intermediate arrays stay in the cache
_COMPILED_FROM = 1 << 24  # pairs of words, for which loading the compiled loops is worthwhile


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
        swapped = len(bytes_y) < len(bytes_x)
        few, many = (bytes_y, bytes_x) if swapped else (bytes_x, bytes_y)
        result = _similarities(_words(few), _words(many))
        return result.T if swapped else result

    def diag(self, X: Any) -> Floats:
        """One everywhere."""
        return np.ones(len(_packed(X)))


def _similarities(few: NDArray[np.uint64], many: NDArray[np.uint64]) -> Floats:
    """|x ∧ y| / |x ∨ y| for every x of `few` and y of `many`; both ways to compute it are exact."""
    if not worthwhile_now(few.size * len(many) >= _COMPILED_FROM):
        return _by_words(few, many)
    from manyarms.kernels.compiled_tanimoto import similarities

    result = np.empty((len(few), len(many)))
    similarities(few, many, result)
    return result


def _by_words(few: NDArray[np.uint64], many: NDArray[np.uint64]) -> Floats:
    """The same with numpy."""
    result = np.empty((len(few), len(many)))
    for start in range(0, len(many), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        words = np.ascontiguousarray(many[rows].T)  # one operation for the same word of all rows
        bits = _ones(words)
        for i in range(len(few)):
            shared = _ones(words & few[i][:, None])
            either = bits + float(np.bitwise_count(few[i]).sum()) - shared
            values = result[i, rows]
            np.divide(shared, either, out=values, where=either > 0)
            values[either == 0] = 1.0
    return result


def _ones(words: NDArray[np.uint64]) -> Floats:
    """The number of ones in each column of words."""
    return np.asarray(np.bitwise_count(words).sum(axis=0, dtype=np.uint32), dtype=np.float64)


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
