"""ApproxDisKernelUCB (Li et al. 2022; spec §5): BKB-like agents in one common embedding.

After a pull an agent asks for a sync when Σ σ̃²_lastsync(x_s) over its new points > D. In a sync every agent
samples inducing points from its own data by leverage score and uploads them; the server unites them,
leaves out dependent ones, and broadcasts S in the order that fixes the common Cholesky basis (spec §5, "one
basis"); agents upload ZᵀZ and Zᵀy of all their data; the server broadcasts the sums. Between syncs an agent
adds its own new points to its copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.baselines.approx_server import ApproxServer, packed_triangle, unpacked_triangle
from manyarms.agents.baselines.models import Embedded
from manyarms.agents.baselines.ucb import Contexts, PointCode, UcbAgent, UcbSettings
from manyarms.agents.epoch_posterior import on_points
from manyarms.agents.protocol.coins import PURPOSE_INDUCING, Coin
from manyarms.agents.protocol.messages import (
    Inducing,
    Message,
    Statistics,
    SyncCall,
    SyncRequest,
    Upload,
    digest_of,
)
from manyarms.agents.protocol.server import unexpected
from manyarms.errors import ImpossibleMessageError
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, positive


@dataclass(frozen=True)
class ApproxDisKernelUCB(UcbSettings):
    """`sync_threshold` is D, `oversampling` q̄ of the leverage scores."""

    sync_threshold: float = 20.0
    oversampling: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("sync_threshold", self.sync_threshold)
        positive("oversampling", self.oversampling)

    def server(self, domain: Pool | Contexts, seed: int) -> ApproxServer:
        """The server's side."""
        return ApproxServer(self, PointCode(domain, self.send))

    def resume_server(self, domain: Pool | Contexts, seed: int, state: bytes) -> ApproxServer:
        """A server that goes on from `ApproxServer.save`."""
        server = self.server(domain, seed)
        server.restore(state)
        return server

    def agent(self, number: int, domain: Pool | Contexts, coin: Coin) -> ApproxAgent:
        """One agent."""
        pool = domain if isinstance(domain, Pool) else None
        return ApproxAgent(self, number, domain, coin, Embedded(self.checked_kernel, self.ridge, pool))


class ApproxAgent(UcbAgent):
    """BKB on the common statistics and its own newer pulls."""

    settings: ApproxDisKernelUCB
    model: Embedded

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.synced = 0
        self._keys: NDArray[Any] = self.code.no_keys  # own pulls, in order
        self._rewards: Floats = np.empty(0)
        self._shift = 0.0  # Σ σ̃²_lastsync over new points
        self._said: Message | None = None
        self._offered: Inducing | None = None

    def _before_adding(self, keys: NDArray[Any], rewards: Floats) -> None:
        self._keys = np.concatenate([self._keys, keys])
        self._rewards = np.concatenate([self._rewards, rewards])
        self._shift += float(self.model.leverage_at_sync(keys).sum())

    def _after_step(self) -> list[Message]:
        if self._shift <= self.settings.sync_threshold:
            return []
        return self._say(SyncRequest(self.number, self.synced + 1))

    def timeout(self) -> list[Message]:
        """Say the last thing of the sync again."""
        return [self._said] if self.waiting and self._said is not None else []

    def receive(self, message: Message) -> list[Message]:
        """The three steps of a sync; anything older is ignored."""
        if not isinstance(message, SyncCall | Inducing | Statistics):
            raise unexpected(message)
        if message.epoch <= self.synced:
            return []
        if isinstance(message, SyncCall):
            return self._say(self._upload(message.epoch))
        if isinstance(message, Inducing):
            return self._say(self._statistics(message))
        if self._offered is not None and digest_of(self._offered.points) == message.basis:
            self._adopt(message)
        return []

    def _upload(self, sync: int) -> Upload:
        """Inducing candidates: different own points, each with p = min(1, q̄ n σ̃²)."""
        keys, counts = _different(self._keys)
        leverage = self.model.at(keys)[1]
        chance = np.minimum(1.0, self.settings.oversampling * counts * leverage)
        coins = self._coin.stream(sync, PURPOSE_INDUCING).uniform(len(keys))
        points = self.code.to_wire(keys[coins < chance])
        return Upload(self.number, sync, self.synced, 0, points, np.empty(0))

    def _statistics(self, message: Inducing) -> Statistics:
        """ZᵀZ and Zᵀy of all own data in the basis that S and its order fix."""
        self._embedding = on_points(self.settings.checked_kernel, self.code.features(message.points))
        self._offered = message
        Z = self._embedding.matrix(self._own_features())
        self._own_sums = Z.T @ Z, Z.T @ self._rewards
        gram, vector = self._own_sums
        basis, own = digest_of(message.points), np.array([self.number])
        return Statistics(self.number, message.epoch, basis, own, packed_triangle(gram), vector, len(Z))

    def _adopt(self, message: Statistics) -> None:
        m = self._embedding.dimension
        if message.vector.shape != (m,) or message.gram.shape != (m * (m + 1) // 2,):
            raise ImpossibleMessageError(
                f"sums of sizes {message.gram.shape}, {message.vector.shape} for m = {m}"
            )
        gram, vector, pulls = unpacked_triangle(message.gram, m), message.vector, message.pulls
        if self.number not in message.agents:  # left out of this sync: one's own data is still one's own
            gram, vector = gram + self._own_sums[0], vector + self._own_sums[1]
            pulls += len(self._rewards)
        self.model.adopt(self._embedding, gram, vector)
        self.known_pulls, self.synced, self._shift = pulls, message.epoch, 0.0
        self.waiting, self._said, self._offered, self._pending = False, None, None, None

    def _own_features(self) -> NDArray[Any]:
        return self.domain.take(self._keys) if isinstance(self.domain, Pool) else self._keys

    def _say(self, message: Message) -> list[Message]:
        self.waiting, self._said = True, message
        return [message]


def _different(keys: NDArray[Any]) -> tuple[NDArray[Any], Floats]:
    unique, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    return unique[order], counts[order].astype(np.float64)
