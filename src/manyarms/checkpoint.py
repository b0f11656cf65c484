"""A whole run in one file: an npz archive of plain arrays with a JSON manifest. Nothing is pickled.

Every number that the next step reads is stored, not recomputed, so a loaded run goes on bit for bit.
The file is written beside its destination and moved into place, so an interrupted save harms nothing.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from manyarms import policies
from manyarms.errors import CheckpointError, InvalidKernelError, ManyarmsError
from manyarms.kernels.describe import describe, from_description
from manyarms.learner import Memory
from manyarms.optimizer import Optimizer, Told
from manyarms.pool import Pool
from manyarms.trace import BatchRecord

FORMAT, VERSION = "manyarms run", 1
Arrays = Mapping[str, Any]


def save(run: Optimizer, path: Path) -> None:
    """Write the run; the previous file at `path` stays until the new one is complete."""
    arrays = {f"posterior_{name}": array for name, array in run.posterior.snapshot().items()}
    arrays |= {
        f"history_{name}": getattr(run.history, name) for name in ("arms", "counts", "sums", "squares")
    }
    arrays |= _trace_arrays(run.trace)
    if run.pool.features.dtype != object:
        arrays["pool_features"] = run.pool.features
    manifest = json.dumps(_manifest(run), default=lambda number: number.item()).encode()
    arrays["manifest"] = np.frombuffer(manifest, dtype=np.uint8)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(partial, "xb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except FileExistsError:
        raise
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def load(path: Path, pool: Pool | None = None, policy: policies.Policy | None = None) -> Optimizer:
    """Read a run that `save` wrote, checking everything before anything is used."""
    manifest, arrays = _read(path)
    try:
        return _restored(path, manifest, arrays, pool, policy)
    except ManyarmsError:
        raise
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        raise CheckpointError(f"{path}: damaged: {problem!r}") from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file")
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        manifest = json.loads(arrays.pop("manifest").tobytes())
    except Exception as problem:  # zipfile, zlib, struct and numpy each have their own kinds
        raise CheckpointError(f"{path}: not a saved run, or damaged: {problem}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(f"{path}: not a saved run")
    if manifest.get("version") != VERSION:
        raise CheckpointError(
            f"{path}: format version {manifest.get('version')}, this package reads version {VERSION}"
        )
    return manifest, arrays


def _manifest(run: Optimizer) -> dict[str, Any]:
    ledger = run._ledger
    return {
        "format": FORMAT,
        "version": VERSION,
        "policy": _described_policy(run.policy),
        "pool": {
            "digest": run.pool.digest,
            "names": run.pool.names,
            "max_memory": run.pool.max_memory,
            "ids": _plain_ids(run.pool),
        },
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
        "reasons": [record.ended_because for record in run.trace],
    }


def _described_policy(policy: policies.Policy) -> dict[str, Any]:
    settings = {field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}
    return {"name": type(policy).__name__, **settings, "kernel": describe(policy.kernel)}


def _plain_ids(pool: Pool) -> list[Any] | None:
    """Ids as JSON can hold them; None when there are none, or when they are objects of another kind."""
    if pool.has_ids and all(type(id) in (str, int) for id in pool.ids):
        return pool.ids
    return None


def _restored(
    path: Path, manifest: dict[str, Any], arrays: Arrays, pool: Pool | None, policy: policies.Policy | None
) -> Optimizer:
    pool = _restored_pool(path, manifest["pool"], arrays, pool)
    if policy is None:
        policy = _restored_policy(path, manifest["policy"])
    else:
        policy = _matching_policy(path, manifest["policy"], policy)
    run = Optimizer(pool, policy, **manifest["settings"])
    run._learner.posterior.restore(_part(arrays, "posterior_"))
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
    for record in _restored_trace(_part(arrays, "trace_"), manifest["reasons"]):
        run._trace.add(record)
    return run


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


def _restored_policy(path: Path, saved: dict[str, Any]) -> policies.Policy:
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
