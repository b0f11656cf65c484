"""The record that a DUETS server keeps of each epoch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class EpochRecord:
    """The outcome of one epoch: who took part, the size of the sketch, and the trim."""

    epoch: int
    length: int
    active_size: float  # before the trim: arms of a pool, or fraction of a box
    present: tuple[int, ...]
    left_out: tuple[int, ...]
    n_inducing: int
    inclusion: float  # p_j
    sigma_max: float
    cutoff: float
    trim_withheld: bool
    corrections: int

    def to_plain(self) -> dict[str, Any]:
        """Plain data for JSON, which has no infinity: a cutoff that keeps every arm is written as null."""
        return asdict(self) | {"cutoff": self.cutoff if math.isfinite(self.cutoff) else None}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> EpochRecord:
        """The inverse of `to_plain`."""
        values = {name: tuple(v) if isinstance(v, list) else v for name, v in plain.items()}
        return cls(**values | {"cutoff": -math.inf if plain["cutoff"] is None else plain["cutoff"]})
