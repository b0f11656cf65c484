"""DUETS, the agent's side (DUETS Algorithm 1, with the misprints of theory §11 corrected).

ready ──Inducing──▶ pulling ──rewards──▶ reported ──Solution──▶ trim, next epoch, ready
  └────Confirm────▶ pulling (last epoch) ──rewards──▶ done, nothing is sent
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
)
from manyarms.agents.protocol.server import unexpected
from manyarms.errors import ImpossibleMessageError, InvalidRewardError, SamplingCapError
from manyarms.posterior.history import grouped
from manyarms.support.validation import Floats, finite_rewards

Phase = Literal["ready", "pulling", "reported", "done"]


class DuetsAgent(Agent):
    """One agent of DUETS: it draws arms with its private coin, projects its rewards, and trims."""

    def __init__(self, settings: DuetsSettings, number: int, active: ActiveSet, coin: Coin) -> None:
        self.settings, self.number, self._coin = settings, number, coin
        self._kernel, self._precision = settings.checked_kernel, active.precision
        self.active = active
        self.epoch = 1
        self.phase: Phase = "ready"
        self.ignored = 0
        self._inducing: NDArray[Any] | None = None
        self._basis = b""  # digest of S_j as received
        self._rewards: Floats = np.empty(0)
        self._sent: dict[tuple[int, int], Message] = {}  # reports of this epoch and the previous one
        self._draw()

    # ------------------------------------------------------------------ the interface of an agent

    def start(self) -> list[Message]:
        """Report the first epoch's active set and draws."""
        return self._send_ready()

    def receive(self, message: Message) -> list[Message]:
        """React to a message; repeated and stale messages are ignored and counted."""
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

    @property
    def pending(self) -> Pulls | None:
        """All draws of the epoch."""
        if self.phase != "pulling":
            return None
        keys = self._drawn.keys
        arms = keys if isinstance(self.active, ActivePool) else None
        step = sum(self.settings.lengths[: self.epoch - 1])
        return Pulls(self.number, step, arms, self.active.features(keys))

    def observe(self, rewards: ArrayLike) -> list[Message]:
        """Project the rewards on the inducing points (Algorithm 1 l. 14); the last epoch sends nothing."""
        if self.phase != "pulling":
            raise InvalidRewardError(f"agent {self.number} has no pending pulls")
        self._rewards = finite_rewards(rewards, len(self._drawn))
        self.phase = "done" if self._inducing is None else "reported"
        return self._send_projected_rewards() if self._inducing is not None else []

    def timeout(self) -> list[Message]:
        """Send the last report again."""
        return list(self._sent.values())[-1:] if self.phase in ("ready", "reported") else []

    @property
    def done(self) -> bool:
        """Whether the pulls of the last epoch have been made."""
        return self.phase == "done"

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
        self._inducing, self._basis = self.active.from_wire(message.points), basis
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
        fits = message.weights.shape == (len(self._inducing),) and np.isfinite(message.weights).all()
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

    def _enter(self, epoch: int, active: ActiveSet) -> list[Message]:
        self.epoch, self.active = epoch, active
        self._inducing, self._basis, self.phase = None, b"", "ready"
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
