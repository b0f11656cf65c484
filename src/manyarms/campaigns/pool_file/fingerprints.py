"""Morgan fingerprints of SMILES strings, packed into bytes and cached next to the pool."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import MissingExtraError, OutputError, TableError, shown
from manyarms.support.output_files import replacing

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
    mark = hashlib.sha256(f"{key} {column}".encode()).hexdigest()[:16]
    name = f".{path.name}.morgan{RADIUS}-{BITS}.{mark}.npy"
    places = [path.parent / name, _cache_folder() / name]
    for place in places:
        cached = _cached(place)
        if cached is not None and rows in (None, len(cached)):
            return cached
    computed = computed_fingerprints(path, column, smiles(), progress)
    for place in places:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with replacing(place, "wb") as stream:
                np.save(stream, computed, allow_pickle=False)
            break
        except (OSError, OutputError):  # the folder is read-only
            continue
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


def _cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "manyarms"


def _cached(place: Path) -> NDArray[np.uint8] | None:
    """The cached fingerprints; None if there are none or the file is damaged."""
    try:
        cached: NDArray[np.uint8] = np.load(place, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    valid = cached.dtype == np.uint8 and cached.ndim == 2 and cached.shape[1] == BITS // 8
    return cached if valid else None
