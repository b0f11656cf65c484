"""Morgan fingerprints of SMILES strings, packed into bytes and cached next to the pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.campaigns.pool_file import cache
from manyarms.errors import MissingExtraError, TableError, shown

RADIUS, BITS = 2, 1024
ProgressCallback = Callable[[int, int], None]
_REPORT_EVERY = 500


def fingerprints(
    path: Path,
    column: str,
    key: str,
    smiles: Callable[[], Sequence[str]],
    progress: ProgressCallback | None = None,
    rows: int | None = None,
) -> NDArray[np.uint8]:
    """Morgan fingerprints of a SMILES column, from the cache if it has them for this exact file.

    `key` is the digest of the pool file, `smiles` reads the column if it is needed, and `rows` is the
    expected number of rows, if known.
    """
    name = f"morgan{RADIUS}-{BITS}.{cache.mark(key, column)}.npy"
    places = cache.places(path, name)
    cached = cache.found(places, lambda place: _cached(place, rows))
    if cached is not None:
        return cached
    computed = computed_fingerprints(path, column, smiles(), progress)
    cache.keep(places, lambda stream: np.save(stream, computed, allow_pickle=False))
    return computed


def computed_fingerprints(
    path: Path, column: str, smiles: Sequence[str], progress: ProgressCallback | None = None
) -> NDArray[np.uint8]:
    """One row of packed bits per molecule; the error for an invalid SMILES string names its row."""
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem import rdFingerprintGenerator
    except ImportError:
        raise MissingExtraError("rdkit", "molecules", "a SMILES column") from None
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    packed = np.empty((len(smiles), BITS // 8), dtype=np.uint8)
    with rdBase.BlockLogs():
        for row, text in enumerate(smiles):
            molecule: Any = Chem.MolFromSmiles(text) if text.strip() else None
            if molecule is None:
                raise TableError(
                    f"{path}: row {row}, column {column!r}: {shown(text)} is not a SMILES string"
                )
            packed[row] = np.packbits(generator.GetFingerprintAsNumPy(molecule))
            if progress is not None and (row % _REPORT_EVERY == 0 or row + 1 == len(smiles)):
                progress(row + 1, len(smiles))
    return packed


def _cached(place: Path, rows: int | None) -> NDArray[np.uint8] | None:
    """The cached fingerprints; None if they are not those of this table."""
    cached: NDArray[np.uint8] = np.load(place, mmap_mode="r", allow_pickle=False)
    valid = cached.dtype == np.uint8 and cached.ndim == 2 and cached.shape[1] == BITS // 8
    return cached if valid and rows in (None, len(cached)) else None
