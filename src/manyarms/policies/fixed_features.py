"""The base class of policies on a fixed feature map: no inducing arms and no residual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from manyarms.policies.base import Policy
from manyarms.sketch.inducing import InducingRule, NoArms


@dataclass(frozen=True, kw_only=True)
class FixedFeatures(Policy):
    """Bayesian linear regression on a feature map that is chosen before the first pull.

    The model contains only functions in the span of the map, and its variance has no residual term. If the
    dimension of the map is too low, the model becomes overconfident about arms unlike those pulled (variance
    starvation, theory §2.2).
    """

    keeps_residual: ClassVar[bool] = False

    def inducing_rule(self) -> InducingRule:
        """No inducing arms."""
        return NoArms()
