"""Who takes part in a run at one moment, and whether it is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from manyarms.agents import Server
from manyarms.federation.run_file import AgentRow, RunFile


@dataclass(frozen=True)
class Presence:
    """The agents of a run file at one moment."""

    agents: tuple[AgentRow, ...]
    created: float
    wait: float  # seconds of silence after which the run goes on without an agent
    now: float

    @classmethod
    def of(cls, file: RunFile, now: float) -> Self:
        """The agents as the file has them."""
        return cls(tuple(file.agents()), file.fact("created"), file.description.wait, now)

    def is_away(self, row: AgentRow) -> bool:
        """Whether the run goes on without this agent: it is revoked, or was silent for too long."""
        since = row.last_seen if row.last_seen is not None else self.created
        return row.revoked or self.now - since > self.wait

    @property
    def here(self) -> list[AgentRow]:
        """The agents that the run waits for."""
        return [row for row in self.agents if not self.is_away(row)]

    def is_over(self, server: Server) -> bool:
        """Whether the server and everybody who is here have completed their steps."""
        return server.done and any(row.done for row in self.agents) and all(row.done for row in self.here)

    def state(self, row: AgentRow) -> str:
        """One word or two about an agent."""
        if row.key is None:
            return "not invited"
        if row.revoked:
            return "revoked"
        if row.last_seen is None:
            return "invited"
        if row.done:
            return "done"
        return "silent" if self.is_away(row) else "present"
