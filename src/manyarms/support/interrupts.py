"""Ctrl-C at safe moments: while a run's state changes, the interrupt waits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_HELD_BACK = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back until the block is left, then let them have their usual effect.

    Only those that a Python function answers, as it does SIGINT (KeyboardInterrupt) unless told otherwise;
    a signal that ends the process at once, or is ignored, stays so. In other threads: no effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    usual = {number: handler for number in _HELD_BACK if callable(handler := signal.getsignal(number))}
    for number in usual:
        signal.signal(number, remember)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
    for late in arrived:
        signal.raise_signal(late)
