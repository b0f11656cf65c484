"""A whole run in one file: an npz archive of plain arrays with a JSON manifest. Nothing is pickled.

Every number that the next step reads is stored, not recomputed, so a loaded run goes on bit for bit.
The file is written beside its destination and moved into place, so an interrupted save harms nothing.
(`manyarms.run.compact_state` is the other form: a run without its pool.)
"""

from __future__ import annotations

import dataclasses
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
from manyarms.learning import Prepared, model_from
from manyarms.pool.pool import Pool
from manyarms.run.feedback import Memory
from manyarms.run.optimizer import Optimizer
from manyarms.run.results import Told
from manyarms.run.trace import BatchRecord, Trace

FORMAT, VERSION = "manyarms run", 2  # 1: other encodings of columns under a learned kernel
Arrays = Mapping[str, Any]


def save(run: Optimizer, path: Path) -> None:
    """Write the run; the previous file at `path` stays until the new one is complete."""
    arrays = {f"posterior_{name}": array for name, array in run.posterior.snapshot().items()}
    if run.prior is not None:
        arrays |= {f"prior_{name}": array for name, array in run.prior.snapshot().items()}
    arrays |= _trace_arrays(run.trace)
    if run.pool.features.dtype != object:
        arrays["pool_features"] = run.pool.features
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(partial, "xb") as stream:
            write_archive(stream, run, FORMAT, _whole(run), arrays)
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
        manifest, arrays = read_archive(stream, str(path), FORMAT)
    try:
        return _restored(path, manifest, arrays, pool, policy)
    except ManyarmsError:
        raise
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        raise CheckpointError(f"{path}: damaged: {problem!r}") from None


def started(
    pool: Pool, policy: policies.Policy, manifest: dict[str, Any], prepared: Prepared | None = None
) -> Optimizer:
    """A run at its beginning, under the model it had, and with the arms that were added since.

    Encodings and feature maps are made for the arms there are at the time, so this is the way to the same
    ones. `prepared` is for a run to which no arms were added.
    """
    first, then = manifest["started_with"], manifest["modelled_with"]
    begun = pool if first == pool.n_arms else pool.first(first)
    run = Optimizer(begun, policy, **manifest["settings"], prepared=prepared)
    if then > first:
        run._grow(pool.first(then))
    if manifest["model"] is not None:
        run._mind = run._mind.with_model(model_from(manifest["model"]), run._streams)
    if then < pool.n_arms:
        run._grow(pool)
    run.modelled_with = then
    return run


def write_archive(stream: IO[bytes], run: Optimizer, form: str, more: dict[str, Any], arrays: Arrays) -> None:
    """The archive: the arrays given, the history, and the manifest with `more` in it."""
    history = {
        f"history_{name}": getattr(run.history, name) for name in ("arms", "counts", "sums", "squares")
    }
    pack(stream, {"format": form, "version": VERSION, **_common(run), **more}, {**arrays, **history})


def pack(stream: IO[bytes], manifest: dict[str, Any], arrays: Arrays) -> None:
    """Arrays and manifest in one archive."""
    written = json.dumps(manifest, default=lambda number: number.item()).encode()
    np.savez(stream, allow_pickle=False, **arrays, manifest=np.frombuffer(written, dtype=np.uint8))


def read_archive(stream: IO[bytes], name: str, form: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Manifest and arrays of an archive in this form; `name` serves messages."""
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
    ledger, model = run._ledger, run._mind.modelled.model
    return {
        "policy": _described_policy(run._mind.modelled.asked),
        "model": None if model is None else model.describe(),
        "plan": run._plan,
        "started_with": run.started_with,
        "modelled_with": run.modelled_with,
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
    return {"name": type(policy).__name__, **settings, "kernel": _described_kernel(policy)}


def _described_kernel(policy: policies.Policy) -> Any:
    return policy.kernel if isinstance(policy.kernel, str) else describe(policy.kernel)


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
        policy = restored_policy(str(path), manifest["policy"])
    else:
        fitted = policy if policy.kernel == "auto" else policy.on(pool)
        policy = _matching_policy(path, manifest["policy"], fitted)
    run = started(pool, policy, manifest)
    run._learner.posterior.restore(part(arrays, "posterior_"))
    if run.prior is not None:
        run.prior.restore(part(arrays, "prior_"))
    records = _restored_trace(part(arrays, "trace_"), manifest["reasons"])
    past = int(records[0].tickets[0]) if records else manifest["ledger"]["next_ticket"]
    carry_on(run, manifest, arrays, first_ticket=past)
    for record in records:
        run._trace.add(record)
    return run


def carry_on(run: Optimizer, manifest: dict[str, Any], arrays: Arrays, first_ticket: int) -> None:
    """Everything but the posterior, as both forms hold it; the trace begins at `first_ticket`."""
    memory = manifest["memory"] | {
        name: tuple(manifest["memory"][name]) for name in ("drawn", "probabilities")
    }
    run._learner.memory = Memory(**memory)
    run.history.restore(**part(arrays, "history_"))
    run._streams.restore(manifest["streams"])
    ledger, saved = run._ledger, manifest["ledger"]
    ledger.next_ticket = saved["next_ticket"]
    ledger.pending = dict(saved["pending"])
    ledger.forgotten = set(saved["forgotten"])
    ledger.failures = Counter(dict(saved["failures"]))
    run._waiting = [Told((kind, order), arm, reward) for kind, order, arm, reward in manifest["waiting"]]
    run._unasked, run._plan = manifest["unasked"], manifest["plan"]
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


def restored_policy(path: str, saved: dict[str, Any]) -> policies.Policy:
    """The policy a manifest describes."""
    settings = {key: value for key, value in saved.items() if key not in ("name", "kernel")}
    kind = getattr(policies, saved["name"], None) if saved["name"] in policies.__all__ else None
    if kind is None:
        raise CheckpointError(
            f"{path}: {saved['name']} is not one of this package's policies; give it to load()"
        )
    try:
        learned = isinstance(saved["kernel"], str)
        kernel = saved["kernel"] if learned else from_description(saved["kernel"])
        policy: policies.Policy = kind(kernel=kernel, **settings)
    except InvalidKernelError as problem:
        raise CheckpointError(f"{path}: {problem}; give the policy to load()") from None
    return policy


def _matching_policy(path: Path, saved: dict[str, Any], policy: policies.Policy) -> policies.Policy:
    """The given policy, checked against the saved settings; a raised q̄ is taken from the file."""
    if isinstance(policy, policies.Sparse) and "oversampling" in saved:
        policy = dataclasses.replace(policy, oversampling=saved["oversampling"])
    given = json.loads(json.dumps(_described_policy(policy)))
    different = [name for name in {*given, *saved} if given.get(name) != saved.get(name)]
    if different and not (different == ["kernel"] and "custom" in str(saved["kernel"])):
        name = sorted(different)[0]
        raise CheckpointError(
            f"{path}: the run's policy had {name} = {saved.get(name)!r}, this has {given.get(name)!r}"
        )
    return policy


def part(arrays: Arrays, prefix: str) -> dict[str, Any]:
    """The arrays whose names begin so, without that beginning."""
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
