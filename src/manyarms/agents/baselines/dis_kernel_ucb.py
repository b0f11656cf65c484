"""DisKernelUCB (Li et al. 2022; theory §9.7): GP-UCB agents that pool all data when one has learned enough.

After a pull an agent requests a sync when (new points)·log(det(I+K_now/λ)/det(I+K_lastsync/λ)) > D. Then
every agent uploads its new pairs (x, y) and receives those of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.baselines.ucb import Contexts, PointEncoding, UcbSettings
from manyarms.agents.baselines.ucb_agent import UcbAgent
from manyarms.agents.protocol.coins import Coin, Coins
from manyarms.agents.protocol.messages import SERVER, Data, Message, SyncCall, SyncRequest, Upload, plausible
from manyarms.agents.protocol.saved import pack, unpack
from manyarms.agents.protocol.server import Outgoing, Server, unexpected
from manyarms.errors import ImpossibleMessageError
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, positive


@dataclass(frozen=True)
class DisKernelUCB(UcbSettings):
    """Settings of DisKernelUCB; `sync_threshold` is D."""

    sync_threshold: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("sync_threshold", self.sync_threshold)

    def server(self, domain: Pool | Contexts, coins: Coins) -> DisServer:
        """The server."""
        return DisServer(self, PointEncoding(domain, self.send))

    def agent(self, number: int, domain: Pool | Contexts, coin: Coin) -> DisAgent:
        """One agent."""
        return DisAgent(self, number, domain, coin)


class DisAgent(UcbAgent):
    """GP-UCB on the agent's own pulls and on the data of the last sync."""

    settings: DisKernelUCB

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.synced = 0  # the last sync whose result this agent has
        self._log_det_at_sync = 0.0
        self._confirmed = 0  # how many own pulls a sync result has included
        self._uploaded: Upload | None = None

    def _after_step(self) -> list[Message]:
        new = len(self._own_rewards) - self._confirmed
        if new * (self.model.log_det - self._log_det_at_sync) <= self.settings.sync_threshold:
            return []
        self.waiting = True
        return self.timeout()

    def timeout(self) -> list[Message]:
        """Send the request or the upload again."""
        if not self.waiting:
            return []
        return [self._uploaded or SyncRequest(self.number, self.synced + 1)]

    def _react(self, message: Message) -> list[Message]:
        """React to a call to upload or to the data of a sync; older messages are ignored."""
        if isinstance(message, SyncCall) and message.epoch > self.synced:
            self.waiting = True
            self._uploaded = Upload(
                self.number,
                message.epoch,
                self.synced,
                self._confirmed,
                self.encoding.to_wire(self._own_keys[self._confirmed :]),
                self._own_rewards[self._confirmed :],
            )
            return [self._uploaded]
        if isinstance(message, Data) and message.epoch > self.synced == message.known:
            self._use(message)
        elif not isinstance(message, SyncCall | Data):
            raise unexpected(message)
        return []

    def _use(self, message: Data) -> None:
        counts, rewards = message.counts, message.rewards
        counts_fit = len(counts) == self.settings.n_agents and bool((counts >= 0).all())
        sizes_fit = counts_fit and rewards.shape == message.points.shape[:1] == (counts.sum(),)
        if not sizes_fit or not plausible(rewards):
            raise ImpossibleMessageError(
                f"Data with counts {counts.tolist()} has {len(message.points)} points "
                f"and {len(rewards)} rewards, or rewards that are not finite or too large"
            )
        own = int(counts[self.number])
        if self._confirmed + own > len(self._own_rewards):
            raise ImpossibleMessageError(
                f"Data with {own} new pulls of agent {self.number}, which has made "
                f"{len(self._own_rewards) - self._confirmed} since the last sync"
            )
        others = np.repeat(np.arange(len(counts)), counts) != self.number
        self._add(self.encoding.keys(message.points)[others], rewards[others])
        self._confirmed += own
        self.synced, self._log_det_at_sync = message.epoch, self.model.log_det
        self.waiting, self._uploaded = False, None

    def _sync_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, Message | None]]:
        meta = {"synced": self.synced, "log_det": self._log_det_at_sync, "confirmed": self._confirmed}
        return meta, {}, {"uploaded": self._uploaded}

    def _load_sync_state(
        self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]], messages: dict[str, Message]
    ) -> None:
        self.synced, self._log_det_at_sync = meta["synced"], meta["log_det"]
        self._confirmed = meta["confirmed"]
        uploaded = messages.get("uploaded")
        self._uploaded = uploaded if isinstance(uploaded, Upload) else None


class DisServer(Server):
    """Stores all data by sync and sends each agent the data it does not have."""

    def __init__(self, settings: DisKernelUCB, encoding: PointEncoding) -> None:
        super().__init__(settings.n_agents)
        self.settings, self._encoding = settings, encoding
        self.sync = 0  # the last sync that was closed
        self.collecting = False
        self.retries_used = 0
        self.uploads: dict[int, Upload] = {}
        self.data: list[list[tuple[NDArray[Any], Floats]]] = [  # [agent][sync]
            [] for _ in range(self.n_agents)
        ]
        self.left_out: list[tuple[int, ...]] = []  # by sync

    @property
    def done(self) -> bool:
        """Whether no sync is in progress."""
        return not self.collecting

    @property
    def waiting_for(self) -> tuple[int, ...]:
        """The agents that have not uploaded in the sync in progress."""
        return tuple(n for n in range(self.n_agents) if self.collecting and n not in self.uploads)

    def summary(self) -> dict[str, Any]:
        """The number of the last sync, who was left out of each, and the pulls that were shared."""
        return {
            "phase": "collecting data" if self.collecting else "idle",
            "syncs": self.sync,
            "left_out": [list(agents) for agents in self.left_out],
            "shared_pulls": [sum(len(rewards) for _, rewards in own) for own in self.data],
        }

    def _react(self, message: Message) -> list[Outgoing] | None:
        if isinstance(message, SyncRequest):
            return self._on_request(message)
        if not isinstance(message, Upload):
            raise unexpected(message)
        self._check(message)
        if message.epoch <= self.sync:  # the upload is late, or its Data was lost
            return (
                [self._data_for((message.sender,), message.known, True)]
                if message.known < self.sync
                else None
            )
        if not self.collecting or message.sender in self.uploads:
            return None
        self.uploads[message.sender] = message
        return self._close() if len(self.uploads) == self.n_agents else []

    def _on_request(self, message: SyncRequest) -> list[Outgoing] | None:
        if message.epoch < 1:
            raise ImpossibleMessageError(
                f"agent {message.sender} requests sync {message.epoch}; syncs are numbered from 1"
            )
        if message.epoch <= self.sync:
            return [self._data_for((message.sender,), message.epoch - 1, again=True)]
        if self.collecting:
            return None
        self.collecting, self.retries_used, self.uploads = True, 0, {}
        return self._call(tuple(range(self.n_agents)))

    def _check(self, message: Upload) -> None:
        self._encoding.features(message.points)
        fits = message.points.shape[:1] == message.rewards.shape and plausible(message.rewards)
        stored = sum(len(rewards) for _, rewards in self.data[message.sender])
        in_order = 0 <= message.known <= self.sync and 0 <= message.first <= stored
        if not fits or not in_order or message.epoch > self.sync + 1:
            raise ImpossibleMessageError(
                f"Upload for sync {message.epoch} from agent {message.sender} does not fit the server at "
                f"sync {self.sync}: {message.points.shape[0]} points, {message.rewards.shape[0]} rewards, "
                f"first point {message.first} with {stored} stored, last known sync {message.known}"
            )

    def timeout(self) -> list[Outgoing]:
        """Call silent agents again `retries` times, then close the sync without them."""
        if not self.collecting:
            return []
        if self.retries_used < self.settings.retries:
            self.retries_used += 1
            return self.resume()
        return self._close()

    def resume(self) -> list[Outgoing]:
        """Call the agents that have not uploaded."""
        return self._call(self.waiting_for) if self.collecting else []

    def _call(self, to: tuple[int, ...]) -> list[Outgoing]:
        return [Outgoing(to, SyncCall(SERVER, self.sync + 1))]

    def _close(self) -> list[Outgoing]:
        """Store the new data, and send each agent the data it does not have."""
        self.sync, self.collecting = self.sync + 1, False
        for n in range(self.n_agents):
            points, rewards = self._encoding.no_points, np.empty(0)
            if n in self.uploads:
                upload = self.uploads[n]
                repeated = sum(len(r) for _, r in self.data[n]) - upload.first  # part of an earlier sync
                points, rewards = upload.points[repeated:], upload.rewards[repeated:]
            self.data[n].append((points, rewards))
        self.left_out.append(tuple(n for n in range(self.n_agents) if n not in self.uploads))
        by_known: dict[int, list[int]] = {}
        for n, upload in sorted(self.uploads.items()):
            by_known.setdefault(upload.known, []).append(n)
        return [self._data_for(tuple(agents), known) for known, agents in by_known.items()]

    def _data_for(self, agents: tuple[int, ...], known: int, again: bool = False) -> Outgoing:
        pieces = [self.data[n][known:] for n in range(self.n_agents)]
        counts = np.array([sum(len(rewards) for _, rewards in own) for own in pieces], dtype=np.int64)
        points = np.concatenate([self._encoding.no_points, *(points for own in pieces for points, _ in own)])
        rewards = np.concatenate([np.empty(0), *(rewards for own in pieces for _, rewards in own)])
        return Outgoing(agents, Data(SERVER, self.sync, known, counts, points, rewards), again=again)

    def _fingerprint(self) -> dict[str, Any]:
        return {"settings": self.settings.described(), "domain": self._encoding.domain_digest}

    def save(self) -> bytes:
        """All data, and the uploads of a sync in progress."""
        meta = {
            "sync": self.sync,
            "collecting": self.collecting,
            "asked": self.retries_used,
            "ignored": self.ignored,
            "left_out": self.left_out,
            "sizes": [[len(rewards) for _, rewards in own] for own in self.data],
            "uploads": [[n, u.epoch, u.known, u.first, len(u.rewards)] for n, u in self.uploads.items()],
        }
        pairs = [item for own in self.data for item in own]
        pairs += [(upload.points, upload.rewards) for upload in self.uploads.values()]
        arrays = {
            "points": np.concatenate([self._encoding.no_points, *(points for points, _ in pairs)]),
            "rewards": np.concatenate([np.empty(0), *(rewards for _, rewards in pairs)]),
        }
        return pack("DisKernelUCB", self._fingerprint(), meta, arrays)

    def restore(self, state: bytes) -> None:
        """Replace the state of this server by a saved one."""
        meta, arrays = unpack(state, "DisKernelUCB", self._fingerprint())
        position = 0

        def take(n: int) -> tuple[NDArray[Any], Floats]:
            nonlocal position
            position += n
            return arrays["points"][position - n : position], arrays["rewards"][position - n : position]

        self.data = [[take(n) for n in sizes] for sizes in meta["sizes"]]
        self.uploads = {
            n: Upload(n, epoch, known, first, *take(size)) for n, epoch, known, first, size in meta["uploads"]
        }
        self.sync, self.collecting, self.retries_used = meta["sync"], meta["collecting"], meta["asked"]
        self.ignored, self.left_out = meta["ignored"], [tuple(agents) for agents in meta["left_out"]]
