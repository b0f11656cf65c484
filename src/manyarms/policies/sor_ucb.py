"""SoR-UCB (theory §5.11): BKB without the residual in the variance, for comparison only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from manyarms.policies.bkb import BKB


@dataclass(frozen=True, kw_only=True)
class SoRUCB(BKB):
    """Subset of regressors, overconfident away from the inducing arms ("variance starvation", BKB §1).

    The settings are those of `BKB`.
    """

    theorem: ClassVar[str] = "bkb"  # without a proof: `certified` needs the residual
    keeps_residual: ClassVar[bool] = False
