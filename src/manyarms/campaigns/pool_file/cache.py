"""Files next to a table that hold what was computed from it. They are safe to delete.

A cache is keyed by the digest of the table and by what was computed, so it never outlives a change. If the
folder of the table cannot be written to, the user's cache folder is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from manyarms.errors import OutputError
from manyarms.pool.pool import Pool
from manyarms.support.output_files import replacing

SMALL_TABLE = 5_000  # rows below which reading the table again is as fast
_VERSION = 1  # to be raised when tables are turned into features in another way
T = TypeVar("T")


def mark(*parts: str) -> str:
    """A short name for what a cache was computed from."""
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


def places(path: Path, ending: str) -> list[Path]:
    """Where the cache of a table may be, in order of preference."""
    name = f".{path.name}.{ending}"
    home = os.environ.get("XDG_CACHE_HOME")
    return [path.parent / name, (Path(home) if home else Path.home() / ".cache") / "manyarms" / name]


def found(where: list[Path], load: Callable[[Path], T | None]) -> T | None:
    """What the first usable cache holds; None if there is none."""
    for place in where:
        try:
            loaded = load(place)
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):  # missing or damaged
            continue
        if loaded is not None:
            return loaded
    return None


def keep(where: list[Path], save: Callable[[IO[Any]], None]) -> None:
    """Write a cache to the first place that can be written to."""
    for place in where:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with replacing(place, "wb") as stream:
                save(stream)
            return
        except (OSError, OutputError):  # the folder is read-only
            continue


# ------------------------------------------------------------------ the pool of a text table


def pool_places(path: Path, digest: str, meaning: Any) -> list[Path]:
    """Where the candidates of a table may be cached; `meaning` says how its columns are read."""
    return places(path, f"features.{mark(str(_VERSION), digest, json.dumps(meaning))}.npz")


def cached_pool(where: list[Path], n_arms: int) -> Pool | None:
    """The candidates from the cache."""

    def load(place: Path) -> Pool | None:
        with open(place, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            features, names = archive["features"], archive["names"].tolist()
            ids = archive["ids"].tolist() if "ids" in archive.files else None
        return Pool(features, ids, names=names) if len(features) == n_arms else None

    return found(where, load)


def keep_pool(where: list[Path], pool: Pool) -> None:
    """Cache the candidates."""
    arrays: dict[str, Any] = {"features": pool.features, "names": np.array(pool.names)}
    if pool.has_ids:
        if any(text.endswith("\0") for text in pool.ids):  # numpy would drop the last character
            return
        arrays["ids"] = np.array(pool.ids)
    keep(where, lambda stream: np.savez(stream, **arrays))
