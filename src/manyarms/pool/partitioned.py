"""A pool in many Parquet files: rows are read when they are used, by the shard that owns them."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Hashable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manyarms.errors import InvalidIdError, InvalidParameterError, UnknownArmError, shown
from manyarms.pool.pool import DEFAULT_MAX_MEMORY, Pool, _hash_object
from manyarms.pool.stored_rows import StoredRows, id_blocks, stored_rows
from manyarms.support.validation import arm_index, arm_indices, count, is_missing


class PartitionedPool(Pool):
    """The rows of several Parquet files as one pool, in the order of the names of the files.

    Only numbers can be features. The files must not change while they are used. A range of arms that fits
    into `max_memory` is kept in memory once it was read; on a cluster each worker reads and keeps its own
    ranges. Ids are read when they are asked for, and are not checked to be unique; to find an arm by its id,
    the files are searched.
    """

    features: Any  # StoredRows

    def __init__(
        self,
        path: str | Path,
        id: str | None = None,
        features: Sequence[str] | str | None = None,
        *,
        max_memory: int = DEFAULT_MAX_MEMORY,
    ) -> None:
        self.max_memory = count("max_memory", max_memory, minimum=2**16)
        rows = stored_rows(path, id, features, self.max_memory)
        self.features, self.names, self._id_column = rows, rows.names, id
        self._ids = None
        self._found: dict[Hashable, int] = {}

    @property
    def has_ids(self) -> bool:
        """Whether the files have a column of ids."""
        return self._id_column is not None

    @property
    def ids(self) -> list[Any]:
        """The ids of all arms, read from the files."""
        if self._id_column is None:
            return list(range(self.n_arms))
        return [id for block in id_blocks(self._rows, self._id_column) for id in block]

    def id_of(self, arm: int) -> Any:
        """The id of one arm."""
        return self.ids_of([arm_index(arm, self.n_arms)])[0]

    def ids_of(self, arms: ArrayLike) -> list[Any]:
        """The ids of several arms; the row groups that hold them are read."""
        indices = arm_indices(arms, self.n_arms)
        if self._id_column is None:
            return list(indices.tolist())
        found: dict[int, Any] = {}
        for group in self._rows.groups:
            first, stop = group.first - self._rows.first, group.stop - self._rows.first
            inside = indices[(indices >= first) & (indices < stop)].tolist()
            if inside:
                one = self._rows.part(max(first, 0), min(stop, self.n_arms))
                (values,) = id_blocks(one, self._id_column)
                found |= {arm: values[arm - max(first, 0)] for arm in inside}
        for arm, id in found.items():
            if is_missing(id):
                raise InvalidIdError(f"arm {arm} cannot have the id {shown(id)}")
        return [found[arm] for arm in indices.tolist()]

    def index_of(self, id: Hashable) -> int:
        """The index of the first arm with this id; the files are searched."""
        if self._id_column is None:
            return super().index_of(id)
        try:
            if id not in self._found:
                self._found[id] = self._searched(id)
            return self._found[id]
        except TypeError:
            raise UnknownArmError(f"no arm has the id {shown(id)}") from None

    def _searched(self, id: Hashable) -> int:
        before = 0
        assert self._id_column is not None
        for block in id_blocks(self._rows, self._id_column):
            if not isinstance(id, bool | np.bool_) and id in block:
                return before + block.index(id)
            before += len(block)
        raise UnknownArmError(f"no arm has the id {shown(id)}")

    def arms_of(self, arms: Any) -> Any:
        """Indices of arms given by index or by id."""
        if self._id_column is None:
            return super().arms_of(arms)
        if isinstance(arms, np.ndarray) and arms.dtype.kind in "iu":
            return arm_indices(arms, self.n_arms)
        listed = [arms] if isinstance(arms, str | bytes) or not hasattr(arms, "__iter__") else list(arms)
        if listed and not all(hasattr(arm, "__index__") for arm in listed):
            return np.array([self.index_of(arm) for arm in listed], dtype=np.int64)
        return arm_indices(arms, self.n_arms)

    def part(self, first: int, stop: int) -> Pool:
        """The arms from `first` to before `stop` as a pool without ids; nothing is read."""
        if (first, stop) == (0, self.n_arms):
            return self
        return self._with(self._rows.part(first, stop), None)

    def first(self, n_arms: int) -> Pool:
        """A pool of the first `n_arms` arms."""
        return self._with(self._rows.part(0, n_arms), self._id_column)

    def encoded(self, encode: Any) -> PartitionedPool:
        """The same arms with the features that `encode` gives for a block of rows, computed when read."""
        other = self._with(self._rows.encoded(encode), self._id_column)
        other.names = None
        return other

    def extended(self, features: Any, ids: Any = None) -> Pool:
        """Arms cannot be added to a pool in files."""
        rule = "a pool in memory if arms are added to it; read the files again with the new ones"
        raise InvalidParameterError("pool", self, rule)

    def to_plain(self) -> dict[str, Any]:
        """What identifies the pool; the features stay in their files."""
        return {
            "digest": self.digest,
            "names": self.names,
            "max_memory": self.max_memory,
            "ids": None,
            "features": None,
        }

    @cached_property
    def digest(self) -> str:
        """The digest of a pool in memory with the same features and ids; all files are read once."""
        sha = hashlib.sha256(f"{self.features.dtype.str}{self.features.shape}{self.has_ids}".encode())
        for _, block in self.blocks(bytes_per_arm=8):
            sha.update(np.ascontiguousarray(block).tobytes())
        if self._id_column is not None:
            for ids in id_blocks(self._rows, self._id_column):
                for id in ids:
                    _hash_object(sha, id)
        return sha.hexdigest()

    @property
    def _rows(self) -> StoredRows:
        rows: StoredRows = self.features
        return rows

    def _with(self, rows: StoredRows, id_column: str | None) -> PartitionedPool:
        other = copy.copy(self)
        vars(other).pop("digest", None)
        other.features, other._id_column, other._found = rows, id_column, {}
        return other
