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
from manyarms.support.validation import non_negative, positive

NAMES = {
    "duets": "DUETS",
    "dis-kernel-ucb": "DisKernelUCB",
    "approx-dis-kernel-ucb": "ApproxDisKernelUCB",
    "n-kernel-ucb": "NKernelUCB",
}


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
    kernel: str = "matern"
    lengthscale: tuple[float, ...] | None = None
    smoothness: float = 2.5
    signal: float = 1.0
    mean: float = 0.0
    minimize: bool = False
    width: float | None = None
    first_epoch: int = 2
    sync_threshold: float | None = None
    wait_days: float = 7.0
    lockstep: bool = False


def create_run(path: Path, asked: NewRun) -> RunDescription:
    """Create the file of a run; nothing is left behind if a setting is wrong."""
    if path.suffix != ENDING:
        raise RunFileError(f"{path}: the name of a run must end in {ENDING}")
    if path.exists():
        raise RunFileError(f"{path}: the file exists")
    table = CandidateTable.new(asked.pool, asked.id, asked.features)
    sign = -1.0 if asked.minimize else 1.0
    units = Units(sign, sign * asked.mean, positive("signal", asked.signal))
    description = RunDescription.of(
        _algorithm(asked, table), table.pool, table=table.plain(), units=units, lockstep=asked.lockstep,
        wait=positive("wait", asked.wait_days) * DAY,
    )  # fmt: skip
    file = RunFile.new(path, description, Coins.random(asked.agents), time.time())
    with file.transaction() as db:
        file.set(db, TABLE_PATH, str(asked.pool.absolute()))
    file.close()
    return description


def _algorithm(asked: NewRun, table: CandidateTable) -> Any:
    if asked.algorithm not in NAMES:
        raise InvalidParameterError("algorithm", asked.algorithm, f"one of {sorted(NAMES)}")
    lengthscale = "auto" if asked.lengthscale is None else asked.lengthscale
    kernel, _ = assumed_kernel(
        table.pool, asked.kernel, lengthscale, asked.smoothness, table.source.molecular
    )
    share = max(non_negative("noise", asked.noise) / asked.signal, LEAST_NOISE_SHARE)
    settings: dict[str, Any] = {
        "kernel": kernel, "ridge": share**2, "n_agents": asked.agents, "horizon": asked.horizon,
        "noise_std": share,
    }  # fmt: skip
    if asked.algorithm == "duets":
        settings |= {"first_epoch": asked.first_epoch, "width": 0.5 if asked.width is None else asked.width}
    else:
        settings["width"] = 1.0 if asked.width is None else asked.width
    if asked.sync_threshold is not None:
        settings["sync_threshold"] = asked.sync_threshold
    try:
        return ALGORITHMS[NAMES[asked.algorithm]](**settings)
    except TypeError:
        raise InvalidParameterError(
            "sync_threshold", asked.sync_threshold, f"left out with {asked.algorithm}"
        ) from None
