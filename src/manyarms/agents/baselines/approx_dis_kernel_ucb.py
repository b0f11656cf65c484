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
from manyarms.agents.baselines.ucb import Contexts, PointEncoding, UcbSettings
from manyarms.agents.baselines.ucb_agent import UcbAgent
from manyarms.agents.epoch_posterior import on_points
from manyarms.agents.protocol.coins import PURPOSE_INDUCING, Coin, Coins
from manyarms.agents.protocol.messages import (
    Inducing,
    Message,
    Statistics,
    SyncCall,
    SyncRequest,
    Upload,
    digest_of,
    plausible,
)
from manyarms.agents.protocol.server import unexpected
from manyarms.embeddings.nystrom import Nystrom
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

    def server(self, domain: Pool | Contexts, coins: Coins) -> ApproxServer:
        """The server."""
        return ApproxServer(self, PointEncoding(domain, self.send))

    def agent(self, number: int, domain: Pool | Contexts, coin: Coin) -> ApproxAgent:
        """One agent."""
        return ApproxAgent(self, number, domain, coin)


class ApproxAgent(UcbAgent):
    """BKB on the common statistics and the agent's newer pulls."""

    settings: ApproxDisKernelUCB
    model: SparseModel

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.synced = 0
        self._new_leverage = 0.0  # Σ σ̃²_lastsync over the new points
        self._last_sent: Message | None = None
        self._received_inducing: Inducing | None = None
        self._adopted: tuple[Inducing, Floats, Floats] | None = None  # S, and the sums of the last sync

    def _new_model(self) -> SparseModel:
        pool = self.domain if isinstance(self.domain, Pool) else None
        return SparseModel(self.settings.checked_kernel, self.settings.ridge, pool)

    def _before_adding(self, keys: NDArray[Any]) -> None:
        self._new_leverage += float(self.model.leverage_at_sync(keys).sum())

    def _after_step(self) -> list[Message]:
        if self._new_leverage <= self.settings.sync_threshold:
            return []
        return self._send(SyncRequest(self.number, self.synced + 1))

    def timeout(self) -> list[Message]:
        """Send the last message of the sync again."""
        return [self._last_sent] if self.waiting and self._last_sent is not None else []

    def _react(self, message: Message) -> list[Message]:
        """React to one of the three steps of a sync; older messages are ignored."""
        if not isinstance(message, SyncCall | Inducing | Statistics):
            raise unexpected(message)
        if message.epoch <= self.synced:
            return []
        if isinstance(message, SyncCall):
            return self._send(self._upload(message.epoch))
        if isinstance(message, Inducing):
            return self._send(self._statistics(message))
        inducing = self._received_inducing
        if (
            inducing is not None
            and inducing.epoch == message.epoch
            and digest_of(inducing.points) == message.basis
        ):
            self._use(message, inducing)
        return []

    def _upload(self, sync: int) -> Upload:
        """Candidate inducing points: each distinct own point with probability min(1, q̄ n σ̃²)."""
        keys, counts = unique_with_counts(self._own_keys)
        leverage = self.model.at(keys)[1]
        chance = np.minimum(1.0, self.settings.oversampling * counts * leverage)
        uniform = self._coin.stream(sync, PURPOSE_INDUCING).uniform(len(keys))
        points = self.encoding.to_wire(keys[uniform < chance])
        return Upload(self.number, sync, self.synced, 0, points, np.empty(0))

    def _statistics(self, message: Inducing) -> Statistics:
        """ZᵀZ and Zᵀy of all own data, in the basis fixed by S and its order."""
        embedding = self._embedding(message)
        gram, vector = self._own_sums(embedding)
        self._received_inducing = message
        basis, own, n = digest_of(message.points), np.array([self.number]), len(self._own_rewards)
        return Statistics(self.number, message.epoch, basis, own, packed_triangle(gram), vector, n)

    def _embedding(self, message: Inducing) -> Nystrom:
        return on_points(self.settings.checked_kernel, self.encoding.features(message.points))

    def _own_sums(self, embedding: Nystrom) -> tuple[Floats, Floats]:
        Z = embedding.matrix(self._own_features())
        return Z.T @ Z, Z.T @ self._own_rewards

    def _use(self, message: Statistics, inducing: Inducing) -> None:
        """Replace the model by the sums of all agents, and by one's own data if they are not included."""
        m = len(inducing.points)
        sizes_fit = message.vector.shape == (m,) and message.gram.shape == (m * (m + 1) // 2,)
        finite = plausible(message.vector) and plausible(message.gram)
        if not sizes_fit or not finite or message.pulls < 0:
            raise ImpossibleMessageError(
                f"expected finite sums for {m} inducing points, got Statistics of shapes "
                f"{message.gram.shape} and {message.vector.shape} over {message.pulls} pulls"
            )
        gram, vector, pulls = unpacked_triangle(message.gram, m), message.vector, message.pulls
        embedding = self._embedding(inducing)
        if self.number not in message.agents:  # left out of this sync: add the agent's own data
            own = self._own_sums(embedding)
            gram, vector, pulls = gram + own[0], vector + own[1], pulls + len(self._own_rewards)
        self.model.adopt(embedding, gram, vector)
        self._adopted, self._additions = (inducing, gram, vector), []
        self.known_pulls, self.synced, self._new_leverage = pulls, message.epoch, 0.0
        self.waiting, self._last_sent, self._received_inducing = False, None, None

    def _own_features(self) -> NDArray[Any]:
        return self.domain.take(self._own_keys) if isinstance(self.domain, Pool) else self._own_keys

    def _send(self, message: Message) -> list[Message]:
        self.waiting, self._last_sent = True, message
        return [message]

    def _sync_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, Message | None]]:
        meta = {"synced": self.synced, "new_leverage": self._new_leverage}
        arrays: dict[str, NDArray[Any]] = {}
        messages: dict[str, Message | None] = {"sent": self._last_sent, "received": self._received_inducing}
        if self._adopted is not None:
            messages["adopted"], arrays["gram"], arrays["vector"] = self._adopted
        return meta, arrays, messages

    def _load_sync_state(
        self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]], messages: dict[str, Message]
    ) -> None:
        self.synced, self._new_leverage = meta["synced"], meta["new_leverage"]
        self._last_sent = messages.get("sent")
        received, adopted = messages.get("received"), messages.get("adopted")
        self._received_inducing = received if isinstance(received, Inducing) else None
        self._adopted = None
        if isinstance(adopted, Inducing):
            self._adopted = adopted, arrays["gram"], arrays["vector"]
            self.model.adopt(self._embedding(adopted), *self._adopted[1:])
