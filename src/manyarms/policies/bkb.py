"""BKB (theory §5.3): GP-UCB on a sketch drawn by ridge leverage scores, renewed after every pull."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from manyarms.policies.base import Sparse


@dataclass(frozen=True, kw_only=True)
class BKB(Sparse):
    """Budgeted kernelised bandit (Calandriello et al. 2019, Algorithm 1); see `Sparse` for the settings."""

    theorem: ClassVar[str] = "certified"
