"""DisKernelUCB (Li et al. 2022; spec §5): GP-UCB agents that pool all their data when one has learned enough.

After a pull an agent asks for a sync when (new points)·log(det(I+K_now/λ)/det(I+K_lastsync/λ)) > D. Then
everybody uploads its new (x, y) and gets everybody else's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.baselines.ucb import Contexts, PointCode, UcbAgent, UcbSettings
from manyarms.agents.protocol.coins import Coin
from manyarms.agents.protocol.messages import SERVER, Data, Message, SyncCall, SyncRequest, Upload
from manyarms.agents.protocol.saved import pack, unpack
from manyarms.agents.protocol.server import Outgoing, Server, unexpected
from manyarms.errors import ImpossibleMessageError
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, positive


@dataclass(frozen=True)
class DisKernelUCB(UcbSettings):
    """`sync_threshold` is D."""

    sync_threshold: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("sync_threshold", self.sync_threshold)

    def server(self, domain: Pool | Contexts, seed: int) -> DisServer:
        """The server's side."""
        return DisServer(self, PointCode(domain, self.send))

    def resume_server(self, domain: Pool | Contexts, seed: int, state: bytes) -> DisServer:
        """A server that goes on from `DisServer.save`."""
        server = self.server(domain, seed)
        server.restore(state)
        return server

    def agent(self, number: int, domain: Pool | Contexts, coin: Coin) -> DisAgent:
        """One agent."""
        return DisAgent(self, number, domain, coin, self.exact_model(domain))


class DisAgent(UcbAgent):
    """GP-UCB on its own pulls and on whatever the last sync brought."""

    settings: DisKernelUCB

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.synced = 0  # the last sync this agent has the result of
        self._log_det_at_sync = 0.0
        self._own: list[tuple[NDArray[Any], float]] = []  # own pulls, in order
        self._confirmed = 0  # of these the server has sent so many back
        self._uploaded: Upload | None = None

    def _before_adding(self, keys: NDArray[Any], rewards: Floats) -> None:
        self._own.append((keys, float(rewards[0])))

    def _after_step(self) -> list[Message]:
        new = len(self._own) - self._confirmed
        if new * (self.model.log_det - self._log_det_at_sync) <= self.settings.sync_threshold:
            return []
        self.waiting = True
        return self.timeout()

    def timeout(self) -> list[Message]:
        """Ask, or upload, again."""
        if not self.waiting:
            return []
        return [self._uploaded or SyncRequest(self.number, self.synced + 1)]

    def receive(self, message: Message) -> list[Message]:
        """A call to upload, or the others' data; anything older is ignored."""
        if isinstance(message, SyncCall) and message.epoch > self.synced:
            new = self._own[self._confirmed :]
            keys = np.concatenate([self.code.no_keys, *(key for key, _ in new)])
            rewards = np.array([reward for _, reward in new], dtype=np.float64)
            self.waiting = True
            self._uploaded = Upload(
                self.number, message.epoch, self.synced, self._confirmed, self.code.to_wire(keys), rewards
            )
            return [self._uploaded]
        if isinstance(message, Data) and message.epoch > self.synced == message.known:
            self._take_in(message)
        elif not isinstance(message, SyncCall | Data):
            raise unexpected(message)
        return []

    def _take_in(self, message: Data) -> None:
        counts = message.counts
        sizes_fit = len(counts) == self.settings.n_agents and (counts >= 0).all()
        if not sizes_fit or not len(message.rewards) == len(message.points) == counts.sum():
            raise ImpossibleMessageError(
                f"Data with counts {counts.tolist()} and {len(message.rewards)} rewards"
            )
        owners = np.repeat(np.arange(len(counts)), counts)
        others = owners != self.number
        self.model.add(self.code.keys(message.points[others]), message.rewards[others])
        self.known_pulls += int(others.sum())
        self._confirmed += int(counts[self.number])
        self.synced, self._log_det_at_sync = message.epoch, self.model.log_det
        self.waiting, self._uploaded, self._pending = False, None, None


class DisServer(Server):
    """Keeps all data by sync, and gives every agent what it has not got."""

    def __init__(self, settings: DisKernelUCB, code: PointCode) -> None:
        super().__init__(settings.n_agents)
        self.settings, self._code = settings, code
        self.sync = 0  # the last sync that was closed
        self.collecting = False
        self.asked = 0
        self.uploads: dict[int, Upload] = {}
        self.held: list[list[tuple[NDArray[Any], Floats]]] = [
            [] for _ in range(self.n_agents)
        ]  # [agent][sync]
        self.left_out: list[tuple[int, ...]] = []  # by sync

    @property
    def done(self) -> bool:
        """Whether no sync is under way."""
        return not self.collecting

    def _react(self, message: Message) -> list[Outgoing] | None:
        if isinstance(message, SyncRequest):
            return self._on_request(message)
        if not isinstance(message, Upload):
            raise unexpected(message)
        self._check(message)
        if message.epoch <= self.sync:  # too late for its sync, or its Data was lost
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
            raise ImpossibleMessageError(f"agent {message.sender} asks for sync {message.epoch}")
        if message.epoch <= self.sync:
            return [self._data_for((message.sender,), message.epoch - 1, again=True)]
        if self.collecting:
            return None
        self.collecting, self.asked, self.uploads = True, 0, {}
        return self._call(tuple(range(self.n_agents)))

    def _check(self, message: Upload) -> None:
        self._code.features(message.points)
        fits = message.points.shape[:1] == message.rewards.shape and np.isfinite(message.rewards).all()
        held = sum(len(rewards) for _, rewards in self.held[message.sender])
        in_order = 0 <= message.known <= self.sync and 0 <= message.first <= held
        if not fits or not in_order or message.epoch > self.sync + 1:
            raise ImpossibleMessageError(
                f"Upload {message.epoch} from agent {message.sender}: {message.points.shape[0]} points, "
                f"{message.rewards.shape[0]} rewards, from point {message.first} of {held}, "
                f"known {message.known}"
            )

    def timeout(self) -> list[Outgoing]:
        """Call the silent ones again, then close the sync without them."""
        if not self.collecting:
            return []
        if self.asked < self.settings.retries:
            self.asked += 1
            return self.resume()
        return self._close()

    def resume(self) -> list[Outgoing]:
        """Call those who have not uploaded."""
        return (
            self._call(tuple(n for n in range(self.n_agents) if n not in self.uploads))
            if self.collecting
            else []
        )

    def _call(self, to: tuple[int, ...]) -> list[Outgoing]:
        return [Outgoing(to, SyncCall(SERVER, self.sync + 1))]

    def _close(self) -> list[Outgoing]:
        """Add what is new, and send everybody what it has not got."""
        self.sync, self.collecting = self.sync + 1, False
        for n in range(self.n_agents):
            points, rewards = self._code.none, np.empty(0)
            if n in self.uploads:
                upload = self.uploads[n]
                repeated = sum(len(r) for _, r in self.held[n]) - upload.first  # came in an earlier sync
                points, rewards = upload.points[repeated:], upload.rewards[repeated:]
            self.held[n].append((points, rewards))
        self.left_out.append(tuple(n for n in range(self.n_agents) if n not in self.uploads))
        by_known: dict[int, list[int]] = {}
        for n, upload in sorted(self.uploads.items()):
            by_known.setdefault(upload.known, []).append(n)
        return [self._data_for(tuple(agents), known) for known, agents in by_known.items()]

    def _data_for(self, agents: tuple[int, ...], known: int, again: bool = False) -> Outgoing:
        pieces = [self.held[n][known:] for n in range(self.n_agents)]
        counts = np.array([sum(len(rewards) for _, rewards in own) for own in pieces], dtype=np.int64)
        points = np.concatenate([self._code.none, *(points for own in pieces for points, _ in own)])
        rewards = np.concatenate([np.empty(0), *(rewards for own in pieces for _, rewards in own)])
        return Outgoing(agents, Data(SERVER, self.sync, known, counts, points, rewards), again=again)

    def _fingerprint(self) -> dict[str, Any]:
        return {"settings": self.settings.described(), "domain": self._code.domain_digest}

    def save(self) -> bytes:
        """All data, and the uploads of a sync under way."""
        meta = {
            "sync": self.sync,
            "collecting": self.collecting,
            "asked": self.asked,
            "ignored": self.ignored,
            "left_out": self.left_out,
            "sizes": [[len(rewards) for _, rewards in own] for own in self.held],
            "uploads": [[n, u.epoch, u.known, u.first, len(u.rewards)] for n, u in self.uploads.items()],
        }
        held = [item for own in self.held for item in own]
        held += [(upload.points, upload.rewards) for upload in self.uploads.values()]
        arrays = {
            "points": np.concatenate([self._code.none, *(points for points, _ in held)]),
            "rewards": np.concatenate([np.empty(0), *(rewards for _, rewards in held)]),
        }
        return pack("DisKernelUCB", self._fingerprint(), meta, arrays)

    def restore(self, state: bytes) -> None:
        """Take over a saved state."""
        meta, arrays = unpack(state, "DisKernelUCB", self._fingerprint())
        position = 0

        def take(n: int) -> tuple[NDArray[Any], Floats]:
            nonlocal position
            position += n
            return arrays["points"][position - n : position], arrays["rewards"][position - n : position]

        self.held = [[take(n) for n in sizes] for sizes in meta["sizes"]]
        self.uploads = {
            n: Upload(n, epoch, known, first, *take(size)) for n, epoch, known, first, size in meta["uploads"]
        }
        self.sync, self.collecting, self.asked = meta["sync"], meta["collecting"], meta["asked"]
        self.ignored, self.left_out = meta["ignored"], [tuple(agents) for agents in meta["left_out"]]
