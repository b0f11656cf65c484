"""DUETS: distributed uniform exploration of trimmed sets (Pavlovic, Salgia, Zhao 2024; theory §9.1).

In each epoch every agent pulls arms drawn uniformly from the common active set with its private coin. The
server replays the coins, so the agents do not send their arms. It chooses a few inducing points, receives one
number per inducing point from each agent, solves for the mean, and all parties remove the arms that cannot
be optimal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyarms.agents.active_region import ActiveRegion, Box
from manyarms.agents.active_set import ActivePool, ActiveSet, check_numeric
from manyarms.agents.duets.agent import DuetsAgent
from manyarms.agents.duets.server import DuetsServer
from manyarms.agents.duets.settings import DuetsSettings
from manyarms.agents.protocol.coins import Coin, Coins, check_coins
from manyarms.errors import InvalidParameterError
from manyarms.pool.pool import Pool


@dataclass(frozen=True)
class DUETS(DuetsSettings):
    """The settings that all parties share; `server` and `agent` build the two sides from them.

    `oversampling` is p₀ (a number, or "theory" for 72 log(4NT/δ')). `width` is β ("printed", "proved" or
    a number, see `schedule.trim_width`). `send="features"` sends an inducing point as its d features, as the
    paper counts the cost; "indices" sends one number, because every agent has the pool. `precision="float32"`
    lets the agents compute in single precision. `n_points` is |X| in δ'; the default is the size of the pool,
    or Tᵈ in a box. `retries` is how often a silent agent is asked again before an epoch continues without it.
    """

    def server(self, domain: Pool | Box, coins: Coins) -> DuetsServer:
        """The server, which has every agent's coin and therefore knows every pull."""
        check_coins(coins, self.n_agents)
        return DuetsServer(self, self._active(domain, "float64"), coins)

    def resume_server(self, domain: Pool | Box, coins: Coins, state: bytes) -> DuetsServer:
        """A server that continues from a state written by `DuetsServer.save`."""
        server = self.server(domain, coins)
        server.restore(state)
        return server

    def agent(self, number: int, domain: Pool | Box, coin: Coin, precision: str | None = None) -> DuetsAgent:
        """One agent, which knows only its own coin. `precision` overrides the setting for this agent."""
        return DuetsAgent(self, number, self._active(domain, precision or self.precision), coin)

    def _active(self, domain: Pool | Box, precision: str) -> ActiveSet:
        if isinstance(domain, Pool):
            if self.send == "features":
                check_numeric(domain)
            arms = np.arange(domain.n_arms, dtype=np.int64)
            return ActivePool(domain, self.checked_kernel, arms, self.send, np.dtype(precision))
        if isinstance(domain, Box):
            return ActiveRegion(domain, self.checked_kernel, (), np.dtype(precision))
        raise InvalidParameterError("domain", domain, "a Pool or a Box")
