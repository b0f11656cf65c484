"""The pool: all candidates, each identified by an integer index and by the user's id."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.errors import (
    CheckpointError,
    DuplicateIdError,
    EmptyPoolError,
    InvalidFeaturesError,
    InvalidIdError,
    TableError,
    UnknownArmError,
    shown,
)
from manyarms.pool.arrays import as_features, as_objects, row_blocks
from manyarms.pool.frames import from_frame, is_frame, library_of
from manyarms.support.validation import Ints, arm_index, arm_indices, count, inexact_integer, is_missing

DEFAULT_MAX_MEMORY = 512 * 2**20
_MAX_BLOCK_ROWS = 1 << 14
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+>")  # of a default repr, which does not show the contents


class Pool:
    """A fixed set of arms.

    `features` may be a matrix (float32, float64, integers, memory-mapped), a matrix of packed bits
    (uint8) or booleans, a pandas or polars frame (of numbers and categorical columns), a list of strings,
    or any sequence of objects that the kernel understands. The array is kept, not copied: do not change it
    afterwards. Equal rows are allowed; they are different arms. (Booleans work with every kernel; Tanimoto is
    fastest on bits packed beforehand with `numpy.packbits(bits, axis=1)`.)

    `ids` are the user's unique names of the arms (for a frame, a column name is also accepted); by default
    the id of an arm is its index. `max_memory` bounds, in bytes, the temporary arrays of any pass over the
    pool; passes go block by block for this reason.
    """

    def __init__(
        self,
        features: Any,
        ids: Sequence[Hashable] | NDArray[Any] | str | None = None,
        *,
        names: Sequence[str] | None = None,
        max_memory: int = DEFAULT_MAX_MEMORY,
    ) -> None:
        self.frame_library: str | None = None  # of the frame that the features come from
        if is_frame(features):
            self.frame_library = library_of(features)
            features, column_ids, names = from_frame(features, ids if isinstance(ids, str) else None)
            ids = column_ids if isinstance(ids, str) else ids
        self.features: NDArray[Any] = as_features(features, names)
        self.max_memory = count("max_memory", max_memory, minimum=2**16)
        self.names = None if names is None else _checked_names(names, self.n_features)
        self._ids = None if ids is None else _checked_ids(ids, len(self.features))

    @classmethod
    def read(
        cls,
        path: str | Path,
        id: str | None = None,
        features: Sequence[str] | str | None = None,
        *,
        max_memory: int = DEFAULT_MAX_MEMORY,
        **form: str | None,
    ) -> Pool:
        """A pool from a text table, an Excel, Parquet, npy or npz file, or from several Parquet files.

        `form` may hold the delimiter, encoding, decimal and sheet; see `manyarms.pool.tables.read_table`. A
        folder, or a path such as "folder/*.parquet", also of a storage service ("s3://bucket/*.parquet"),
        gives a pool that reads rows when they are used (`manyarms.pool.partitioned`).
        """
        from manyarms.pool.stored_rows import is_several
        from manyarms.pool.tables import read_table

        if is_several(path) and not form:
            inheriting = import_module("manyarms.pool.partitioned").PartitionedPool
            several: Pool = inheriting(path, id, features, max_memory=max_memory)
            return several
        table = read_table(path, id=id, features=features, **form)
        try:
            return cls(table.features, table.ids, names=table.names, max_memory=max_memory)
        except (InvalidFeaturesError, EmptyPoolError) as problem:
            raise TableError(f"{path}: {problem}") from None
        except InvalidIdError as problem:
            raise type(problem)(f"{path}: {problem}") from None

    @property
    def n_arms(self) -> int:
        """The number of candidates."""
        return len(self.features)

    @property
    def n_features(self) -> int:
        """The length of a feature row; 1 for strings and objects."""
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
        """The ids of all arms, in order of index."""
        return list(range(self.n_arms)) if self._ids is None else list(self._ids)

    def id_of(self, arm: int) -> Any:
        """The id of one arm."""
        arm = arm_index(arm, self.n_arms)
        return arm if self._ids is None else self._ids[arm]

    def ids_of(self, arms: ArrayLike) -> list[Any]:
        """The ids of several arms."""
        indices = arm_indices(arms, self.n_arms).tolist()
        return indices if self._ids is None else [self._ids[i] for i in indices]

    def index_of(self, id: Hashable) -> int:
        """The index of the arm with this id."""
        try:
            if isinstance(id, bool | np.bool_):  # True == 1, but does not mean arm 1
                raise KeyError
            return arm_index(id, self.n_arms) if self._ids is None else self._index[id]
        except (KeyError, TypeError, ValueError, UnknownArmError):
            raise UnknownArmError(f"no arm has the id {shown(id)}") from None

    def arms_of(self, arms: Any) -> Ints:
        """Indices of arms given by index or by id.

        Integers are indices. Anything else is looked up among the ids; integer ids go through `index_of`.
        """
        if isinstance(arms, np.ndarray) and not arms.ndim:
            arms = arms.item()
        numbers = isinstance(arms, np.ndarray) and arms.dtype.kind in "iu"
        if self._ids is not None and not numbers:
            one = isinstance(arms, str | bytes) or not isinstance(arms, Iterable)
            listed = [arms] if one else list(arms)
            if listed and not all(hasattr(arm, "__index__") for arm in listed):
                return np.array([self.index_of(_plain_id(arm)) for arm in listed], dtype=np.int64)
        return arm_indices(arms, self.n_arms)

    @cached_property
    def _index(self) -> dict[Hashable, int]:
        return {id: arm for arm, id in enumerate(self.ids)}

    def take(self, arms: ArrayLike) -> NDArray[Any]:
        """The features of some arms, as a new array."""
        return np.asarray(self.features[arm_indices(arms, self.n_arms)])

    def blocks(
        self, bytes_per_arm: int, first: int = 0, most: int | None = None, stop: int | None = None
    ) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Iterate over the arms from `first` to before `stop`, in slices that fit `max_memory`.

        An arm takes `bytes_per_arm` and, in a kernel that scales the features, two copies of them. A block
        has at most `most` arms. Blocks end at multiples of a power of two, so where they are cut does not
        depend on how the pool is divided into parts.
        """
        rows, stop = self.block_rows(bytes_per_arm, most), self.n_arms if stop is None else stop
        while first < stop:
            end = min(stop, (first // rows + 1) * rows)
            yield slice(first, end), self.features[first:end]
            first = end

    def block_rows(self, bytes_per_arm: int, most: int | None = None) -> int:
        """The largest number of arms in one of these blocks, a power of two."""
        rows = max(1, min(most or _MAX_BLOCK_ROWS, self.max_memory // (bytes_per_arm + 16 * self.n_features)))
        return 1 << (rows.bit_length() - 1)

    def part(self, first: int, stop: int) -> Pool:
        """The arms from `first` to before `stop` as a pool without ids; their features are not copied."""
        if (first, stop) == (0, self.n_arms):
            return self
        other = copy.copy(self)
        vars(other).pop("digest", None)
        other.features, other._ids = self.features[first:stop], None
        return other

    def first(self, n_arms: int) -> Pool:
        """A pool of the first `n_arms` arms."""
        ids = None if self._ids is None else self._ids[:n_arms]
        return Pool(self.features[:n_arms], ids, names=self.names, max_memory=self.max_memory)

    def extended(self, features: Any, ids: Sequence[Hashable] | NDArray[Any] | str | None = None) -> Pool:
        """A new pool with further arms after the present ones, whose indices do not change."""
        if is_frame(features):
            features, column_ids, names = from_frame(features, ids if isinstance(ids, str) else None)
            ids = column_ids if isinstance(ids, str) else ids
            if self.names is not None and names != self.names:
                raise InvalidFeaturesError(
                    f"the new arms have columns {shown(names)}, the pool has {shown(self.names)}"
                )
        if (ids is None) != (self._ids is None):
            raise InvalidIdError("new arms must have ids if and only if the pool has ids")
        joined = np.concatenate([self.features, _fitting(features, self.features)])
        if ids is not None:
            ids = [*self.ids, *_checked_ids(ids, len(joined) - self.n_arms)]
        grown = Pool(joined, ids, names=self.names, max_memory=self.max_memory)
        grown.frame_library = self.frame_library
        return grown

    def encoded(self, encode: Callable[[Any], NDArray[Any]]) -> Pool:
        """The same arms with the features that `encode` gives for a block of rows."""
        parts = [encode(block) for _, block in self.blocks(bytes_per_arm=24 * self.n_features)]
        return Pool(np.concatenate(parts), self.ids if self.has_ids else None, max_memory=self.max_memory)

    def to_plain(self) -> dict[str, Any]:
        """Features, ids and names; without the features where they are Python objects."""
        plain_ids = self.has_ids and all(type(id) in (str, int, float) for id in self.ids)
        return {
            "digest": self.digest,
            "names": self.names,
            "max_memory": self.max_memory,
            "ids": self.ids if plain_ids else None,
            "features": None if self.features.dtype == object else self.features,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], given: Pool | None, place: str) -> Pool:
        """What `to_plain` wrote, or the pool given, which must be the same; `place` begins messages."""
        if given is None:
            if plain["features"] is None:
                raise CheckpointError(
                    f"{place}: the arms are not in the file (Python objects, or rows of other files); "
                    "give the pool to load()"
                )
            given = cls(plain["features"], plain["ids"], names=plain["names"], max_memory=plain["max_memory"])
        if given.digest != plain["digest"]:
            raise CheckpointError(
                f"{place}: the run belongs to another pool (features or ids differ); give that pool to load()"
            )
        return given

    @cached_property
    def digest(self) -> str:
        """SHA-256 of features and ids: two pools with the same digest are the same pool."""
        sha = hashlib.sha256(f"{self.features.dtype.str}{self.features.shape}{self.has_ids}".encode())
        for _, block in row_blocks(self.features, _MAX_BLOCK_ROWS):
            if block.dtype == object:
                for item in block.ravel().tolist():
                    _hash_object(sha, item)
            else:
                sha.update(np.ascontiguousarray(block).tobytes())
        for id in self._ids or ():
            _hash_object(sha, id)
        return sha.hexdigest()


def _fitting(features: Any, present: NDArray[Any]) -> NDArray[Any]:
    """The features of new arms with the shape and type of the pool; no value may change by the cast."""
    if present.dtype == object and present.ndim == 1:
        as_features(features)  # refuses anything that is not a non-empty sequence
        return as_objects(features)
    added = as_features(features)
    if added.shape[1:] != present.shape[1:]:
        raise InvalidFeaturesError(
            f"new arms have shape {added.shape[1:]} each, the arms of the pool have {present.shape[1:]}"
        )
    kinds = {added.dtype.kind, present.dtype.kind}
    if kinds == {"U"} or kinds == {"S"}:
        return added
    bits_for_bytes = added.dtype == np.dtype(bool) and present.dtype == np.dtype(np.uint8)  # packed or not
    if present.dtype != object and (kinds & set("US") or bits_for_bytes):
        raise InvalidFeaturesError(f"new arms hold {added.dtype}, the arms of the pool hold {present.dtype}")
    with np.errstate(all="ignore"):
        cast = added.astype(present.dtype)
        changed = ~np.isfinite(cast) if present.dtype.kind == "f" else cast != added
    too_large = inexact_integer(added) if present.dtype.kind == "f" else None
    if too_large is not None:
        raise InvalidFeaturesError(f"feature {too_large} of a new arm is too large for a float")
    if present.dtype != object and changed.any():
        raise InvalidFeaturesError(
            f"feature {added[changed][0]} of a new arm does not fit the type {present.dtype} of the pool"
        )
    return cast


def _hash_object(sha: Any, item: Any) -> None:
    """Add the contents of an object to the digest; `repr` of an array would omit digits."""
    if isinstance(item, np.ndarray) and item.dtype != object:
        sha.update(f"array {item.dtype.str}{item.shape}".encode() + np.ascontiguousarray(item).tobytes())
    elif isinstance(item, list | tuple | np.ndarray):
        sha.update(f"{type(item).__name__} {len(item)}".encode())
        for part in item:
            _hash_object(sha, part)
    elif isinstance(item, dict):
        sha.update(f"dict {len(item)}".encode())
        for part in item.items():
            _hash_object(sha, part)
    elif isinstance(item, set | frozenset):  # their order differs between processes
        _hash_object(sha, sorted(map(repr, item)))
    elif _ADDRESS.search(text := repr(item)):
        kind = type(item).__name__
        raise InvalidFeaturesError(f"a pool of {kind} objects has no digest unless {kind} defines __repr__")
    else:
        sha.update(f"{type(item).__name__} {text}\x1f".encode())


def _checked_names(names: Sequence[str], n_features: int) -> list[str]:
    if not isinstance(names, str) and isinstance(names, Iterable):
        checked = list(names)
        if len(checked) == n_features:
            return checked
    raise InvalidFeaturesError(f"names {shown(names)} do not fit {n_features} features")


def _checked_ids(ids: Sequence[Hashable] | NDArray[Any] | str, n_arms: int) -> list[Hashable]:
    if isinstance(ids, str):
        raise InvalidIdError(f"ids={ids!r} names a column, but only a data frame has named columns")
    try:
        if isinstance(ids, bytes | set | frozenset | Mapping):  # bytes are numbers, sets have no order
            raise TypeError
        common = _numbers_and_texts(ids)
        if common is not None and len(common) == n_arms:
            return common
        values = [_plain_id(value) for value in ids]
    except TypeError:
        raise InvalidIdError(f"ids must be a sequence, one per arm, got {shown(ids)}") from None
    if len(values) != n_arms:
        raise InvalidIdError(f"{len(values)} ids for {n_arms} arms")
    seen: dict[Hashable, int] = {}
    for arm, value in enumerate(values):
        if isinstance(value, bool) or is_missing(value) or not isinstance(value, Hashable):
            raise InvalidIdError(f"arm {arm} cannot have the id {shown(value)}")
        try:
            first = seen.setdefault(value, arm)
        except TypeError:  # a tuple with a list inside
            raise InvalidIdError(f"arm {arm} cannot have the id {shown(value)}") from None
        if first != arm:
            raise DuplicateIdError(f"arms {first} and {arm} have the same id {shown(value)}")
    return values


def _numbers_and_texts(ids: Any) -> list[Hashable] | None:
    """The ids if they are different integers and texts, in a tenth of the time of the checks one by one."""
    if isinstance(ids, np.ndarray):
        values = ids.tolist() if ids.dtype.kind in "iuU" and ids.ndim == 1 else []
    else:
        values = ids if isinstance(ids, list) else []
    usual = {*map(type, values)} <= {int, str} and len({*values}) == len(values)
    return list(values) if values and usual else None


def _plain_id(value: Any) -> Any:
    """The Python number or string for a numpy scalar, so that equal ids also print and hash the same."""
    return value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value
