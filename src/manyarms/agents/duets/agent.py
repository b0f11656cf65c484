"""DUETS, the agent's side (DUETS Algorithm 1, with the misprints of spec §5 corrected).

ready ──Inducing──▶ pulling ──rewards──▶ reported ──Solution──▶ trims, next epoch, ready
  └────Confirm────▶ pulling (last epoch) ──rewards──▶ done, nothing sent
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.agents.active_set import ActivePool, ActiveSet, DrawnPoints, Trim
from manyarms.agents.epoch_posterior import projected
from manyarms.agents.protocol.agent import Agent, Pulls
from manyarms.agents.protocol.coins import Coin
from manyarms.agents.protocol.messages import (
    WANT_PROJECTION,
    WANT_READY,
    ActiveArms,
    ActiveChain,
    Confirm,
    Draws,
    Inducing,
    Message,
    Ping,
    Projection,
    Ready,
    Solution,
    digest_of,
)
from manyarms.agents.protocol.server import unexpected
from manyarms.errors import ImpossibleMessageError, InvalidRewardError, SamplingCapError
from manyarms.posterior.history import grouped
from manyarms.support.validation import Floats, finite_rewards

if TYPE_CHECKING:
    from manyarms.agents.duets.duets import DUETS

Phase = Literal["ready", "pulling", "reported", "done"]


class DuetsAgent(Agent):
    """One agent of DUETS: draws with its private coin, projects its rewards, trims."""

    def __init__(self, settings: DUETS, number: int, active: ActiveSet, coin: Coin) -> None:
        self.settings, self.number, self._coin = settings, number, coin
        self._kernel, self._precision = settings.checked_kernel, active.precision
        self.active = active
        self.epoch = 1
        self.phase: Phase = "ready"
        self.ignored = 0
        self._inducing: NDArray[Any] | None = None
        self._basis = b""  # digest of S_j as received
        self._rewards: Floats = np.empty(0)
        self._answers: dict[tuple[int, int], Message] = {}  # what was said in this epoch and the one before
        self._draw()

    # ------------------------------------------------------------------ the contract of an agent

    def start(self) -> list[Message]:
        """Report the first epoch's set and draws."""
        return self._say_ready()

    def receive(self, message: Message) -> list[Message]:
        """React, or ignore what is repeated or stale."""
        if isinstance(message, Ping):
            return self._on_ping(message)
        if isinstance(message, Solution) and message.epoch == self.epoch:
            return self._on_solution(message)
        if isinstance(message, Inducing) and message.epoch == self.epoch:
            return self._on_inducing(message)
        if isinstance(message, Confirm | Draws) and self._awaits(message):
            return self._on_epoch(message)
        if isinstance(message, ActiveArms | ActiveChain) and self._can_adopt(message):
            return self._on_active_set(message)
        if not isinstance(message, Solution | Inducing | Confirm | Draws | ActiveArms | ActiveChain):
            raise unexpected(message)
        self.ignored += 1
        return []

    @property
    def pending(self) -> Pulls | None:
        """The epoch's draws, all at once."""
        if self.phase != "pulling":
            return None
        keys = self._drawn.keys
        arms = keys if isinstance(self.active, ActivePool) else None
        step = sum(self.settings.lengths[: self.epoch - 1])
        return Pulls(self.number, step, arms, self.active.features(keys))

    def observe(self, rewards: ArrayLike) -> list[Message]:
        """Project the rewards on the inducing points (Algorithm 1 l. 14); in the last epoch say nothing."""
        if self.phase != "pulling":
            raise InvalidRewardError(f"agent {self.number} has no pending pulls to give rewards for")
        self._rewards = finite_rewards(rewards, len(self._drawn))
        self.phase = "done" if self._inducing is None else "reported"
        return self._say_projection() if self._inducing is not None else []

    def timeout(self) -> list[Message]:
        """Repeat the last report."""
        return list(self._answers.values())[-1:] if self.phase in ("ready", "reported") else []

    @property
    def done(self) -> bool:
        """Whether the last epoch has been pulled."""
        return self.phase == "done"

    # ------------------------------------------------------------------ reactions

    def _awaits(self, message: Message) -> bool:
        return message.epoch == self.epoch and self.phase == "ready"

    def _can_adopt(self, message: Message) -> bool:
        return message.epoch > self.epoch or self._awaits(message)

    def _on_ping(self, message: Ping) -> list[Message]:
        """What was asked for, if it was ever said; else the last thing said."""
        answer = self._answers.get((message.epoch, message.wanted))
        return [answer] if answer is not None else self.timeout()

    def _on_epoch(self, message: Message) -> list[Message]:
        if isinstance(message, Draws):
            keys = self.active.keys_from_wire(message.points)
            if len(keys) != self._length:
                raise ImpossibleMessageError(f"{len(keys)} draws for an epoch of {self._length}")
            self._drawn = DrawnPoints(keys)
            return self._say_ready()
        if self.epoch < self.settings.n_epochs:
            raise ImpossibleMessageError(f"{message.name} in epoch {self.epoch}, which is not the last")
        self.phase = "pulling"
        return []

    def _on_inducing(self, message: Inducing) -> list[Message]:
        """S_j; a second, different one (the server was restarted) asks for the same rewards on it."""
        if self.epoch == self.settings.n_epochs:
            raise ImpossibleMessageError("inducing points in the last epoch, which sends nothing")
        basis = digest_of(message.points)
        if basis == self._basis:
            self.ignored += 1
            return []
        self._inducing, self._basis = self.active.from_wire(message.points), basis
        if self.phase == "reported":
            return self._say_projection()
        self.phase = "pulling"
        return []

    def _on_solution(self, message: Solution) -> list[Message]:
        """Trim (9) and go on; an agent that never got S_j cannot, and is brought up to date when it asks."""
        if self._inducing is None or message.basis != self._basis:
            self.ignored += 1
            return []
        fits = message.weights.shape == (len(self._inducing),) and np.isfinite(message.weights).all()
        if not fits or not message.cutoff < np.inf:  # NaN neither
            raise ImpossibleMessageError(
                f"weights of shape {message.weights.shape} for {len(self._inducing)} inducing points, "
                f"or not finite; cutoff {message.cutoff}"
            )
        trim = Trim(self._inducing, message.weights, message.cutoff)
        return self._enter(self.epoch + 1, self.active.trimmed(trim))

    def _on_active_set(self, message: Message) -> list[Message]:
        if message.epoch > self.settings.n_epochs:
            raise ImpossibleMessageError(f"epoch {message.epoch} of {self.settings.n_epochs}")
        return self._enter(message.epoch, self.active.adopted(message))

    # ------------------------------------------------------------------ inside

    @property
    def _length(self) -> int:
        return self.settings.lengths[self.epoch - 1]

    def _enter(self, epoch: int, active: ActiveSet) -> list[Message]:
        self.epoch, self.active = epoch, active
        self._inducing, self._basis, self.phase = None, b"", "ready"
        self._draw()
        return self._say_ready()

    def _draw(self) -> None:
        try:
            self._drawn = self.active.draw(self._coin, self.epoch, self._length)
        except SamplingCapError:  # rounding left nothing here; the digest will say so to the server
            self._drawn = DrawnPoints(np.empty(0, dtype=np.int64), complete=False)

    def _say_ready(self) -> list[Message]:
        return self._say(WANT_READY, Ready(self.number, self.epoch, self.active.digest, self._drawn.digest))

    def _say_projection(self) -> list[Message]:
        """K_{S,D}Y of this epoch's own draws (7)."""
        assert self._inducing is not None
        keys, sums = self._drawn.keys, self._rewards
        if isinstance(self.active, ActivePool):
            keys, _, sums = grouped(keys, sums)
        points = self.active.features(keys)
        values = projected(self._kernel, self._inducing, points, sums, self._precision)
        return self._say(WANT_PROJECTION, Projection(self.number, self.epoch, self._basis, values))

    def _say(self, kind: int, message: Message) -> list[Message]:
        self._answers.pop((self.epoch, kind), None)  # so that the newest is the last
        self._answers[self.epoch, kind] = message
        for epoch, old in list(self._answers):
            if epoch < self.epoch - 1:
                del self._answers[epoch, old]
        return [message]
