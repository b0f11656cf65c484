"""The settings of DUETS that agents and server share, and the constants derived from them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

from manyarms.agents.active_region import ActiveRegion
from manyarms.agents.active_set import ActivePool, ActiveSet, SendPoints
from manyarms.agents.duets.schedule import (
    TrimWidth,
    delta_prime,
    epoch_lengths,
    theoretical_oversampling,
    trim_width,
)
from manyarms.errors import InvalidParameterError
from manyarms.kernels import KernelLike, as_kernel
from manyarms.support.validation import count, positive

# Solving with K_S amplifies rounding errors by up to 1/√tolerance, above all those in the projections that
# the agents send; with these tolerances the mean keeps ten digits (four in single precision). Leaving points
# out of S changes the leverage by at most a fraction pulls·tolerance/λ, far below the ½ the theory allows.
INDUCING_TOLERANCE = {"float64": 1e-6, "float32": 1e-5}


@dataclass(frozen=True)
class DuetsSettings:
    """The fields of `DUETS`, which documents them, with validation."""

    kernel: KernelLike
    ridge: float
    n_agents: int
    horizon: int
    first_epoch: int = 2
    oversampling: float | Literal["theory"] = 10.0
    width: TrimWidth = "printed"
    norm_bound: float = 1.0
    noise_std: float = 1.0
    delta: float = 0.05
    n_points: float | None = None
    send: SendPoints = "indices"
    precision: Literal["float64", "float32"] = "float64"
    retries: int = 1

    def __post_init__(self) -> None:
        as_kernel(self.kernel)
        positive("ridge", self.ridge)
        count("n_agents", self.n_agents)
        count("retries", self.retries, minimum=0)
        epoch_lengths(self.horizon, self.first_epoch)
        if self.n_points is not None:
            positive("n_points", self.n_points)
        if self.oversampling != "theory":
            positive("oversampling", self.oversampling)
        if self.send not in ("indices", "features"):
            raise InvalidParameterError("send", self.send, "'indices' or 'features'")
        if self.precision not in ("float64", "float32"):
            raise InvalidParameterError("precision", self.precision, "'float64' or 'float32'")
        trim_width(self.width, self.norm_bound, self.noise_std, self.ridge, self._delta_prime(2))

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The epoch lengths T_1, T_2, …; the last one is shortened so that they sum to T."""
        return epoch_lengths(self.horizon, self.first_epoch)

    @property
    def n_epochs(self) -> int:
        """The number of epochs J."""
        return len(self.lengths)

    @cached_property
    def checked_kernel(self) -> KernelLike:
        """The kernel; a scikit-learn kernel is wrapped."""
        return as_kernel(self.kernel)

    @property
    def span_tolerance(self) -> float:
        """A point whose residual is below this fraction of k(x, x) is left out of S."""
        return INDUCING_TOLERANCE[self.precision]

    def constants(self, active: ActiveSet) -> tuple[float, float]:
        """β and p₀ on this domain."""
        failure = self._delta_prime(_n_points(active, self.horizon))
        p0 = self.oversampling
        if p0 == "theory":
            p0 = theoretical_oversampling(self.n_agents, self.horizon, failure)
        return trim_width(self.width, self.norm_bound, self.noise_std, self.ridge, failure), p0

    def _delta_prime(self, n_points: float) -> float:
        return delta_prime(self.delta, self.n_epochs, self.n_points or n_points)

    def described(self) -> dict[str, Any]:
        """All settings as text; a saved state is only accepted by a run with the same settings."""
        return {f.name: repr(getattr(self, f.name)) for f in fields(self)}


def _n_points(active: ActiveSet, horizon: int) -> float:
    if isinstance(active, ActivePool):
        return float(active.pool.n_arms)
    assert isinstance(active, ActiveRegion)
    return float(horizon) ** active.box.n_features
