"""What every server is: a state machine that takes agents' messages in and gives messages out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from manyarms.agents.protocol.messages import Message
from manyarms.errors import ImpossibleMessageError, UnknownAgentError


@dataclass(frozen=True)
class Outgoing:
    """A message and the agents it goes to. `again`: only because of silence, loss or disagreement."""

    to: tuple[int, ...]
    message: Message
    again: bool = False


class Server(ABC):
    """The server's side. A refused message raises a `MessageError` and changes nothing."""

    def __init__(self, n_agents: int) -> None:
        self.n_agents = n_agents
        self.ignored = 0  # repeated and stale messages

    def receive(self, message: Message) -> list[Outgoing]:
        """React to one message; repeated and stale ones are counted in `ignored` and change nothing else."""
        if not 0 <= message.sender < self.n_agents:
            raise UnknownAgentError(
                f"{message.name} from agent {message.sender}; agents are 0 to {self.n_agents - 1}"
            )
        answer = self._react(message)
        if answer is None:
            self.ignored += 1
        return answer or []

    @abstractmethod
    def _react(self, message: Message) -> list[Outgoing] | None:
        """None when the message was repeated or stale."""

    @abstractmethod
    def timeout(self) -> list[Outgoing]:
        """The time for answers is over: ask once more, then go on without those who are silent."""

    @abstractmethod
    def resume(self) -> list[Outgoing]:
        """After a restart from a saved state: ask again for whatever is outstanding."""

    @abstractmethod
    def save(self) -> bytes:
        """Everything needed to go on after a restart (npz with JSON inside, no pickle, no secrets)."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether nothing more will be sent."""


def unexpected(message: Message) -> ImpossibleMessageError:
    """The error for a kind of message that this server never gets."""
    return ImpossibleMessageError(f"{message.name} from agent {message.sender} is not part of this protocol")
