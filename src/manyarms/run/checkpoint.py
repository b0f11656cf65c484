"""Saving a whole run to one file: an npz archive of plain arrays with a JSON manifest, without pickle.

Every number that the next step reads is stored, not recomputed, so a loaded run continues bit for bit. The
file is written next to its destination and then moved into place, so an interrupted save leaves the previous
file intact. (`compact_state.py` has the other form: a run without arrays of the size of the pool.)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyarms.errors import CheckpointError, ManyarmsError
from manyarms.learning import model_from
from manyarms.policies import Policy
from manyarms.policies.plain import matching_policy, policy_from_plain, policy_to_plain
from manyarms.pool.pool import Pool
from manyarms.run.belief import Belief
from manyarms.run.context import RunContext
from manyarms.run.growing import with_more_arms
from manyarms.run.state import RunState
from manyarms.support.archive import read_archive, write_archive

FORMAT, VERSION = "manyarms run", 3  # 2 stored the positions of random streams, 1 other encodings of columns


def save(context: RunContext, state: RunState, path: Path) -> None:
    """Write the run; the previous file at `path` is kept until the new one is complete."""
    plain = {
        "format": FORMAT,
        "version": VERSION,
        "pool": context.pool.to_plain(),
        **context_to_plain(context),
        "state": state.to_plain(),
    }
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(partial, "xb") as stream:
            write_archive(stream, plain)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except OSError as problem:
        if not isinstance(problem, FileExistsError):  # another process owns the partial file
            partial.unlink(missing_ok=True)
        raise CheckpointError(f"{path}: cannot be written: {problem.strerror or problem}") from problem
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def load(path: Path, pool: Pool | None, policy: Policy | None) -> tuple[RunContext, RunState]:
    """Read a run that `save` wrote; everything is checked before it is used."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file")
    with open(path, "rb") as stream:
        plain = read_archive(stream, str(path), FORMAT, VERSION)
    try:
        pool = Pool.from_plain(plain["pool"], pool, str(path))
        if policy is None:
            policy = policy_from_plain(plain["policy"], str(path))
        else:
            fitted = policy if policy.kernel == "auto" else policy.on(pool)
            policy = matching_policy(fitted, plain["policy"], str(path))
        context, state = started(pool, policy, plain)
        return context, state.from_plain(plain["state"])
    except ManyarmsError:
        raise
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        raise CheckpointError(f"{path}: damaged: {problem!r}") from None


def context_to_plain(context: RunContext) -> dict[str, Any]:
    """The policy and the settings; the pool is written separately."""
    return {"policy": policy_to_plain(context.policy), "settings": context.settings()}


def started(pool: Pool, policy: Policy, plain: Mapping[str, Any]) -> tuple[RunContext, RunState]:
    """The initial state of a saved run under its last model, with the arms that were added during the run.

    Encodings and feature maps depend on the arms that were present when they were made, so the arms are added
    in the same order as in the saved run.
    """
    saved = plain["state"]
    first, then = saved["encoded_arms"], saved["modelled_arms"]
    begun = pool if first == pool.n_arms else pool.first(first)
    context = RunContext.checked(begun, policy, **plain["settings"])
    state = RunState.initial(context)
    if then > first:
        context, state = with_more_arms(context, state, pool.first(then))
    if saved["belief"]["model"] is not None:
        model = model_from(saved["belief"]["model"])
        belief = Belief.initial(context, model)
        state = RunState(belief, state.history, encoded_arms=first, modelled_arms=then)
    if then < pool.n_arms:
        context, state = with_more_arms(context, state, pool)
    return context, state
