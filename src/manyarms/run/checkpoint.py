"""Saving a whole run to one file: an npz archive of plain arrays with a JSON manifest, without pickle.

Every number that the next step reads is stored, not recomputed, so a loaded run continues bit for bit. The
file is written next to its destination and then moved into place, so an interrupted save leaves the previous
file intact. (`compact_state.py` has the other form: a run without arrays of the size of the pool.)
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from manyarms.engines.base import Engine
from manyarms.errors import CheckpointError, ManyarmsError, OutputError
from manyarms.learning import Prepared, model_from
from manyarms.policies import Policy
from manyarms.policies.plain import matching_policy, policy_from_plain, policy_to_plain
from manyarms.pool.costs import ArmCosts
from manyarms.pool.pool import Pool
from manyarms.run.belief import Belief
from manyarms.run.context import RunContext
from manyarms.run.growing import with_more_arms
from manyarms.run.prior_results import PriorResults
from manyarms.run.state import RunState
from manyarms.support.archive import read_archive, unchanged, write_archive
from manyarms.support.output_files import replacing

FORMAT, VERSION = "manyarms run", 4  # 3 had no digest, 2 stored the positions of random streams


def save(context: RunContext, state: RunState, path: Path, domain: Mapping[str, Any] | None = None) -> None:
    """Write the run. The previous saved run at `path` is kept until the new one is complete.

    `domain` describes a domain other than a pool. A file that is not a saved run is not replaced.
    """
    plain = {
        "format": FORMAT,
        "version": VERSION,
        "pool": context.pool.to_plain(),
        **context_to_plain(context),
        "state": state.to_plain(),
        **({} if domain is None else {"domain": domain}),
        **({} if context.costs is None else {"costs": context.costs.to_plain()}),
    }
    if path.is_file() and not _is_replaceable(path):
        raise CheckpointError(f"{path}: cannot be written: the file exists and is not a saved run")
    try:
        with replacing(path, "wb") as stream:
            write_archive(stream, plain)
    except OutputError as problem:
        raise CheckpointError(str(problem)) from problem


def _is_replaceable(path: Path) -> bool:
    """Whether the file is empty or looks like a saved run."""
    try:
        if not path.stat().st_size:
            return True
        with zipfile.ZipFile(path) as archive:
            return "manifest.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def read(path: Path) -> dict[str, Any]:
    """The contents of a file that `save` wrote."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file")
    with open(path, "rb") as stream:
        return read_archive(stream, str(path), FORMAT, VERSION, older={3: unchanged})


def restored(
    plain: Mapping[str, Any],
    path: Path,
    pool: Pool | None,
    policy: Policy | None,
    engine: Engine | None = None,
    prepare: Callable[[Pool], Prepared] | None = None,
) -> tuple[RunContext, RunState]:
    """The run in these contents of a file; everything is checked before it is used.

    `prepare` replaces the usual preparation of the features for a learned model.
    """
    try:
        pool = Pool.from_plain(plain["pool"], pool, str(path))
        if policy is None:
            policy = policy_from_plain(plain["policy"], str(path))
        else:
            fitted = policy if policy.kernel == "auto" else policy.on(pool)
            policy = matching_policy(fitted, plain["policy"], str(path))
        context, state = started(pool, policy, plain, engine, prepare)
        if "costs" in plain:
            context = replace(context, costs=ArmCosts.from_plain(plain["costs"], pool.n_arms))
        return context, state.from_plain(plain["state"])
    except ManyarmsError:
        raise
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as problem:
        raise CheckpointError(f"{path}: damaged: {problem!r}") from None


def context_to_plain(context: RunContext) -> dict[str, Any]:
    """The policy and the settings; the pool is written separately."""
    prior = {f"source {number}": source.to_plain() for number, source in enumerate(context.prior)}
    return {"policy": policy_to_plain(context.policy), "settings": context.settings(), "prior": prior}


def started(
    pool: Pool,
    policy: Policy,
    plain: Mapping[str, Any],
    engine: Engine | None = None,
    prepare: Callable[[Pool], Prepared] | None = None,
) -> tuple[RunContext, RunState]:
    """The initial state of a saved run under its last model, with the arms that were added during the run.

    Encodings and feature maps depend on the arms that were present when they were made, so the arms are added
    in the same order as in the saved run.
    """
    saved = plain["state"]
    first, then = saved["encoded_arms"], saved["modelled_arms"]
    begun = pool if first == pool.n_arms else pool.first(first)
    prepared = prepare(begun) if prepare is not None and policy.kernel == "auto" else None
    prior = tuple(PriorResults.from_plain(source) for source in plain.get("prior", {}).values())
    context = RunContext.checked(
        begun, policy, **plain["settings"], engine=engine, prepared=prepared, prior=prior
    )
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
