"""DUETS, the agent's side (DUETS Algorithm 1, with the misprints of spec §5 corrected).

    ready ──Inducing──▶ pulling ──rewards──▶ reported ──Solution──▶ trims, next epoch, ready
      └────Confirm────▶ pulling (last epoch) ──rewards──▶ done, nothing sent
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike, NDArray

from manyarms.agents.active import ActivePool, ActiveSet, Trim
from manyarms.agents.agent import Agent, Pulls
from manyarms.agents.coins import Coin
from manyarms.agents.messages import (
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
)
from manyarms.agents.sparse import projected
from manyarms.errors import ImpossibleMessageError
from manyarms.history import grouped
from manyarms.validation import finite_rewards

if TYPE_CHECKING:
    from manyarms.agents.duets import DUETS

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
        if isinstance(message, Inducing | Confirm | Draws) and self._awaits(message):
            return self._on_epoch(message)
        if isinstance(message, ActiveArms | ActiveChain) and self._can_adopt(message):
            return self._on_active_set(message)
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
        assert self.phase == "pulling", "rewards without pending pulls"
        values = finite_rewards(rewards, len(self._drawn))
        if self._inducing is None:
            self.phase = "done"
            return []
        keys, sums = self._drawn.keys, values
        if isinstance(self.active, ActivePool):
            keys, _, sums = grouped(keys, values)
        points = self.active.features(keys)
        vector = projected(self._kernel, self._inducing, points, sums, self._precision)
        self.phase = "reported"
        return self._say(WANT_PROJECTION, Projection(self.number, self.epoch, vector))

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
            self._drawn = type(self._drawn)(keys)
            return self._say_ready()
        self._inducing = self.active.from_wire(message.points) if isinstance(message, Inducing) else None
        self.phase = "pulling"
        return []

    def _on_solution(self, message: Solution) -> list[Message]:
        """Trim (9) and go on; an agent that never got S_j cannot, and is brought up to date when it asks."""
        if self._inducing is None or self.phase not in ("pulling", "reported"):
            self.ignored += 1
            return []
        if len(message.weights) != len(self._inducing):
            raise ImpossibleMessageError(
                f"{len(message.weights)} weights for {len(self._inducing)} inducing points"
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
        self._inducing, self.phase = None, "ready"
        self._draw()
        return self._say_ready()

    def _draw(self) -> None:
        self._drawn = self.active.draw(self._coin, self.epoch, self._length)

    def _say_ready(self) -> list[Message]:
        return self._say(WANT_READY, Ready(self.number, self.epoch, self.active.digest, self._drawn.digest))

    def _say(self, kind: int, message: Message) -> list[Message]:
        self._answers.pop((self.epoch, kind), None)  # so that the newest is the last
        self._answers[self.epoch, kind] = message
        for epoch, old in list(self._answers):
            if epoch < self.epoch - 1:
                del self._answers[epoch, old]
        return [message]


