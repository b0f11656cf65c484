"""The server of ApproxDisKernelUCB: it merges the inducing points, then sums the statistics."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.baselines.ucb import PointEncoding, UcbSettings
from manyarms.agents.epoch_posterior import spanning
from manyarms.agents.protocol.messages import (
    SERVER,
    Inducing,
    Message,
    Statistics,
    SyncCall,
    SyncRequest,
    Upload,
    digest_of,
    plausible,
)
from manyarms.agents.protocol.saved import pack, unpack
from manyarms.agents.protocol.server import Outgoing, Server, unexpected
from manyarms.agents.protocol.wire import decode, encode
from manyarms.embeddings.nystrom import SPAN_TOLERANCE
from manyarms.errors import ImpossibleMessageError
from manyarms.support.validation import Floats

Phase = Literal["idle", "collecting points", "collecting statistics"]


def packed_triangle(matrix: Floats) -> Floats:
    """The upper triangle of a symmetric matrix, row by row."""
    return np.asarray(matrix[np.triu_indices(len(matrix))])


def unpacked_triangle(packed: Floats, size: int) -> Floats:
    """The symmetric matrix with this upper triangle."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size)] = packed
    return np.asarray(matrix + np.triu(matrix, 1).T)


class ApproxServer(Server):
    """A server that sees only inducing points and sums, not individual pulls or rewards."""

    def __init__(self, settings: UcbSettings, encoding: PointEncoding) -> None:
        super().__init__(settings.n_agents)
        self.settings, self._encoding = settings, encoding
        self.sync = 0  # the current or last sync
        self.phase: Phase = "idle"
        self.retries_used = 0
        self.answers: dict[int, Message] = {}  # of the current phase, by agent
        self.inducing: NDArray[Any] = encoding.no_points
        self.sums: Statistics | None = None  # of the last sync
        self.left_out: list[tuple[int, ...]] = []

    @property
    def done(self) -> bool:
        """Whether no sync is in progress."""
        return self.phase == "idle"

    @property
    def waiting_for(self) -> tuple[int, ...]:
        """The agents that have not answered in this phase of a sync."""
        return tuple(n for n in range(self.n_agents) if not self.done and n not in self.answers)

    def summary(self) -> dict[str, Any]:
        """The number of the last sync, who was left out of each, and the size of the sketch."""
        return {
            "phase": self.phase,
            "syncs": len(self.left_out),
            "left_out": [list(agents) for agents in self.left_out],
            "inducing_points": len(self.inducing),
            "shared_pulls": 0 if self.sums is None else int(self.sums.pulls),
        }

    def _react(self, message: Message) -> list[Outgoing] | None:
        if isinstance(message, SyncRequest):
            return self._on_request(message)
        if not isinstance(message, Upload | Statistics):
            raise unexpected(message)
        if message.epoch > self.sync:
            raise ImpossibleMessageError(
                f"{message.name} for sync {message.epoch}; the current sync is {self.sync}"
            )
        self._check(message)
        phase = "collecting points" if isinstance(message, Upload) else "collecting statistics"
        if message.epoch < self.sync or self.phase != phase:
            return self._on_late(message)
        if message.sender in self.answers:
            return None
        self.answers[message.sender] = message
        return self._advance() if len(self.answers) == self.n_agents else []

    def _on_request(self, message: SyncRequest) -> list[Outgoing] | None:
        agent = (message.sender,)
        if message.epoch <= self.sync and self.phase != "collecting points":
            call = message.epoch == self.sync and message.sender not in self.answers
            return [Outgoing(agent, self._inducing(), again=True), *self._last_sums(agent)] if call else None
        if self.phase != "idle":
            return None
        self.sync, self.phase, self.retries_used, self.answers = self.sync + 1, "collecting points", 0, {}
        return self._call(tuple(range(self.n_agents)))

    def _on_late(self, message: Message) -> list[Outgoing] | None:
        """Send S or the sums to an agent that missed them in the current sync; ignore older messages."""
        if message.epoch < self.sync or self.phase == "collecting points":
            return None
        to = (message.sender,)
        if isinstance(message, Upload):
            if message.sender in self.answers and not self.done:  # its statistics have arrived
                return None
            return [Outgoing(to, self._inducing(), again=True), *self._last_sums(to)]
        return self._last_sums(to) or None

    def _last_sums(self, to: tuple[int, ...]) -> list[Outgoing]:
        return [Outgoing(to, self.sums, again=True)] if self.phase == "idle" and self.sums is not None else []

    def _check(self, message: Upload | Statistics) -> None:
        if isinstance(message, Upload):
            self._encoding.features(message.points)
            return
        m = len(self.inducing)
        sizes_fit = message.vector.shape == (m,) and message.gram.shape == (m * (m + 1) // 2,)
        stale = (
            message.epoch < self.sync or self.phase == "collecting points"
        )  # belongs to another S and is not used
        finite = plausible(message.vector) and plausible(message.gram)
        if not finite or message.pulls < 0 or not (sizes_fit or stale):
            raise ImpossibleMessageError(
                f"expected finite sums for {m} inducing points, got Statistics of shapes "
                f"{message.gram.shape} and {message.vector.shape} over {message.pulls} pulls"
            )

    def timeout(self) -> list[Outgoing]:
        """Ask silent agents again `retries` times, then continue without them."""
        if self.done:
            return []
        if self.retries_used < self.settings.retries:
            self.retries_used += 1
            return self.resume()
        return self._advance()

    def resume(self) -> list[Outgoing]:
        """Ask the agents that have not answered in this phase."""
        silent = self.waiting_for
        if not silent:
            return []
        return (
            self._call(silent) if self.phase == "collecting points" else [Outgoing(silent, self._inducing())]
        )

    def _call(self, to: tuple[int, ...]) -> list[Outgoing]:
        return [Outgoing(to, SyncCall(SERVER, self.sync))]

    def _inducing(self) -> Inducing:
        return Inducing(SERVER, self.sync, self.inducing)

    def _advance(self) -> list[Outgoing]:
        answers = [self.answers[n] for n in sorted(self.answers)]
        all_agents, self.retries_used = tuple(range(self.n_agents)), 0
        if self.phase == "collecting points":
            points = np.concatenate(
                [self._encoding.no_points, *(u.points for u in answers if isinstance(u, Upload))]
            )
            features = self._encoding.features(points)
            chosen, _ = spanning(self.settings.checked_kernel, features, SPAN_TOLERANCE[np.dtype(np.float64)])
            self.inducing, self.phase, self.answers = points[chosen], "collecting statistics", {}
            return [Outgoing(all_agents, self._inducing())]
        given = [s for s in answers if isinstance(s, Statistics)]
        m = len(self.inducing)
        self.sums = Statistics(
            SERVER,
            self.sync,
            digest_of(self.inducing),
            np.array(sorted(self.answers), dtype=np.int64),
            np.sum([s.gram for s in given], axis=0) if given else np.zeros(m * (m + 1) // 2),
            np.sum([s.vector for s in given], axis=0) if given else np.zeros(m),
            sum(s.pulls for s in given),
        )
        self.left_out.append(tuple(n for n in all_agents if n not in self.answers))
        self.phase = "idle"
        return [Outgoing(all_agents, self.sums)]

    def _fingerprint(self) -> dict[str, Any]:
        return {"settings": self.settings.described(), "domain": self._encoding.domain_digest}

    def save(self) -> bytes:
        """The state of the sync, with its messages in their wire form."""
        kept = [*self.answers.values(), *([self.sums] if self.sums is not None else [])]
        meta = {
            "sync": self.sync,
            "phase": self.phase,
            "asked": self.retries_used,
            "ignored": self.ignored,
            "left_out": self.left_out,
        }
        arrays = {
            f"message{i}": np.frombuffer(encode(message), dtype=np.uint8) for i, message in enumerate(kept)
        }
        return pack("ApproxDisKernelUCB", self._fingerprint(), meta, {**arrays, "inducing": self.inducing})

    def restore(self, state: bytes) -> None:
        """Replace the state of this server by a saved one."""
        meta, arrays = unpack(state, "ApproxDisKernelUCB", self._fingerprint())
        self.sync, self.phase, self.retries_used = meta["sync"], meta["phase"], meta["asked"]
        self.ignored, self.left_out = meta["ignored"], [tuple(agents) for agents in meta["left_out"]]
        self.inducing = arrays.pop("inducing")
        messages = [decode(array.tobytes()) for array in arrays.values()]
        self.answers = {message.sender: message for message in messages if message.sender != SERVER}
        self.sums = next((m for m in messages if m.sender == SERVER and isinstance(m, Statistics)), None)
