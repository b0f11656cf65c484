"""The server's side without Flower's classes: send each node the last packet for it, and read its reply."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from manyarms.errors import RefusedPacketError
from manyarms.federation.hub import Hub
from manyarms.federation.packets import claimed

_log = logging.getLogger("manyarms.federation")


@dataclass(frozen=True)
class Reply:
    """A reply of a node: its packet, or None if the node has failed."""

    question: str  # the id of the message that it answers
    packet: bytes | None
    problem: str = ""


class Nodes(Protocol):
    """What the polling needs from Flower."""

    def present(self) -> Iterable[int]:
        """The nodes that can be reached now."""

    def send(self, node: int, packet: bytes) -> str:
        """Send a packet, which may be empty, and return the id of the message."""

    def replies(self, questions: list[str]) -> Iterable[Reply]:
        """The replies that have arrived to these messages."""


@dataclass
class Polling:
    """Polls every node: as soon as something is new for it, and otherwise after `poll` seconds."""

    hub: Hub
    nodes: Nodes
    poll: float = 60.0
    patience: float = 600.0  # seconds for an answer; a node that was killed with a question never answers it
    look: float = 0.5  # seconds between two looks for replies
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _asked: dict[str, int] = field(default_factory=dict)  # node by message
    _since: dict[int, float] = field(default_factory=dict)  # when a node was asked that has not answered
    _sent: dict[int, bytes] = field(default_factory=dict)  # the last packet to each node
    _agent: dict[int, int] = field(default_factory=dict)  # the agent that has authenticated at a node
    _due: dict[int, float] = field(default_factory=dict)
    _finished: set[int] = field(default_factory=set)  # nodes that know that the run is over

    def run(self) -> None:
        """Poll until every node that has taken part, and can be reached, knows that the run is over."""
        while True:
            self._ask()
            if self._finished and self._finished >= set(self._due) & set(self.nodes.present()):
                return
            self.sleep(self.look)
            for reply in list(self.nodes.replies(list(self._asked))):
                self._use(reply)
            self.hub.tick()

    def _ask(self) -> None:
        now = self.clock()
        for node in self.nodes.present():
            waits = node in self._since and now - self._since[node] < self.patience
            if waits or node in self._finished:
                continue
            news = self.hub.news_for(self._agent[node]) if node in self._agent else None
            if news is not None or self._due.setdefault(node, now) <= now:
                self._sent[node] = news or b""
                self._asked[self.nodes.send(node, self._sent[node])] = node
                self._since[node] = now

    def _use(self, reply: Reply) -> None:
        node = self._asked.pop(reply.question, None)
        if node is None:
            return
        self._since.pop(node, None)
        self._due[node] = self.clock() + self.poll
        if reply.packet is None:
            _log.warning("node %s has failed: %s", node, reply.problem)
            return
        try:
            self.hub.exchange(reply.packet)
        except RefusedPacketError:  # the hub has written it to its log
            return
        self._agent[node] = claimed(reply.packet).agent
        if self._sent[node] and claimed(self._sent[node]).over:
            self._finished.add(node)
