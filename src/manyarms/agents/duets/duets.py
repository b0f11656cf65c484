"""DUETS: distributed uniform exploration of trimmed sets (Pavlovic, Salgia, Zhao 2024; spec §5).

In each epoch every agent pulls arms drawn uniformly from the common active set with its private coin. The
server replays the coins, so no arm travels up; it chooses a few inducing points, gets one number per
inducing point from each agent, solves for the mean, and everybody drops the arms that cannot be best.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np

from manyarms.agents.active_region import ActiveRegion, Box
from manyarms.agents.active_set import ActivePool, ActiveSet, SendPoints, check_numeric
from manyarms.agents.duets.agent import DuetsAgent
from manyarms.agents.duets.schedule import (
    TrimWidth,
    epoch_lengths,
    failure_share,
    theoretical_inclusion,
    trim_width,
)
from manyarms.agents.duets.server import DuetsServer
from manyarms.agents.protocol.coins import Coin
from manyarms.errors import InvalidParameterError
from manyarms.kernels import KernelLike, as_kernel
from manyarms.pool.pool import Pool
from manyarms.support.validation import count, positive

# Solving with K_S enlarges rounding by up to 1/√tolerance, in the projections that agents send above all;
# with these the mean keeps ten digits (four in single precision). What is left out of S changes leverage by
# at most (pulls·tolerance/λ) of itself, far inside the ½ that the theory allows a dictionary.
INDUCING_TOLERANCE = {"float64": 1e-6, "float32": 1e-5}


@dataclass(frozen=True)
class DUETS:
    """Settings everybody shares, and the two sides made from them.

    `oversampling` is p₀ (a number, or "theory" for 72 log(4NT/δ')); `width` is β ("printed", "proved" or
    a number, see `epochs.trim_width`). `send="features"` sends inducing points as d numbers, as the paper
    counts; "indices" sends one number, since everybody has the pool. `precision="float32"` lets the agents
    compute in single precision. `n_points` is |X| in δ': by default the size of the pool, Tᵈ in a box.
    """

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
        trim_width(self.width, self.norm_bound, self.noise_std, self.ridge, self._share(2))

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """T_1, T_2, …, the last one cut at T."""
        return epoch_lengths(self.horizon, self.first_epoch)

    @property
    def n_epochs(self) -> int:
        """J."""
        return len(self.lengths)

    @cached_property
    def checked_kernel(self) -> KernelLike:
        """The kernel, adapted where it is scikit-learn's."""
        return as_kernel(self.kernel)

    @property
    def span_tolerance(self) -> float:
        """Points with a smaller residual than this share of k are left out of S."""
        return INDUCING_TOLERANCE[self.precision]

    def constants(self, active: ActiveSet) -> tuple[float, float]:
        """β and p₀ on this domain."""
        share = self._share(_n_points(active, self.horizon))
        p0 = self.oversampling
        if p0 == "theory":
            p0 = theoretical_inclusion(self.n_agents, self.horizon, share)
        return trim_width(self.width, self.norm_bound, self.noise_std, self.ridge, share), p0

    def _share(self, n_points: float) -> float:
        return failure_share(self.delta, self.n_epochs, self.n_points or n_points)

    def server(self, domain: Pool | Box, seed: int) -> DuetsServer:
        """The server: it knows the seed and hence every coin."""
        return DuetsServer(self, self._active(domain, "float64"), seed)

    def resume_server(self, domain: Pool | Box, seed: int, state: bytes) -> DuetsServer:
        """A server that goes on from `DuetsServer.save`."""
        server = self.server(domain, seed)
        server.restore(state)
        return server

    def agent(self, number: int, domain: Pool | Box, coin: Coin, precision: str | None = None) -> DuetsAgent:
        """One agent, which knows its own coin only; `precision` if its machine differs from the others'."""
        return DuetsAgent(self, number, self._active(domain, precision or self.precision), coin)

    def described(self) -> dict[str, Any]:
        """All settings as text, to recognise a run by."""
        return {f.name: repr(getattr(self, f.name)) for f in fields(self)}

    def _active(self, domain: Pool | Box, precision: str) -> ActiveSet:
        if isinstance(domain, Pool):
            if self.send == "features":
                check_numeric(domain)
            arms = np.arange(domain.n_arms, dtype=np.int64)
            return ActivePool(domain, self.checked_kernel, arms, self.send, np.dtype(precision))
        if isinstance(domain, Box):
            return ActiveRegion(domain, self.checked_kernel, (), np.dtype(precision))
        raise InvalidParameterError("domain", domain, "a Pool or a Box")


def _n_points(active: ActiveSet, horizon: int) -> float:
    if isinstance(active, ActivePool):
        return float(active.pool.n_arms)
    assert isinstance(active, ActiveRegion)
    return float(horizon) ** active.box.n_features
