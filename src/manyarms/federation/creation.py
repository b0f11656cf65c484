"""Create a run from a table and the settings that a user gives."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyarms.agents import Coins
from manyarms.campaigns.assumptions import LEAST_NOISE_SHARE, assumed_kernel
from manyarms.errors import InvalidParameterError, RunFileError
from manyarms.federation.description import ALGORITHMS, DAY, RunDescription, Units
from manyarms.federation.mailbox import TABLE_PATH
from manyarms.federation.run_file import ENDING, RunFile
from manyarms.federation.table import CandidateTable
from manyarms.support.validation import finite, non_negative, positive

NAMES = {
    "duets": "DUETS",
    "dis-kernel-ucb": "DisKernelUCB",
    "approx-dis-kernel-ucb": "ApproxDisKernelUCB",
    "n-kernel-ucb": "NKernelUCB",
}
_SYNCHRONISING = ("dis-kernel-ucb", "approx-dis-kernel-ucb")


@dataclass(frozen=True)
class NewRun:
    """The settings of a new run, in the user's units."""

    pool: Path
    agents: int
    horizon: int
    noise: float
    algorithm: str = "duets"
    id: str | None = None
    features: Sequence[str] | None = None
    categories: Sequence[str] | None = None
    smiles: str | None = None
    bits: str | None = None
    kernel: str = "matern"
    lengthscale: tuple[float, ...] | None = None
    smoothness: float = 2.5
    signal: float = 1.0
    mean: float = 0.0
    minimize: bool = False
    width: float | None = None
    first_epoch: int | None = None
    sync_threshold: float | None = None
    wait_days: float = 7.0
    lockstep: bool = False


def create_run(path: Path, asked: NewRun) -> tuple[RunDescription, CandidateTable]:
    """Create the file of a run; nothing is left behind if a setting is wrong."""
    if path.suffix != ENDING:
        raise RunFileError(f"{path}: the name of a run must end in {ENDING}")
    if path.exists():
        raise RunFileError(f"{path}: the file exists")
    table = CandidateTable.new(
        asked.pool, asked.id, asked.features, asked.categories, asked.smiles, asked.bits
    )
    sign = -1.0 if asked.minimize else 1.0
    units = Units(sign, sign * finite("mean", asked.mean), positive("signal", asked.signal))
    description = RunDescription.of(
        _algorithm(asked, table), table.pool, table=table.plain(), units=units, lockstep=asked.lockstep,
        wait=positive("wait", asked.wait_days) * DAY,
    )  # fmt: skip
    file = RunFile.new(path, description, Coins.random(asked.agents), time.time())
    with file.transaction() as db:
        file.set(db, TABLE_PATH, str(asked.pool.absolute()))
    file.close()
    return description, table


def _algorithm(asked: NewRun, table: CandidateTable) -> Any:
    if asked.algorithm not in NAMES:
        raise InvalidParameterError("algorithm", asked.algorithm, f"one of {sorted(NAMES)}")
    duets = asked.algorithm == "duets"
    lengthscale = "auto" if asked.lengthscale is None else asked.lengthscale
    kernel, _ = assumed_kernel(
        table.pool, asked.kernel, lengthscale, asked.smoothness, table.source.molecular
    )
    share = max(non_negative("noise", asked.noise) / asked.signal, LEAST_NOISE_SHARE)
    settings: dict[str, Any] = {
        "kernel": kernel, "ridge": share**2, "n_agents": asked.agents, "horizon": asked.horizon,
        "noise_std": share,
    }  # fmt: skip
    settings["width"] = (0.5 if duets else 1.0) if asked.width is None else asked.width
    for name, value, fits in (
        ("first_epoch", asked.first_epoch, duets),
        ("sync_threshold", asked.sync_threshold, asked.algorithm in _SYNCHRONISING),
    ):
        if value is not None and not fits:
            raise InvalidParameterError(name, value, f"left out with {asked.algorithm}")
        if value is not None:
            settings[name] = value
    return ALGORITHMS[NAMES[asked.algorithm]](**settings)
