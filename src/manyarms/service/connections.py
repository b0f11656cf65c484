"""The HTTP protocol of uvicorn with one more limit: the head of a request must arrive in time.

uvicorn limits how long an idle connection stays open after an answer, but not how long a client may take to
send the first lines of a request, so a few hundred slow clients could occupy all connections.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class PatientProtocol(H11Protocol):
    """Closes a connection that has begun a request, or none at all, and does not go on."""

    head_seconds = 20.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait_for_a_head()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head that has begun."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop_waiting()
        elif self._timer is None and (before is None or before.response_complete):
            self._wait_for_a_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_a_head(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def protocol(head_seconds: float) -> type[PatientProtocol]:
    """The protocol with this limit."""
    return type("PatientProtocol", (PatientProtocol,), {"head_seconds": head_seconds})
