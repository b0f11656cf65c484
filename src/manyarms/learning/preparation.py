"""From whatever a pool holds to features with a known scale, and the kernel families that suit them.

Numbers are not copied to be standardised: the kernel's length-scales absorb each column's spread, which
costs nothing and leaves a memory-mapped table on disk. Only what no length-scale can mend is rewritten,
once, into a second pool with the same ids: heavy-tailed columns (asinh), few uneven values (steps), text
columns (one-hot), one-hot blocks (back to codes, for Hamming), unpacked fingerprints (packed, for
Tanimoto). Rewriting takes one row per arm, against m columns per arm that the posterior keeps, and kernels
are evaluated far too often to transform their input at each call.
"""

from __future__ import annotations

import numpy as np

from manyarms.learning.categorical import FINGERPRINT_BITS, from_bits, from_table, from_texts
from manyarms.learning.kernel_families import Bits
from manyarms.learning.numeric_columns import columns_of
from manyarms.learning.prepared import Prepared, from_numbers
from manyarms.pool.pool import Pool

__all__ = ["Prepared", "prepare"]

SMALL_NUMBERS = 32  # where all bytes are below it they are settings: packed bits use the upper three too


def prepare(pool: Pool) -> Prepared:
    """Decide from the features' type and values what the pool is, and say what was assumed."""
    kind = pool.features.dtype.kind
    if kind in "US":
        return from_texts(pool)
    if kind == "O":
        return from_table(pool)
    if pool.features.dtype == np.dtype(np.uint8) and _packed(pool):
        return Prepared(pool, (Bits(),), (), np.asarray, ("bytes are taken for packed bits: Tanimoto",))
    columns = columns_of(pool)
    if all(column.binary or (column.constant and column.lowest in (0.0, 1.0)) for column in columns):
        prepared = from_bits(pool)
        if prepared is not None:
            return prepared
    return from_numbers(pool, columns, np.arange(len(columns)), pool.names)


def _packed(pool: Pool) -> bool:
    """Whether bytes are packed bits: enough of them for a fingerprint, and not small numbers throughout."""
    if 8 * pool.n_features < FINGERPRINT_BITS:
        return False
    return max(int(block.max()) for _, block in pool.blocks(bytes_per_arm=8)) >= SMALL_NUMBERS
