"""What every agent is: a state machine that takes messages in and gives messages and pulls out.

No transport, no clock, no threads. Whoever runs it delivers messages, evaluates `pending` pulls wherever
that is done, and hands the rewards to `observe`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike, NDArray

from manyarms.agents.protocol.messages import Message
from manyarms.support.validation import Ints


@dataclass(frozen=True)
class Pulls:
    """Points an agent wants evaluated: `arms` are pool indices (None off a pool), `features` their rows.

    `step` is the first of the agent's time steps these pulls take, counted from 0.
    """

    agent: int
    step: int
    arms: Ints | None
    features: NDArray[Any]

    def __len__(self) -> int:
        return len(self.features)


class Agent(ABC):
    """One agent. `start` and `receive` and `observe` return messages for the server."""

    number: int

    @abstractmethod
    def start(self) -> list[Message]:
        """First messages."""

    @abstractmethod
    def receive(self, message: Message) -> list[Message]:
        """React to a message; repeated and stale ones are ignored."""

    @property
    @abstractmethod
    def pending(self) -> Pulls | None:
        """What is to be pulled now; stays the same until observed."""

    @abstractmethod
    def observe(self, rewards: ArrayLike) -> list[Message]:
        """The rewards of `pending`, in order."""

    @abstractmethod
    def timeout(self) -> list[Message]:
        """Nothing has come for long: say the last thing again."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether all T steps are over."""
