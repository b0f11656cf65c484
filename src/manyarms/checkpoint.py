"""A run as plain arrays with a JSON manifest, in two forms. Nothing is pickled.

`save` and `load`: the whole run in one npz file. Every number that the next step reads is stored, not
recomputed, so a loaded run goes on bit for bit. The file is written beside its destination and moved into
place, so an interrupted save harms nothing.

`to_bytes` and `from_bytes`: only what cannot be rebuilt from the pool, a few kilobytes even for a pool of
millions. The posterior is built anew on the same inducing arms, which costs O(A·m²) and agrees with the
saved one up to rounding (a sketch by frequent directions, SOFUL's, depends on the order of pulls and starts
over). Two runs restored from the same bytes are the same bit for bit.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from manyarms import policies
from manyarms.errors import CheckpointError, InvalidKernelError, ManyarmsError
from manyarms.kernels.describe import describe, from_description
from manyarms.learner import Memory
from manyarms.optimizer import Optimizer, Told
from manyarms.pool import Pool
from manyarms.trace import BatchRecord, Trace

FORMAT, LIGHT_FORMAT, VERSION = "manyarms run", "manyarms run without its pool", 1
Arrays = Mapping[str, Any]
_REBUILT_FROM = ("inducing", "arms", "counts", "sums")  # of the posterior


def save(run: Optimizer, path: Path) -> None:
    """Write the run; the previous file at `path` stays until the new one is complete."""
    arrays = {f"posterior_{name}": array for name, array in run.posterior.snapshot().items()}
    arrays |= _trace_arrays(run.trace)
    if run.pool.features.dtype != object:
        arrays["pool_features"] = run.pool.features
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(partial, "xb") as stream:
            _write(stream, run, FORMAT, _whole(run), arrays)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except OSError as problem:
        if not isinstance(problem, FileExistsError):  # somebody else's file
            partial.unlink(missing_ok=True)
        raise CheckpointError(f"{path}: cannot be written: {problem.strerror or problem}") from problem
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def load(path: Path, pool: Pool | None = None, policy: policies.Policy | None = None) -> Optimizer:
    """Read a run that `save` wrote, checking everything before anything is used."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file")
    with open(path, "rb") as stream:
        manifest, arrays = _read(stream, str(path), FORMAT)
    try:
        return _restored(path, manifest, arrays, pool, policy)
    except ManyarmsError:
        raise
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        raise CheckpointError(f"{path}: damaged: {problem!r}") from None


def to_bytes(run: Optimizer) -> bytes:
    """The run without its pool, the columns over it, and the trace of past batches."""
    stream = io.BytesIO()
    arrays = {f"posterior_{name}": getattr(run.posterior.state, name) for name in _REBUILT_FROM}
    _write(stream, run, LIGHT_FORMAT, {"pool": _shape(run.pool)}, arrays)
    return stream.getvalue()


def from_bytes(data: bytes, pool: Pool, policy: policies.Policy | None = None) -> Optimizer:
    """Take up a run that `to_bytes` wrote, on the same pool (the caller knows that it is the same).

    A policy given here replaces the saved one: the past is kept, kernel, ridge and rules are the new ones.
    """
    name = "the saved state"
    manifest, arrays = _read(io.BytesIO(data), name, LIGHT_FORMAT)
    try:
        if manifest["pool"] != _shape(pool):
            raise CheckpointError(f"{name}: of a pool of shape {manifest['pool']}, this has {_shape(pool)}")
        run = _started(pool, policy or _restored_policy(name, manifest["policy"]), manifest)
        saved = _part(arrays, "posterior_")
        counts = saved["counts"].astype(np.int64)
        rewards = np.zeros(counts.sum())
        rewards[np.cumsum(counts) - counts] = saved["sums"]  # one pull of each arm carries its whole sum
        run.posterior.rebuild(saved["inducing"], np.repeat(saved["arms"], counts), rewards)
        _carry_on(run, manifest, arrays, first_ticket=manifest["ledger"]["next_ticket"])
    except ManyarmsError:
        raise
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        raise CheckpointError(f"{name}: damaged: {problem!r}") from None
    return run


def _started(pool: Pool, policy: policies.Policy, manifest: dict[str, Any]) -> Optimizer:
    """A run at its beginning, on the arms it began with, and then on those added since.

    Feature maps are made for the arms of the beginning, so this is the way to the same ones.
    """
    first = manifest["started_with"]
    run = Optimizer(pool if first == pool.n_arms else pool.first(first), policy, **manifest["settings"])
    if first < pool.n_arms:
        run._grow(pool)
    return run


def _shape(pool: Pool) -> list[int]:
    return [pool.n_arms, pool.n_features]


def _write(stream: IO[bytes], run: Optimizer, form: str, more: dict[str, Any], arrays: Arrays) -> None:
    """The archive: the arrays given, the history, and the manifest with `more` in it."""
    history = {
        f"history_{name}": getattr(run.history, name) for name in ("arms", "counts", "sums", "squares")
    }
    manifest = {"format": form, "version": VERSION, **_common(run), **more}
    written = json.dumps(manifest, default=lambda number: number.item()).encode()
    everything = {**arrays, **history, "manifest": np.frombuffer(written, dtype=np.uint8)}
    np.savez(stream, allow_pickle=False, **everything)


def _read(stream: IO[bytes], name: str, form: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        with np.load(stream, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        manifest = json.loads(arrays.pop("manifest").tobytes())
    except Exception as problem:  # zipfile, zlib, struct and numpy each have their own kinds
        raise CheckpointError(f"{name}: not a saved run, or damaged: {problem}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != form:
        raise CheckpointError(f"{name}: not a saved run")
    if manifest.get("version") != VERSION:
        raise CheckpointError(
            f"{name}: format version {manifest.get('version')}, this package reads version {VERSION}"
        )
    return manifest, arrays


def _whole(run: Optimizer) -> dict[str, Any]:
    """The part of the manifest that only the full form has: the pool, and why each batch ended."""
    return {
        "pool": {
            "digest": run.pool.digest,
            "names": run.pool.names,
            "max_memory": run.pool.max_memory,
            "ids": _plain_ids(run.pool),
        },
        "reasons": [record.ended_because for record in run.trace],
    }


def _common(run: Optimizer) -> dict[str, Any]:
    """The part of the manifest that both forms have."""
    ledger = run._ledger
    return {
        "policy": _described_policy(run.policy),
        "started_with": run.started_with,
        "settings": {
            "seed": run.seed,
            "budget": run.budget,
            "repeats": run.repeats,
            "max_failures": run.max_failures,
            "storage": run.posterior.storage.name,
            "lazy": run.lazy,
        },
        "streams": run._streams.state(),
        "memory": dataclasses.asdict(run._learner.memory),
        "ledger": {
            "next_ticket": ledger.next_ticket,
            "pending": list(ledger.pending.items()),
            "forgotten": sorted(ledger.forgotten),
            "failures": list(ledger.failures.items()),
        },
        "waiting": [[*result.order, result.arm, result.reward] for result in run._waiting],
        "unasked": run._unasked,
    }


def _described_policy(policy: policies.Policy) -> dict[str, Any]:
    settings = {field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}
    return {"name": type(policy).__name__, **settings, "kernel": describe(policy.kernel)}


def _plain_ids(pool: Pool) -> list[Any] | None:
    """Ids as JSON can hold them; None when there are none, or when they are objects of another kind."""
    if pool.has_ids and all(type(id) in (str, int, float) for id in pool.ids):
        return pool.ids
    return None


def _restored(
    path: Path, manifest: dict[str, Any], arrays: Arrays, pool: Pool | None, policy: policies.Policy | None
) -> Optimizer:
    pool = _restored_pool(path, manifest["pool"], arrays, pool)
    if policy is None:
        policy = _restored_policy(str(path), manifest["policy"])
    else:
        policy = _matching_policy(path, manifest["policy"], policy.on(pool))
    run = _started(pool, policy, manifest)
    run._learner.posterior.restore(_part(arrays, "posterior_"))
    records = _restored_trace(_part(arrays, "trace_"), manifest["reasons"])
    past = int(records[0].tickets[0]) if records else manifest["ledger"]["next_ticket"]
    _carry_on(run, manifest, arrays, first_ticket=past)
    for record in records:
        run._trace.add(record)
    return run


def _carry_on(run: Optimizer, manifest: dict[str, Any], arrays: Arrays, first_ticket: int) -> None:
    """Everything but the posterior, as both forms hold it; the trace begins at `first_ticket`."""
    memory = manifest["memory"] | {
        name: tuple(manifest["memory"][name]) for name in ("drawn", "probabilities")
    }
    run._learner.memory = Memory(**memory)
    run.history.restore(**_part(arrays, "history_"))
    run._streams.restore(manifest["streams"])
    ledger, saved = run._ledger, manifest["ledger"]
    ledger.next_ticket = saved["next_ticket"]
    ledger.pending = dict(saved["pending"])
    ledger.forgotten = set(saved["forgotten"])
    ledger.failures = Counter(dict(saved["failures"]))
    run._waiting = [Told((kind, order), arm, reward) for kind, order, arm, reward in manifest["waiting"]]
    run._unasked = manifest["unasked"]
    run._trace = _LaterTrace([], [_NO_RECORD] * first_ticket)


_NO_RECORD = -1


class _LaterTrace(Trace):
    """The trace of a run that left its past behind: results of earlier tickets have no record here."""

    def told(self, ticket: int, reward: float, failed: bool) -> None:
        if self._batch_of[ticket] != _NO_RECORD:
            super().told(ticket, reward, failed)


def _restored_pool(path: Path, saved: dict[str, Any], arrays: Arrays, pool: Pool | None) -> Pool:
    if pool is None:
        if "pool_features" not in arrays:
            raise CheckpointError(f"{path}: the pool's arms are Python objects; give the pool to load()")
        features, names = arrays["pool_features"], saved["names"]
        pool = Pool(features, saved["ids"], names=names, max_memory=saved["max_memory"])
    if pool.digest != saved["digest"]:
        raise CheckpointError(
            f"{path}: the run belongs to another pool (features or ids differ); give that pool to load()"
        )
    return pool


def _restored_policy(path: str, saved: dict[str, Any]) -> policies.Policy:
    settings = {key: value for key, value in saved.items() if key not in ("name", "kernel")}
    kind = getattr(policies, saved["name"], None) if saved["name"] in policies.__all__ else None
    if kind is None:
        raise CheckpointError(
            f"{path}: {saved['name']} is not one of this package's policies; give it to load()"
        )
    try:
        policy: policies.Policy = kind(kernel=from_description(saved["kernel"]), **settings)
    except InvalidKernelError as problem:
        raise CheckpointError(f"{path}: {problem}; give the policy to load()") from None
    return policy


def _matching_policy(path: Path, saved: dict[str, Any], policy: policies.Policy) -> policies.Policy:
    """The given policy, checked against the saved settings; a raised q̄ is taken from the file."""
    if isinstance(policy, policies.Sparse) and "oversampling" in saved:
        policy = dataclasses.replace(policy, oversampling=saved["oversampling"])
    given = json.loads(json.dumps(_described_policy(policy)))
    different = [name for name in {*given, *saved} if given.get(name) != saved.get(name)]
    if different and not (different == ["kernel"] and saved["kernel"]["kernel"] == "custom"):
        name = sorted(different)[0]
        raise CheckpointError(
            f"{path}: the run's policy had {name} = {saved.get(name)!r}, this has {given.get(name)!r}"
        )
    return policy


def _part(arrays: Arrays, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


_PER_PULL = ("arms", "tickets", "rewards", "failed")
_PER_BATCH = ("dictionary_size", "width", "effective_dimension", "ratio", "seconds")


def _trace_arrays(records: list[BatchRecord]) -> dict[str, Any]:
    arrays: dict[str, Any] = {
        "trace_sizes": np.array([len(record.arms) for record in records], dtype=np.int64)
    }
    for name in _PER_PULL:
        parts = [getattr(record, name) for record in records]
        arrays[f"trace_{name}"] = np.concatenate(parts) if parts else np.empty(0)
    for name in _PER_BATCH:
        arrays[f"trace_{name}"] = np.array([getattr(record, name) for record in records])
    return arrays


def _restored_trace(arrays: Arrays, reasons: list[str]) -> list[BatchRecord]:
    ends = np.cumsum(arrays["sizes"])
    records = []
    for i, (start, end) in enumerate(zip(ends - arrays["sizes"], ends, strict=True)):
        pulls = {name: arrays[name][start:end].copy() for name in _PER_PULL}
        numbers = {name: arrays[name][i].item() for name in _PER_BATCH}
        records.append(BatchRecord(**pulls, **numbers, ended_because=reasons[i]))
    return records
