"""ApproxDisKernelUCB (Li et al. 2022; theory §9.8): BKB-like agents in one common embedding.

After a pull an agent requests a sync when Σ σ̃²_lastsync(x_s) over its new points > D. In a sync every agent
samples inducing points from its own data by leverage score and uploads them; the server merges them,
leaves out dependent ones, and broadcasts S in the order that fixes the Cholesky basis (theory §9.3, "one
basis"); agents upload ZᵀZ and Zᵀy of all their data; the server broadcasts the sums. Between syncs an agent
adds its own new points to its copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.active_set import unique_with_counts
from manyarms.agents.baselines.approx_server import ApproxServer, packed_triangle, unpacked_triangle
from manyarms.agents.baselines.models import SparseModel
from manyarms.agents.baselines.ucb import Contexts, PointEncoding, UcbAgent, UcbSettings
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
    """Settings of ApproxDisKernelUCB: `sync_threshold` is D, `oversampling` is q̄ of the leverage scores."""

    sync_threshold: float = 20.0
    oversampling: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("sync_threshold", self.sync_threshold)
        positive("oversampling", self.oversampling)

    def server(self, domain: Pool | Contexts, seed: int) -> ApproxServer:
        """The server."""
        return ApproxServer(self, PointEncoding(domain, self.send))

    def resume_server(self, domain: Pool | Contexts, seed: int, state: bytes) -> ApproxServer:
        """A server that continues from a state written by `ApproxServer.save`."""
        server = self.server(domain, seed)
        server.restore(state)
        return server

    def agent(self, number: int, domain: Pool | Contexts, coin: Coin) -> ApproxAgent:
        """One agent."""
        pool = domain if isinstance(domain, Pool) else None
        return ApproxAgent(self, number, domain, coin, SparseModel(self.checked_kernel, self.ridge, pool))


class ApproxAgent(UcbAgent):
    """BKB on the common statistics and the agent's newer pulls."""

    settings: ApproxDisKernelUCB
    model: SparseModel

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.synced = 0
        self._keys: NDArray[Any] = self.encoding.no_keys  # own pulls, in order
        self._rewards: Floats = np.empty(0)
        self._new_leverage = 0.0  # Σ σ̃²_lastsync over the new points
        self._last_sent: Message | None = None
        self._received_inducing: Inducing | None = None

    def _before_adding(self, keys: NDArray[Any], rewards: Floats) -> None:
        self._keys = np.concatenate([self._keys, keys])
        self._rewards = np.concatenate([self._rewards, rewards])
        self._new_leverage += float(self.model.leverage_at_sync(keys).sum())

    def _after_step(self) -> list[Message]:
        if self._new_leverage <= self.settings.sync_threshold:
            return []
        return self._send(SyncRequest(self.number, self.synced + 1))

    def timeout(self) -> list[Message]:
        """Send the last message of the sync again."""
        return [self._last_sent] if self.waiting and self._last_sent is not None else []

    def receive(self, message: Message) -> list[Message]:
        """React to one of the three steps of a sync; older messages are ignored."""
        if not isinstance(message, SyncCall | Inducing | Statistics):
            raise unexpected(message)
        if message.epoch <= self.synced:
            return []
        if isinstance(message, SyncCall):
            return self._send(self._upload(message.epoch))
        if isinstance(message, Inducing):
            return self._send(self._statistics(message))
        if self._received_inducing is not None and digest_of(self._received_inducing.points) == message.basis:
            self._adopt(message)
        return []

    def _upload(self, sync: int) -> Upload:
        """Candidate inducing points: each distinct own point with probability min(1, q̄ n σ̃²)."""
        keys, counts = unique_with_counts(self._keys)
        leverage = self.model.at(keys)[1]
        chance = np.minimum(1.0, self.settings.oversampling * counts * leverage)
        uniform = self._coin.stream(sync, PURPOSE_INDUCING).uniform(len(keys))
        points = self.encoding.to_wire(keys[uniform < chance])
        return Upload(self.number, sync, self.synced, 0, points, np.empty(0))

    def _statistics(self, message: Inducing) -> Statistics:
        """ZᵀZ and Zᵀy of all own data, in the basis fixed by S and its order."""
        self._embedding = on_points(self.settings.checked_kernel, self.encoding.features(message.points))
        self._received_inducing = message
        Z = self._embedding.matrix(self._own_features())
        self._own_sums = Z.T @ Z, Z.T @ self._rewards
        gram, vector = self._own_sums
        basis, own = digest_of(message.points), np.array([self.number])
        return Statistics(self.number, message.epoch, basis, own, packed_triangle(gram), vector, len(Z))

    def _adopt(self, message: Statistics) -> None:
        m = self._embedding.dimension
        if message.vector.shape != (m,) or message.gram.shape != (m * (m + 1) // 2,):
            raise ImpossibleMessageError(
                f"sums of shapes {message.gram.shape} and {message.vector.shape} for {m} inducing points"
            )
        gram, vector, pulls = unpacked_triangle(message.gram, m), message.vector, message.pulls
        if self.number not in message.agents:  # left out of this sync: add the agent's own data
            gram, vector = gram + self._own_sums[0], vector + self._own_sums[1]
            pulls += len(self._rewards)
        self.model.adopt(self._embedding, gram, vector)
        self.known_pulls, self.synced, self._new_leverage = pulls, message.epoch, 0.0
        self.waiting, self._last_sent, self._received_inducing, self._pending = False, None, None, None

    def _own_features(self) -> NDArray[Any]:
        return self.domain.take(self._keys) if isinstance(self.domain, Pool) else self._keys

    def _send(self, message: Message) -> list[Message]:
        self.waiting, self._last_sent = True, message
        return [message]
