"""The pool: all candidates, each known by an integer index and by the user's own id."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.errors import DuplicateIdError, InvalidFeaturesError, UnknownArmError
from manyarms.features import as_features, from_frame, is_frame, row_blocks
from manyarms.tables import read_table
from manyarms.validation import arm_indices, count

DEFAULT_MAX_MEMORY = 512 * 2**20
_MAX_BLOCK_ROWS = 1 << 16


class Pool:
    """A fixed set of arms.

    `features` may be a matrix (float32, float64, integers, memory-mapped), a matrix of packed bits
    (uint8) or booleans, a pandas or polars frame, a list of strings, or any sequence of objects that
    the kernel understands. The array is kept, not copied: do not change it afterwards. Equal rows are
    allowed; arms are told apart by index.

    `ids` are the user's unique names of the arms (for a frame also the name of a column); by default
    an arm's id is its index. `max_memory` bounds, in bytes, the temporary arrays of any pass over the
    pool, which is why passes go block by block.
    """

    def __init__(
        self,
        features: Any,
        ids: Sequence[Hashable] | NDArray[Any] | str | None = None,
        *,
        names: Sequence[str] | None = None,
        max_memory: int = DEFAULT_MAX_MEMORY,
    ) -> None:
        if is_frame(features):
            features, column_ids, names = from_frame(features, ids if isinstance(ids, str) else None)
            ids = column_ids if isinstance(ids, str) else ids
        self.features: NDArray[Any] = as_features(features)
        self.max_memory = count("max_memory", max_memory, minimum=2**16)
        self.names = None if names is None else list(names)
        self._ids = None if ids is None else _checked_ids(ids, len(self.features))

    @classmethod
    def read(
        cls,
        path: str | Path,
        id: str | None = None,
        features: Sequence[str] | str | None = None,
        *,
        max_memory: int = DEFAULT_MAX_MEMORY,
    ) -> Pool:
        """A pool from a CSV, TSV, Parquet, npy or npz file; see `manyarms.tables.read_table`."""
        table = read_table(path, id=id, features=features)
        return cls(table.features, table.ids, names=table.names, max_memory=max_memory)

    @property
    def n_arms(self) -> int:
        """How many candidates there are."""
        return len(self.features)

    @property
    def n_features(self) -> int:
        """Length of a feature row; 1 for strings and objects."""
        return int(self.features.shape[1]) if self.features.ndim > 1 else 1

    def __len__(self) -> int:
        return self.n_arms

    def __repr__(self) -> str:
        return f"Pool({self.n_arms} arms, features {self.features.dtype} {self.features.shape})"

    @property
    def has_ids(self) -> bool:
        """Whether the user named the arms."""
        return self._ids is not None

    @property
    def ids(self) -> list[Any]:
        """Every arm's id, in order of index."""
        return list(range(self.n_arms)) if self._ids is None else list(self._ids)

    def id_of(self, arm: int) -> Any:
        """The id of one arm."""
        arm = int(arm_indices(arm, self.n_arms)[0])
        return arm if self._ids is None else self._ids[arm]

    def ids_of(self, arms: ArrayLike) -> list[Any]:
        """The ids of several arms."""
        indices = arm_indices(arms, self.n_arms).tolist()
        return indices if self._ids is None else [self._ids[i] for i in indices]

    def index_of(self, id: Hashable) -> int:
        """The index of the arm with this id."""
        try:
            return self._index[id]
        except (KeyError, TypeError):
            raise UnknownArmError(f"no arm has the id {id!r}") from None

    @cached_property
    def _index(self) -> dict[Hashable, int]:
        return {id: arm for arm, id in enumerate(self.ids)}

    def take(self, arms: ArrayLike) -> NDArray[Any]:
        """The features of some arms, as a new array."""
        return np.asarray(self.features[np.asarray(arms)])

    def blocks(self, bytes_per_arm: int) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Walk over the pool in slices whose temporaries (`bytes_per_arm` each) fit `max_memory`."""
        rows = max(1, min(_MAX_BLOCK_ROWS, self.max_memory // max(bytes_per_arm, 1)))
        for start, block in row_blocks(self.features, rows):
            yield slice(start, start + len(block)), block

    def extended(self, features: Any, ids: Sequence[Hashable] | None = None) -> Pool:
        """A new pool with more arms behind the present ones; indices so far keep their meaning."""
        more = as_features(features)
        if more.ndim != self.features.ndim or more.shape[1:] != self.features.shape[1:]:
            raise InvalidFeaturesError(
                f"new arms have shape {more.shape[1:]} each, the arms of the pool {self.features.shape[1:]}"
            )
        if (ids is None) != (self._ids is None):
            raise InvalidFeaturesError("new arms need ids exactly when the pool has ids")
        joined = np.concatenate([self.features, more.astype(self.features.dtype, copy=False)])
        if self.features.dtype.kind == "U":
            joined = np.concatenate([self.features, more])
        all_ids = None if ids is None else [*self.ids, *ids]
        return Pool(joined, all_ids, names=self.names, max_memory=self.max_memory)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of features and ids: two pools with the same digest are the same pool."""
        sha = hashlib.sha256(f"{self.features.dtype.str}{self.features.shape}".encode())
        for _, block in row_blocks(self.features, _MAX_BLOCK_ROWS):
            sha.update(
                repr(block.tolist()).encode()
                if block.dtype == object
                else np.ascontiguousarray(block).tobytes()
            )
        if self._ids is not None:
            sha.update("\x1f".join(map(repr, self._ids)).encode())
        return sha.hexdigest()


def _checked_ids(ids: Sequence[Hashable] | NDArray[Any] | str, n_arms: int) -> list[Hashable]:
    if isinstance(ids, str):
        raise InvalidFeaturesError(f"ids={ids!r} names a column, which only a data frame has")
    values = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    if len(values) != n_arms:
        raise InvalidFeaturesError(f"{len(values)} ids for {n_arms} arms")
    seen: dict[Hashable, int] = {}
    for arm, value in enumerate(values):
        if value in seen:
            raise DuplicateIdError(f"arms {seen[value]} and {arm} have the same id {value!r}")
        seen[value] = arm
    return values
