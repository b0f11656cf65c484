"""SoR-UCB (theory §5.11): BKB without the residual of the variance. A warning, not a recommendation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from manyarms.policies.bkb import BKB


@dataclass(frozen=True, kw_only=True)
class SoRUCB(BKB):
    """Subset of regressors: certain of everything its sketch cannot see (BKB §1, "variance starvation")."""

    keeps_residual: ClassVar[bool] = False
