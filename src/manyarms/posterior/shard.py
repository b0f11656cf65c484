"""A shard: a contiguous range of arms, and everything about them that has their number.

It holds their features, the stored columns of z, residual, quadratic form and mean. The driver
(`sparse_gp.py`) sends it small messages (`pool_step.py`) and asks for a few arms at a time. A shard keeps one
record for each version of the posterior in use, addressed by a number; versions that follow each other share
the stored columns.

Where blocks are cut does not depend on the division into shards, so neither do the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from threading import Lock
from typing import Any

import numpy as np

from manyarms.embeddings.nystrom import covariances
from manyarms.engines.base import forgets, keeps, repeatable
from manyarms.errors import InvalidKernelError, UnknownVersionError
from manyarms.kernels import KernelLike
from manyarms.pool.pool import Pool
from manyarms.posterior.fused_pass import advance, joined
from manyarms.posterior.pool_step import (
    LeverageScale,
    PoolValues,
    Rebuild,
    Start,
    Step,
    ValueRule,
)
from manyarms.support.column_room import ColumnRoom
from manyarms.support.column_store import Columns
from manyarms.support.compiled import worthwhile
from manyarms.support.frozen import changed
from manyarms.support.validation import Floats, Ints

VALUES = ("residual", "quadratic", "mean")
_FROM_OLD = (("version", 0),)
_REBUILD_ROWS = 1 << 12  # rows of z that are computed together stay in the cache


@dataclass(frozen=True)
class ArmValues:
    """What is known about some arms: mean, leverage, residual k − ‖z‖² and prior variance k."""

    mean: Floats
    leverage: Floats
    residual: Floats
    prior: Floats


@dataclass(frozen=True, eq=False)
class Version:
    """The arms of a shard in one state of the posterior."""

    start: Start
    prior: Floats  # k(x, x)
    columns: Columns  # z; the first `size` columns belong to this version
    size: int
    values: PoolValues
    scale: LeverageScale
    notes: dict[str, Any] = field(default_factory=dict)  # what other parts keep with this version

    @property
    def compiled(self) -> bool:
        """Whether passes over the columns are compiled."""
        return worthwhile(self.start.n_arms, self.size)

    @cached_property
    def leverage(self) -> Floats:
        """σ̃² of every arm of the shard on the ridge-leverage scale."""
        return self.scale.leverage(self.values, self.prior)

    @cached_property
    def std(self) -> Floats:
        """√σ̃²."""
        return np.sqrt(self.leverage)


class _Numbered(dict[int, Any]):
    """What a shard keeps, by number; it says so if it does not have a number."""

    def __missing__(self, number: int) -> Any:
        raise UnknownVersionError(f"this shard keeps nothing with the number {number}")


class Shard:
    """The arms from `first` on that `pool` holds; every method names the version that it reads or makes.

    `room` is where the columns are kept. Whoever writes columns also tells the store how to compute them
    again (`Columns.remember`), in the same blocks of rows.
    """

    def __init__(self, pool: Pool, first: int, room: ColumnRoom) -> None:
        self.pool, self.first, self.room = pool, first, room
        self.versions: dict[int, Version] = _Numbered()
        self.placed: dict[int, Any] = _Numbered()  # what other parts keep with the arms, for any version
        self._lock = Lock()  # held by the one who appends columns

    def __getstate__(self) -> dict[str, Any]:
        """Without the lock, which belongs to a process."""
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes, _lock=Lock())

    @property
    def n_arms(self) -> int:
        """The number of arms of this shard."""
        return self.pool.n_arms

    def local(self, arms: Ints) -> Ints:
        """Positions within this shard of arms of the pool."""
        return arms - self.first if self.first else arms

    def _mine(self, arms: Ints, start: Start) -> Ints:
        """Those of these arms of the pool that are in this shard, in their order."""
        if self.n_arms == start.n_arms:
            return arms
        return arms[(arms >= self.first) & (arms < self.first + self.n_arms)]

    # ------------------------------------------------------------------ making versions

    @keeps("version", makes=0)
    def start(self, new: int, start: Start, scale: LeverageScale) -> float:
        """Begin a chain: mean 0, leverage k/λ and no columns. The largest k(x, x)."""
        prior = np.concatenate(
            [prior_variances(start.kernel, block) for _, block in self.pool.blocks(bytes_per_arm=64)]
        )
        values = PoolValues(prior.copy(), np.zeros_like(prior), np.zeros_like(prior))
        self.versions[new] = Version(start, prior, self._columns(start), 0, values, scale)
        return float(prior.max())

    @keeps("version", makes=0)
    def scaled(self, number: int, scale: LeverageScale) -> None:
        """Complete a started version, once the largest prior variance of all shards is known."""
        self.versions[number] = replace(self.versions[number], scale=scale)

    @keeps("version", makes=1, reads=_FROM_OLD)
    def advance(self, old: int, new: int, step: Step) -> ArmValues:
        """Append columns and condition on pulls, in one pass over the stored columns.

        The answer is what is then known about the pulled arms of this shard: the driver needs it next.
        """
        with self._writing(self.versions[old]) as version:
            a = len(step.accepted)
            if step.border is not None:
                version.columns.reserve(version.size + a)
            values = self._stepped(version, step)
            if a and not version.columns.stored:
                again = partial(self._step_again, version.start.kernel, step, version.compiled)
                rows = self.pool.block_rows(_step_bytes(step))
                version.columns.remember(version.size, version.size + a, rows, again)
            if a:  # without new columns, the residual is that of the old version
                values.residual[self.local(self._mine(step.accepted, version.start))] = 0.0
            self.versions[new] = changed(
                version, size=version.size + a, values=values, scale=step.scale, notes={}
            )
        return self.at(new, self._mine(step.seen, version.start))

    @keeps("version", makes=1, reads=_FROM_OLD, begins=lambda args: not args[2].known)
    def rebuild(self, old: int, new: int, message: Rebuild) -> None:
        """Compute all columns and values from scratch, or all values and the columns that are not known."""
        known, m, values = message.known, message.embedding.dimension, empty_values(self.n_arms)
        with self._writing(self.versions[old]) if known else nullcontext(self.versions[old]) as version:
            columns = version.columns if known else self._columns(version.start)
            columns.reserve(m)
            for where, Z in self._embedded(message.embedding, known, columns, slice(0, self.n_arms)):
                columns.write(where, known, Z[:, known:])
                _write_values(values, where, message.rule.values(Z, version.prior[where]))
            if not columns.stored:
                rows = self.pool.block_rows(_rebuild_bytes(m), _REBUILD_ROWS)
                again = partial(self._rebuild_again, message.embedding, known)
                columns.remember(known, m, rows, again)
            self.versions[new] = Version(version.start, version.prior, columns, m, values, message.scale)

    def _embedded(
        self, embedding: Any, known: int, columns: Columns, rows: slice
    ) -> Iterator[tuple[slice, Floats]]:
        """z of these rows, block by block; the first `known` columns are read."""
        size = _rebuild_bytes(embedding.dimension)
        for where, block in self.pool.blocks(size, rows.start, _REBUILD_ROWS, rows.stop):
            if known:
                yield where, embedding.completed(block, columns.block(where, known))
            else:
                yield where, embedding.matrix(block)

    def _rebuild_again(self, embedding: Any, known: int, columns: Columns, rows: slice) -> None:
        """Write the columns of a rebuild for these rows once more."""
        for where, Z in self._embedded(embedding, known, columns, rows):
            columns.write(where, known, Z[:, known:])

    @keeps("version", makes=1, reads=_FROM_OLD)
    def revalue(self, old: int, new: int, embedding: Any, rule: ValueRule, scale: LeverageScale) -> None:
        """Keep the columns, and compute the values of every arm by this rule from z of this embedding."""
        version, values = self.versions[old], empty_values(self.n_arms)
        for where, block in self.pool.blocks(bytes_per_arm=24 * version.size):
            _write_values(values, where, rule.values(embedding.matrix(block), version.prior[where]))
        self.versions[new] = replace(version, values=values, scale=scale, notes={})

    @keeps("version", makes=1, reads=_FROM_OLD)
    def refit(self, old: int, new: int, vector: Floats) -> None:
        """Replace the mean by zᵀw for another weight vector w."""
        version = self.versions[old]
        values = replace(version.values, mean=self.forms(old, vector[:, None])[0])
        self.versions[new] = replace(version, values=values, notes={})

    @keeps("version", makes=1, reads=_FROM_OLD, begins=lambda args: True)
    def restore(self, old: int, new: int, arrays: Mapping[str, Any], scale: LeverageScale) -> None:
        """A version with these columns (a list of parts) and values for its first arms, as `whole` gave them.

        Arms after those get their columns from `embedding` and their values from `rule`, if there are any.
        """
        version, known = self.versions[old], len(arrays["mean"])
        columns = self._columns(version.start)
        columns.reserve(arrays["size"])
        columns.write_parts(slice(0, known), arrays["columns"])
        values = empty_values(self.n_arms)
        for name in VALUES:
            getattr(values, name)[:known] = arrays[name]
        for where, Z in self._restored(arrays, slice(known, self.n_arms)):
            columns.write(where, 0, Z)
            _write_values(values, where, arrays["rule"].values(Z, version.prior[where]))
        if not columns.stored:
            rows = self.pool.block_rows(_restore_bytes(arrays["size"]))
            columns.remember(0, arrays["size"], rows, partial(self._restore_again, arrays))
        self.versions[new] = Version(version.start, version.prior, columns, arrays["size"], values, scale)

    def _restored(self, arrays: Mapping[str, Any], rows: slice) -> Iterator[tuple[slice, Floats]]:
        """z of these rows, which `arrays` does not contain."""
        for where, block in self.pool.blocks(_restore_bytes(arrays["size"]), rows.start, stop=rows.stop):
            yield where, arrays["embedding"].matrix(block)

    def _restore_again(self, arrays: Mapping[str, Any], columns: Columns, rows: slice) -> None:
        """Write the restored columns of these rows once more."""
        known = min(max(len(arrays["mean"]), rows.start), rows.stop)
        inside = slice(rows.start, known)
        columns.write_parts(inside, [part[inside] for part in arrays["columns"]])
        for where, Z in self._restored(arrays, slice(known, rows.stop)):
            columns.write(where, 0, Z)

    @forgets("version")
    def release(self, number: int) -> None:
        """Forget a version."""
        self.versions.pop(number, None)

    @contextmanager
    def _writing(self, version: Version) -> Iterator[Version]:
        """The version while columns are written behind its own.

        It has columns of its own if a version in use was written there, or another thread is writing. Nobody
        waits: a lock that an interrupt has left behind only costs a copy.
        """
        alone = self._lock.acquire(blocking=False)
        try:
            if not alone or self._written_behind(version):
                version = replace(version, columns=version.columns.branched(version.size))
            yield version
        finally:
            if alone:
                self._lock.release()

    def _written_behind(self, version: Version) -> bool:
        return any(
            other.columns is version.columns and other.size > version.size
            for other in list(self.versions.values())
        )

    def _columns(self, start: Start) -> Columns:
        return self.room.columns(self.n_arms, start.storage, start.n_arms)

    def _stepped(self, version: Version, step: Step) -> PoolValues:
        """The values after a step; the new columns are written behind those of the version."""
        parts = []
        seen, compiled, everywhere = self.local(step.seen), version.compiled, slice(0, self.n_arms)
        for where, gram in self._step_blocks(version.start.kernel, step, everywhere):
            now = PoolValues(*(getattr(version.values, name)[where] for name in VALUES))
            parts.append(advance(version.columns, step, where, gram, seen, now, compiled=compiled))
        return parts[0] if len(parts) == 1 else joined(parts)

    def _step_again(
        self, kernel: KernelLike, step: Step, compiled: bool, columns: Columns, rows: slice
    ) -> None:
        """Write the new columns of a step for these rows once more; the values are computed for nothing."""
        for where, gram in self._step_blocks(kernel, step, rows):
            nothing = np.zeros(where.stop - where.start)
            now = PoolValues(nothing, nothing, nothing)
            advance(columns, step, where, gram, self.local(step.seen), now, compiled=compiled)

    def _step_blocks(self, kernel: KernelLike, step: Step, rows: slice) -> Iterator[tuple[slice, Floats]]:
        """Blocks of these rows, and the covariances of the accepted arms with each."""
        for where, block in self.pool.blocks(_step_bytes(step), rows.start, stop=rows.stop):
            gram = np.empty((len(step.accepted), len(block)))
            if step.border is not None:
                gram = covariances(kernel, block, step.points).T
            yield where, gram

    # ------------------------------------------------------------------ reading

    @repeatable
    def at(self, number: int, arms: Ints) -> ArmValues:
        """What is known about these arms of the pool."""
        return self._values(self.versions[number], arms)

    @repeatable
    def rows(self, number: int, arms: Ints) -> Floats:
        """z(x) of these arms of the pool in double precision, len(arms) × m."""
        return self._rows(self.versions[number], arms)

    @repeatable
    def look(self, number: int, arms: Ints) -> tuple[ArmValues, Floats]:
        """What `at` and `rows` say about these arms of the pool, in one answer."""
        return self.look_in(self.versions[number], arms)

    def look_in(self, version: Version, arms: Ints) -> tuple[ArmValues, Floats]:
        """The same in a version that is at hand."""
        return self._values(version, arms), self._rows(version, arms)

    def _values(self, version: Version, arms: Ints) -> ArmValues:
        values, here = version.values, self.local(arms)
        return ArmValues(
            values.mean[here], version.leverage[here], values.residual[here], version.prior[here]
        )

    def _rows(self, version: Version, arms: Ints) -> Floats:
        return version.columns.rows(self.local(arms), version.size)

    def forms(self, number: int, vectors: Floats) -> Floats:
        """vᵀz(x) of every arm for each column v of `vectors`: r × arms."""
        version = self.versions[number]
        parts = [
            version.columns.product(vectors, where, version.compiled)
            for where, _ in self.pool.blocks(8 * 2 * vectors.shape[1])
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def whole(self, number: int, name: str) -> Any:
        """One value of every arm of the shard, by its name; or its columns, as a list of parts."""
        version = self.versions[number]
        if name == "columns":
            return version.columns.parts(version.size)
        return getattr(version if name in ("leverage", "prior") else version.values, name)

    def run(self, function: Callable[..., Any], number: int, *args: Any) -> Any:
        """`function(shard, version, *args)`, for what other packages compute over the arms of a shard."""
        return function(self, self.versions[number], *args)

    @keeps("placed", makes=0)
    def place(self, key: int, make: Callable[..., Any], *args: Any) -> None:
        """Keep `make(pool, room, *args)` with the arms of this shard, for every version."""
        self.placed[key] = make(self.pool, self.room, *args)

    @forgets("placed")
    def displace(self, key: int) -> None:
        """Forget what `place` made."""
        self.placed.pop(key, None)

    def nbytes(self, number: int) -> int:
        """The bytes allocated for columns."""
        columns: Columns = self.versions[number].columns
        return columns.nbytes


def prior_variances(kernel: KernelLike, features: Any) -> Floats:
    """k(x, x) of these feature rows, checked to be finite and not negative."""
    prior = np.asarray(kernel.diag(features), dtype=np.float64)
    if prior.shape != (len(features),):
        raise InvalidKernelError(f"{kernel!r}.diag gave shape {prior.shape} for {len(features)} arms")
    wrong = ~(np.isfinite(prior) & (prior >= 0))
    if wrong.any():
        raise InvalidKernelError(f"{kernel!r}.diag gave {prior[wrong][0]}, a variance must be finite and ≥ 0")
    return prior


def _step_bytes(step: Step) -> int:
    return 8 * (3 * int(step.forms.shape[1]) + 4 * len(step.accepted) + 8)


def _rebuild_bytes(columns: int) -> int:
    return 8 * (3 * columns + 8)


def _restore_bytes(columns: int) -> int:
    return 8 * (5 * columns + 8)


def empty_values(n_arms: int) -> PoolValues:
    """Arrays for the values of this many arms."""
    return PoolValues(np.empty(n_arms), np.empty(n_arms), np.empty(n_arms))


def _write_values(values: PoolValues, where: slice, part: PoolValues) -> None:
    for name in VALUES:
        getattr(values, name)[where] = getattr(part, name)
