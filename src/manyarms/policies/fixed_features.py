"""What policies on a fixed feature map share: no inducing arms, no residual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from manyarms.policies.base import Policy
from manyarms.sketch.inducing import InducingRule, NoArms


@dataclass(frozen=True, kw_only=True)
class FixedFeatures(Policy):
    """Bayesian linear regression on features chosen before the first pull.

    The model knows no function outside their span and leaves the residual out of its variance. So where
    the features are too few, it becomes certain of what it has never seen (variance starvation, theory §2.2).
    """

    keeps_residual: ClassVar[bool] = False

    def inducing_rule(self) -> InducingRule:
        """None."""
        return NoArms()
