"""A limit on wrong tokens from one address.

Secrets have 256 bits, so the limit does not protect them from being guessed; it bounds the load and the noise
that somebody without a token can cause. A valid token is accepted at any time, also from such an address.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

MOST, WITHIN = 10, 60.0  # wrong attempts, seconds
_MOST_ADDRESSES = 10_000


class Attempts:
    """The moments of recent wrong attempts, by address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._moments: OrderedDict[str, deque[float]] = OrderedDict()

    def count(self, address: str) -> int | None:
        """Count a wrong attempt; returns the seconds to wait if there were too many, otherwise None."""
        now = self._clock()
        with self._lock:
            moments = self._moments.setdefault(address, deque(maxlen=MOST))
            self._moments.move_to_end(address)
            if len(self._moments) > _MOST_ADDRESSES:
                self._moments.popitem(last=False)
            if len(moments) == MOST and now - moments[0] < WITHIN:
                return math.ceil(WITHIN - (now - moments[0]))
            moments.append(now)
        return None
