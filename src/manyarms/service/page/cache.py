"""The parts of a page that need the model, computed once for everyone who looks at the same state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.outlook import DEFAULT_SIZE
from manyarms.service.events import counters
from manyarms.service.page.contents import MOST_PREVIEWED
from manyarms.service.served import ServedCampaign

Parts = dict[str, Any]


class PageCache:
    """The latest parts of each campaign, by the counters of the campaign and the size of the next batch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[str, tuple[tuple[ServedCampaign, str, int], Future[Parts]]] = {}

    def model(
        self, served: ServedCampaign, size: int | None, compute: Callable[[Campaign, int], Parts]
    ) -> Future[Parts]:
        """The parts for the present state, in the thread of the model."""
        now = counters(served)
        wanted = max(1, min(size or DEFAULT_SIZE, MOST_PREVIEWED))
        key = (served, now.id, wanted)
        with self._lock:
            known = self._latest.get(served.name)
            if known is not None and known[0] == key and not _has_failed(known[1]):
                return known[1]
            future = served.model.call(lambda campaign: compute(campaign, wanted))
            self._latest[served.name] = (key, future)
            return future

    def latest(self, served: ServedCampaign) -> Parts | None:
        """The parts that were computed last, if they are there."""
        with self._lock:
            known = self._latest.get(served.name)
        if known is None or known[0][0] is not served or not known[1].done() or _has_failed(known[1]):
            return None
        return known[1].result()


def _has_failed(future: Future[Parts]) -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)
