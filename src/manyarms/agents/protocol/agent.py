"""The interface of an agent: a state machine that receives messages and returns messages and pulls.

It contains no transport, clock or threads. The caller delivers messages, evaluates the `pending` pulls, and
passes the rewards to `observe`.
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
    """Points to evaluate for an agent: `arms` are pool indices (None without a pool), `features` their rows.

    `step` is the agent's time step of the first of these pulls, counted from 0.
    """

    agent: int
    step: int
    arms: Ints | None
    features: NDArray[Any]

    def __len__(self) -> int:
        return len(self.features)


class Agent(ABC):
    """One agent. `start`, `receive`, `observe` and `timeout` return messages for the server."""

    number: int

    @abstractmethod
    def start(self) -> list[Message]:
        """The first messages of the agent."""

    @abstractmethod
    def receive(self, message: Message) -> list[Message]:
        """React to a message; repeated and stale messages are ignored."""

    @property
    @abstractmethod
    def pending(self) -> Pulls | None:
        """The pulls to make now, unchanged until their rewards are observed; None if there are none."""

    @abstractmethod
    def observe(self, rewards: ArrayLike) -> list[Message]:
        """Record the rewards of the pending pulls, in their order."""

    @abstractmethod
    def timeout(self) -> list[Message]:
        """Send the last message again, because an answer is overdue."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the agent has completed all T steps."""
