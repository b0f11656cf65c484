"""Defer Ctrl-C to safe moments: while the state of a run changes, the interrupt waits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_DEFERRED = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Defer SIGINT and SIGTERM until the block is left, then handle them as usual.

    Only signals with a Python handler are deferred, as SIGINT has by default (KeyboardInterrupt); a signal
    that ends the process at once or is ignored keeps doing so. No effect outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def record(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    handlers = {number: handler for number in _DEFERRED if callable(handler := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, record)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for deferred in arrived:
        signal.raise_signal(deferred)
