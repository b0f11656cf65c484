"""The interface of a server: a state machine that receives messages from agents and returns messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from manyarms.agents.protocol.messages import Message
from manyarms.errors import ForgedSenderError, ImpossibleMessageError, UnknownAgentError


@dataclass(frozen=True)
class Outgoing:
    """A message and its receivers; `again` marks a resend after silence, loss or disagreement."""

    to: tuple[int, ...]
    message: Message
    again: bool = False


class Server(ABC):
    """A server. A refused message raises a `MessageError` and leaves the state unchanged."""

    def __init__(self, n_agents: int) -> None:
        self.n_agents = n_agents
        self.ignored = 0  # repeated and stale messages

    def receive(self, sender: int, message: Message) -> list[Outgoing]:
        """React to a message; repeated and stale messages only increase `ignored`.

        `sender` is the agent that the transport has authenticated. A message that names another is refused.
        """
        if not 0 <= sender < self.n_agents:
            raise UnknownAgentError(
                f"{message.name} from agent {sender}; the agents are 0 to {self.n_agents - 1}"
            )
        if message.sender != sender:
            raise ForgedSenderError(f"{message.name} from agent {sender} says it is from {message.sender}")
        answer = self._react(message)
        if answer is None:
            self.ignored += 1
        return answer or []

    @abstractmethod
    def _react(self, message: Message) -> list[Outgoing] | None:
        """The answers to a message; None if it was repeated or stale."""

    @abstractmethod
    def timeout(self) -> list[Outgoing]:
        """Answers are overdue: ask silent agents again, or continue without them after enough retries."""

    @abstractmethod
    def resume(self) -> list[Outgoing]:
        """Ask again for all outstanding answers, after a restart from a saved state."""

    @abstractmethod
    def save(self) -> bytes:
        """The state needed to continue after a restart (npz with JSON inside, no pickle, no secrets)."""

    @abstractmethod
    def restore(self, state: bytes) -> None:
        """Replace the state by one that `save` wrote in the same run."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the server waits for nothing and has nothing to send."""

    @property
    @abstractmethod
    def waiting_for(self) -> tuple[int, ...]:
        """The agents whose answers are outstanding."""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """The progress of the run as plain data for people and programs."""


def unexpected(message: Message) -> ImpossibleMessageError:
    """The error for a kind of message that the receiver's protocol does not have."""
    return ImpossibleMessageError(f"{message.name} from agent {message.sender} is not part of this protocol")
