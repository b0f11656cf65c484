"""The function `prepare`: decide what a pool's features are and make them ready for learning.

Its result is a `Prepared` (`prepared_pool.py`): features of known scale and the kernel families that suit
them. Numbers are not copied to be standardised. The kernel's length-scales absorb each column's spread,
which costs nothing and leaves a memory-mapped table on disk. A second pool with the same ids is made only
for features that no length-scale can correct: heavy-tailed columns (asinh), few unevenly spaced values
(level numbers), text columns (one-hot), one-hot blocks (codes, for the Hamming kernel) and unpacked
fingerprints (packed, for the Tanimoto kernel). The copy takes one row per arm, compared with the m columns
per arm that the posterior stores, and kernels are evaluated far too often to transform their input at every
call.
"""

from __future__ import annotations

import numpy as np

from manyarms.learning.categorical import FINGERPRINT_BITS, from_bits, from_table, from_texts, one_hot_blocks
from manyarms.learning.kernel_families import TanimotoFamily
from manyarms.learning.numeric_columns import columns_of
from manyarms.learning.numeric_pool import from_numbers
from manyarms.learning.prepared_pool import Prepared
from manyarms.pool.pool import Pool

SMALL_BYTE_LIMIT = 32  # bytes that are all below this are numbers; packed bits also use the upper three bits


def prepare(pool: Pool) -> Prepared:
    """Decide from the features' type and values what the pool holds, and record what was assumed."""
    kind = pool.features.dtype.kind
    if kind in "US":
        return from_texts(pool)
    if kind == "O":
        return from_table(pool)
    if pool.features.dtype == np.dtype(np.uint8) and _holds_packed_bits(pool):
        assumptions = ("bytes are treated as packed bits: Tanimoto kernel",)
        return Prepared(pool, (TanimotoFamily(),), (), np.asarray, assumptions)
    columns = columns_of(pool)
    if all(column.binary or (column.constant and column.lowest in (0.0, 1.0)) for column in columns):
        prepared = from_bits(pool, pool.names)
        if prepared is not None:
            return prepared
    blocks = one_hot_blocks(pool, columns)
    return from_numbers(pool, columns, blocks, pool.names, pool.names)


def _holds_packed_bits(pool: Pool) -> bool:
    """Whether bytes are packed bits: enough of them for a fingerprint, and not all of them small numbers."""
    if 8 * pool.n_features < FINGERPRINT_BITS:
        return False
    return max(int(block.max()) for _, block in pool.blocks(bytes_per_arm=8)) >= SMALL_BYTE_LIMIT
