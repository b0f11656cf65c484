"""A run without its pool: only what cannot be rebuilt, a few kilobytes even for a pool of millions.

The posterior is built anew on the same inducing arms, which costs O(A·m²) and agrees with the saved one up to
rounding (a sketch by frequent directions, SOFUL's, depends on the order of pulls and starts over). Two runs
restored from the same bytes are the same bit for bit.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from manyarms.errors import CheckpointError, ManyarmsError
from manyarms.learning import LearnedModel, Prepared, model_from
from manyarms.policies import Policy
from manyarms.pool.pool import Pool
from manyarms.run.checkpoint import (
    carry_on,
    pack,
    part,
    read_archive,
    restored_policy,
    started,
    write_archive,
)
from manyarms.run.optimizer import Optimizer
from manyarms.support.validation import Ints

FORMAT = "manyarms run without its pool"
_REBUILT_FROM = ("inducing", "arms", "counts", "sums")  # of the posterior
_NAME = "the saved state"


def take_in(run: Optimizer) -> None:
    """Learn from what was told, as the next ask would."""
    run._take_feedback()


def to_bytes(run: Optimizer) -> bytes:
    """The run without its pool, the columns over it, and the trace of past batches."""
    stream = io.BytesIO()
    arrays = {f"posterior_{name}": getattr(run.posterior.state, name) for name in _REBUILT_FROM}
    write_archive(stream, run, FORMAT, {"pool": _shape(run.pool)}, arrays)
    return stream.getvalue()


def model_of(data: bytes) -> LearnedModel | None:
    """What a run that `to_bytes` wrote has learned; None where its kernel was given."""
    manifest, _ = read_archive(io.BytesIO(data), _NAME, FORMAT)
    model = manifest.get("model")
    return None if model is None else model_from(model)


def from_bytes(
    data: bytes, pool: Pool, policy: Policy | None = None, prepared: Prepared | None = None
) -> Optimizer:
    """Take up a run that `to_bytes` wrote, on the same pool (the caller knows that it is the same).

    A policy given here replaces the saved one: the past is kept, kernel, ridge and rules are the new ones.
    `prepared` is what a learned model sees of the pool, where that has been found out before.
    """
    manifest, arrays = read_archive(io.BytesIO(data), _NAME, FORMAT)
    try:
        if manifest["pool"] != _shape(pool):
            raise CheckpointError(f"{_NAME}: of a pool of shape {manifest['pool']}, this has {_shape(pool)}")
        run = started(pool, policy or restored_policy(_NAME, manifest["policy"]), manifest, prepared)
        saved = part(arrays, "posterior_")
        counts = saved["counts"].astype(np.int64)
        rewards = np.zeros(counts.sum())
        rewards[np.cumsum(counts) - counts] = saved["sums"]  # one pull of each arm carries its whole sum
        run.posterior.rebuild(saved["inducing"], np.repeat(saved["arms"], counts), rewards)
        carry_on(run, manifest, arrays, first_ticket=manifest["ledger"]["next_ticket"])
    except ManyarmsError:
        raise
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        raise CheckpointError(f"{_NAME}: damaged: {problem!r}") from None
    return run


def narrowed(data: bytes, arms: Ints) -> tuple[bytes, Ints]:
    """The same run on fewer arms: these, and those it has to do with. The bytes, and which arms they are.

    What a run learns depends on the arms pulled alone, as long as its policy makes no feature map for the
    pool, so it can learn on the few and `widened` can take it back to the many.
    """
    manifest, arrays = read_archive(io.BytesIO(data), _NAME, FORMAT)
    kept = np.unique(np.concatenate([arms, *(labels for _, labels in _labels(manifest, arrays))]))
    return _relabelled(manifest, arrays, lambda old: np.searchsorted(kept, old), len(kept)), kept


def widened(data: bytes, arms: Ints, pool: Pool) -> bytes:
    """A run on some arms of a pool, on all of them."""
    manifest, arrays = read_archive(io.BytesIO(data), _NAME, FORMAT)
    return _relabelled(manifest, arrays, lambda old: arms[old], pool.n_arms)


def _labels(manifest: dict[str, Any], arrays: dict[str, Any]) -> list[tuple[str, Ints]]:
    """Every list of arms in the light form, by its place."""
    ledger = manifest["ledger"]
    places = {name: arrays[name] for name in ("posterior_inducing", "posterior_arms", "history_arms")} | {
        "drawn": manifest["memory"]["drawn"],
        "pending": [arm for _, arm in ledger["pending"]],
        "failures": [arm for arm, _ in ledger["failures"]],
        "waiting": [arm for _, _, arm, _ in manifest["waiting"]],
        "plan": manifest["plan"] or [],
    }
    return [(place, np.array(labels, dtype=np.int64)) for place, labels in places.items()]


def _relabelled(
    manifest: dict[str, Any], arrays: dict[str, Any], label: Callable[[Ints], Ints], n_arms: int
) -> bytes:
    new = {place: label(old) for place, old in _labels(manifest, arrays)}
    plain = {place: labels.tolist() for place, labels in new.items()}
    ledger, memory = dict(manifest["ledger"]), {**manifest["memory"], "drawn": plain["drawn"]}
    ledger["pending"] = [
        (ticket, arm) for (ticket, _), arm in zip(ledger["pending"], plain["pending"], strict=True)
    ]
    ledger["failures"] = [(arm, n) for (_, n), arm in zip(ledger["failures"], plain["failures"], strict=True)]
    waiting = [
        [kind, order, arm, reward]
        for (kind, order, _, reward), arm in zip(manifest["waiting"], plain["waiting"], strict=True)
    ]
    moved = manifest | {
        "memory": memory, "ledger": ledger, "waiting": waiting,
        "plan": None if manifest["plan"] is None else plain["plan"],
        "started_with": n_arms, "modelled_with": n_arms, "pool": [n_arms, manifest["pool"][1]],
    }  # fmt: skip
    stream = io.BytesIO()
    pack(stream, moved, arrays | {name: labels for name, labels in new.items() if name in arrays})
    return stream.getvalue()


def _shape(pool: Pool) -> list[int]:
    return [pool.n_arms, pool.n_features]
