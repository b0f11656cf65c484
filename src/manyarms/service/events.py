"""Who watches a campaign is told when it changes: server-sent events.

An event holds the counters of the campaign, not its data; a page or a program then reads what it shows. The
database is the truth: one task per watched campaign looks at it every second, so changes by other processes
are seen, too, and changes by this service are seen at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import func, select

from manyarms.campaigns.store.schema import CAMPAIGNS, EXCLUSIONS, OPEN, TICKETS
from manyarms.errors import ManyarmsError, ServiceBusyError
from manyarms.service.served import ServedCampaign

POLL_SECONDS, HEARTBEAT_SECONDS = 1.0, 15.0


@dataclass(frozen=True)
class Counters:
    """The counters of a campaign; if none has changed, nothing that a page shows has changed."""

    sequence: int  # results and forgotten tickets
    batches: int
    corrections: int
    candidates: int
    excluded: int
    open: int

    @property
    def id(self) -> str:
        """The id of the event, which a browser sends again when it reconnects."""
        return ".".join(str(number) for number in asdict(self).values())


def counters(served: ServedCampaign) -> Counters:
    """The counters now."""
    store = served.rows.store
    with store.reading() as connection:
        mine = CAMPAIGNS.c.id == store.id
        row = connection.execute(select(CAMPAIGNS.c.sequence, CAMPAIGNS.c.n_arms).where(mine)).one()
        out = select(func.count()).select_from(EXCLUSIONS).where(EXCLUSIONS.c.campaign == store.id)
        open_ = (TICKETS.c.campaign == store.id, TICKETS.c.state == OPEN)
        waiting = select(func.count()).select_from(TICKETS).where(*open_)
        return Counters(
            sequence=row.sequence,
            batches=store.batches(connection),
            corrections=store.revision(connection),
            candidates=row.n_arms,
            excluded=int(connection.execute(out).scalar_one()),
            open=int(connection.execute(waiting).scalar_one()),
        )


class Watch:
    """The event streams of a service. All methods but `notify` belong to the event loop."""

    def __init__(self, most: int) -> None:
        self._most, self._streams, self._closed = most, 0, False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bells: dict[str, set[asyncio.Event]] = {}

    def notify(self, name: str) -> None:
        """A campaign has changed; called from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._ring, name)

    def _ring(self, name: str) -> None:
        for bell in self._bells.get(name, ()):
            bell.set()

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for name in list(self._bells):
            self._ring(name)

    def check(self) -> None:
        """Refuse a further stream if there are too many."""
        if self._streams >= self._most:
            raise ServiceBusyError(f"there are already {self._most} event streams")

    async def stream(
        self, served: ServedCampaign, last: str | None, is_allowed: Callable[[], bool]
    ) -> AsyncIterator[str]:
        """The events of a campaign, from the present on, until the stream or the permission ends."""
        self._loop = asyncio.get_running_loop()
        bell = asyncio.Event()
        self._bells.setdefault(served.name, set()).add(bell)
        self._streams += 1
        try:
            yield "retry: 2000\n\n"
            beat = self._loop.time()
            while not self._closed:
                bell.clear()
                try:
                    now = await run_in_threadpool(counters, served)
                except ManyarmsError:
                    if not served.is_current:
                        return
                    await asyncio.sleep(POLL_SECONDS)  # the database is away for a moment
                    continue
                if now.id != last:
                    last = now.id
                    yield f"id: {now.id}\nevent: change\ndata: {json.dumps(asdict(now))}\n\n"
                if self._loop.time() - beat >= HEARTBEAT_SECONDS:
                    beat = self._loop.time()
                    if not await run_in_threadpool(is_allowed):
                        return
                    yield ": still here\n\n"
                try:
                    await asyncio.wait_for(bell.wait(), POLL_SECONDS)
                except TimeoutError:
                    continue
        finally:
            self._streams -= 1
            self._bells[served.name].discard(bell)
