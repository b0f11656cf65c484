"""DUETS, the agent's side (DUETS Algorithm 1, with the misprints of theory §11 corrected).

ready ──Inducing──▶ pulling ──rewards──▶ reported ──Solution──▶ trim, next epoch, ready
  └────Confirm────▶ pulling (last epoch) ──rewards──▶ done, nothing is sent
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.active_set import ActivePool, ActiveSet, DrawnPoints, Trim
from manyarms.agents.duets.settings import DuetsSettings
from manyarms.agents.epoch_posterior import projected_rewards
from manyarms.agents.protocol.agent import Agent, Pulls
from manyarms.agents.protocol.coins import Coin
from manyarms.agents.protocol.messages import (
    WANT_PROJECTED_REWARDS,
    WANT_READY,
    ActiveArms,
    ActiveChain,
    Confirm,
    EpochDraws,
    Inducing,
    Message,
    Ping,
    ProjectedRewards,
    Ready,
    Solution,
    digest_of,
    plausible,
)
from manyarms.agents.protocol.saved import pack, unpack
from manyarms.agents.protocol.server import unexpected
from manyarms.agents.protocol.wire import decode, encode
from manyarms.errors import ImpossibleMessageError, SamplingCapError
from manyarms.posterior.history import grouped
from manyarms.support.validation import Floats

Phase = Literal["ready", "pulling", "reported", "done"]
_STATE = "agent of DUETS"


class DuetsAgent(Agent):
    """One agent of DUETS: it draws arms with its private coin, projects its rewards, and trims."""

    def __init__(self, settings: DuetsSettings, number: int, active: ActiveSet, coin: Coin) -> None:
        super().__init__(number)
        self.settings, self._coin = settings, coin
        self._kernel, self._precision = settings.checked_kernel, active.precision
        self.active = active
        self.epoch = 1
        self.phase: Phase = "ready"
        self.ignored = 0
        self._points: NDArray[Any] | None = None  # S_j in its wire form
        self._inducing: NDArray[Any] | None = None  # the features of S_j
        self._basis = b""  # digest of S_j as received
        self._rewards: Floats = np.empty(0)
        self._sent: dict[tuple[int, int], Message] = {}  # reports of this epoch and the previous one
        self._draw()

    # ------------------------------------------------------------------ the interface of an agent

    def _start(self) -> list[Message]:
        return self._send_ready()

    def _react(self, message: Message) -> list[Message]:
        if isinstance(message, Ping):
            return self._on_ping(message)
        if isinstance(message, Solution) and message.epoch == self.epoch:
            return self._on_solution(message)
        if isinstance(message, Inducing) and message.epoch == self.epoch:
            return self._on_inducing(message)
        if isinstance(message, Confirm | EpochDraws) and self._awaits(message):
            return self._on_confirm_or_draws(message)
        if isinstance(message, ActiveArms | ActiveChain) and self._can_adopt(message):
            return self._on_active_set(message)
        if not isinstance(message, Solution | Inducing | Confirm | EpochDraws | ActiveArms | ActiveChain):
            raise unexpected(message)
        self.ignored += 1
        return []

    def _ask(self) -> Pulls | None:
        return self._asked()

    def _asked(self) -> Pulls | None:
        """All draws of the epoch."""
        if self.phase != "pulling":
            return None
        keys = self._drawn.keys
        arms = keys if isinstance(self.active, ActivePool) else None
        steps = self._first_step(self.epoch) + np.arange(len(keys))
        return Pulls(self.number, steps, arms, self.active.features(keys))

    def _observe(self, rewards: Floats) -> list[Message]:
        """Project the rewards on the inducing points (Algorithm 1 l. 14); the last epoch sends nothing."""
        self._rewards = rewards
        self.phase = "done" if self._inducing is None else "reported"
        return self._send_projected_rewards() if self._inducing is not None else []

    def timeout(self) -> list[Message]:
        """Send the last report again."""
        return list(self._sent.values())[-1:] if self.phase in ("ready", "reported") else []

    @property
    def done(self) -> bool:
        """Whether the pulls of the last epoch have been made."""
        return self.phase == "done"

    @property
    def next_step(self) -> int:
        """The first step of this epoch, or of the next one if the pulls of this epoch have been made."""
        return self._first_step(self.epoch + (self.phase in ("reported", "done")))

    # ------------------------------------------------------------------ reactions

    def _awaits(self, message: Message) -> bool:
        return message.epoch == self.epoch and self.phase == "ready"

    def _can_adopt(self, message: Message) -> bool:
        return message.epoch > self.epoch or self._awaits(message)

    def _on_ping(self, message: Ping) -> list[Message]:
        """Send the requested report again; if it was never sent, send the last report."""
        requested = self._sent.get((message.epoch, message.wanted))
        return [requested] if requested is not None else self.timeout()

    def _on_confirm_or_draws(self, message: Message) -> list[Message]:
        if isinstance(message, EpochDraws):
            keys = self.active.keys_from_wire(message.points)
            if len(keys) != self._length:
                raise ImpossibleMessageError(f"{len(keys)} draws for an epoch of length {self._length}")
            self._drawn = DrawnPoints(keys)
            return self._send_ready()
        if self.epoch < self.settings.n_epochs:
            raise ImpossibleMessageError(f"{message.name} in epoch {self.epoch}, which is not the last")
        self.phase = "pulling"
        return []

    def _on_inducing(self, message: Inducing) -> list[Message]:
        """Receive S_j. A restarted server may send another S_j, for which the same rewards are projected."""
        if self.epoch == self.settings.n_epochs:
            raise ImpossibleMessageError("inducing points in the last epoch, in which agents send no rewards")
        basis = digest_of(message.points)
        if basis == self._basis:
            self.ignored += 1
            return []
        self._inducing = self.active.from_wire(message.points)
        self._points, self._basis = message.points, basis
        if self.phase == "reported":
            return self._send_projected_rewards()
        self.phase = "pulling"
        return []

    def _on_solution(self, message: Solution) -> list[Message]:
        """Trim by (9) and enter the next epoch.

        An agent that never received S_j ignores the message; the server updates it when it reports again.
        """
        if self._inducing is None or message.basis != self._basis:
            self.ignored += 1
            return []
        fits = message.weights.shape == (len(self._inducing),) and plausible(message.weights)
        if not fits or not message.cutoff < np.inf:  # also true for NaN
            raise ImpossibleMessageError(
                f"expected {len(self._inducing)} finite weights and a cutoff below infinity, got weights of "
                f"shape {message.weights.shape} and cutoff {message.cutoff}"
            )
        trim = Trim(self._inducing, message.weights, message.cutoff)
        return self._enter(self.epoch + 1, self.active.trimmed(trim))

    def _on_active_set(self, message: Message) -> list[Message]:
        if message.epoch > self.settings.n_epochs:
            raise ImpossibleMessageError(f"active set for epoch {message.epoch} of {self.settings.n_epochs}")
        return self._enter(message.epoch, self.active.adopted(message))

    # ------------------------------------------------------------------ epochs and reports

    @property
    def _length(self) -> int:
        return self.settings.lengths[self.epoch - 1]

    def _first_step(self, epoch: int) -> int:
        return sum(self.settings.lengths[: epoch - 1])

    def _enter(self, epoch: int, active: ActiveSet) -> list[Message]:
        self.epoch, self.active = epoch, active
        self._points, self._inducing, self._basis, self.phase = None, None, b"", "ready"
        self._drop_answers()
        self._draw()
        return self._send_ready()

    def _draw(self) -> None:
        try:
            self._drawn = self.active.draw(self._coin, self.epoch, self._length)
        except SamplingCapError:  # rounding emptied the set here; the digest tells the server
            self._drawn = DrawnPoints(np.empty(0, dtype=np.int64), complete=False)

    def _send_ready(self) -> list[Message]:
        return self._send(WANT_READY, Ready(self.number, self.epoch, self.active.digest, self._drawn.digest))

    def _send_projected_rewards(self) -> list[Message]:
        """K_{S,D}Y of the agent's draws in this epoch (7)."""
        assert self._inducing is not None
        keys, sums = self._drawn.keys, self._rewards
        if isinstance(self.active, ActivePool):
            keys, _, sums = grouped(keys, sums)
        points = self.active.features(keys)
        values = projected_rewards(self._kernel, self._inducing, points, sums, self._precision)
        message = ProjectedRewards(self.number, self.epoch, self._basis, values)
        return self._send(WANT_PROJECTED_REWARDS, message)

    def _send(self, kind: int, message: Message) -> list[Message]:
        self._sent.pop((self.epoch, kind), None)  # so that the newest report is the last entry
        self._sent[self.epoch, kind] = message
        for epoch, old in list(self._sent):
            if epoch < self.epoch - 1:
                del self._sent[epoch, old]
        return [message]

    # ------------------------------------------------------------------ saved states

    def save(self) -> bytes:
        """The state between two turns. The draws are saved, because the server may have corrected them."""
        meta = {
            **self._common_state(),
            "epoch": self.epoch,
            "phase": self.phase,
            "ignored": self.ignored,
            "complete": self._drawn.complete,
            "sent": [[epoch, kind] for epoch, kind in self._sent],
        }
        arrays = {
            "active": _as_bytes(self.active.message(self.epoch)),
            "draws": self._drawn.keys,
            "rewards": self._rewards,
            **{f"sent{i}": _as_bytes(message) for i, message in enumerate(self._sent.values())},
        }
        if self._points is not None:
            arrays["points"] = self._points
        return pack(_STATE, self._fingerprint(), meta, arrays)

    def load(self, state: bytes) -> None:
        """Replace the state by a saved one."""
        meta, arrays = unpack(state, _STATE, self._fingerprint())
        self.active = self.active.adopted(decode(arrays["active"].tobytes()))
        self.epoch, self.phase, self.ignored = meta["epoch"], meta["phase"], meta["ignored"]
        self._points = arrays.get("points")
        self._inducing = None if self._points is None else self.active.from_wire(self._points)
        self._basis = b"" if self._points is None else digest_of(self._points)
        self._drawn = DrawnPoints(arrays["draws"], meta["complete"])
        self._rewards = arrays["rewards"]
        self._sent = {
            (epoch, kind): decode(arrays[f"sent{i}"].tobytes())
            for i, (epoch, kind) in enumerate(meta["sent"])
        }
        self._load_common_state(meta)

    def _fingerprint(self) -> dict[str, Any]:
        """The agent a state belongs to; of the coin only its fingerprint."""
        return {
            "settings": self.settings.described(),
            "domain": self.active.domain_digest,
            "agent": self.number,
            "precision": str(self._precision),
            "coin": self._coin.fingerprint,
        }


def _as_bytes(message: Message) -> NDArray[np.uint8]:
    return np.frombuffer(encode(message), dtype=np.uint8)
