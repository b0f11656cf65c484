"""The parts of a page that need the model, computed once for everyone who looks at the same state.

The model belongs to those who ask for candidates. While results keep coming in, a page that is open would
compute its charts again and again, and workers would wait; so the pages rest after each time for `REST` times
as long as it took. What their visitor does meanwhile is shown at once in the parts that need no model.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from fastapi.concurrency import run_in_threadpool

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.outlook import DEFAULT_SIZE
from manyarms.service.events import counters
from manyarms.service.page.contents import MOST_PREVIEWED
from manyarms.service.served import ServedCampaign

Parts = dict[str, Any]
REST = 3.0  # so that pages take a quarter of the time of the model at most
_LONGEST_REST = 15.0  # seconds


@dataclass
class _Computed:
    """The parts for one state of a campaign, which are there or are being computed."""

    served: ServedCampaign
    size: int
    state: str
    parts: Future[Parts] = field(default_factory=Future)
    rest_until: float = 0.0

    @property
    def has_failed(self) -> bool:
        return self.parts.done() and (self.parts.cancelled() or self.parts.exception() is not None)


class PageCache:
    """The latest parts of each campaign, by the counters of the campaign and the size of the next batch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[str, _Computed] = {}

    async def model(
        self, served: ServedCampaign, size: int | None, compute: Callable[[Campaign, int], Parts]
    ) -> Parts:
        """The parts for the present state, from the thread of the model."""
        wanted = max(1, min(size or DEFAULT_SIZE, MOST_PREVIEWED))
        while True:
            found = await run_in_threadpool(self._found, served, wanted, compute)
            if isinstance(found, Future):
                return await asyncio.wrap_future(found)
            await asyncio.sleep(found)

    def _found(
        self, served: ServedCampaign, size: int, compute: Callable[[Campaign, int], Parts]
    ) -> Future[Parts] | float:
        """The parts of the present state, known or begun just now; or how many seconds to rest before."""
        state = counters(served).id
        with self._lock:
            known = self._latest.get(served.name)
            if known is not None and (known.served, known.size) == (served, size) and not known.has_failed:
                rest = known.rest_until - time.monotonic()
                if known.state == state or rest > 0:
                    return known.parts if known.state == state else rest
            begun = _Computed(served, size, state)
            begun.parts = served.model.call(lambda campaign: _timed(begun, campaign, compute))
            self._latest[served.name] = begun
            return begun.parts

    def latest(self, served: ServedCampaign) -> Parts | None:
        """The parts that were computed last, if they are there."""
        with self._lock:
            known = self._latest.get(served.name)
        if known is None or known.served is not served or not known.parts.done() or known.has_failed:
            return None
        return known.parts.result()


def _timed(begun: _Computed, campaign: Campaign, compute: Callable[[Campaign, int], Parts]) -> Parts:
    started = time.monotonic()
    try:
        return compute(campaign, begun.size)
    finally:
        ended = time.monotonic()
        begun.rest_until = ended + min(REST * (ended - started), _LONGEST_REST)
