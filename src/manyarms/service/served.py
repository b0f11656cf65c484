"""One campaign as the service holds it: the model in its own thread, and the rows of its database.

What needs the model (asks, rankings, certificates, previews) goes through `model`. What only reads or writes
rows uses `rows`, a second object on the same database, in any thread; it never waits for an ask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.orders import Issued
from manyarms.errors import ServiceBusyError
from manyarms.service.model_thread import ModelThread
from manyarms.service.operations import Operations
from manyarms.service.places import Place


class ServedCampaign:
    """A campaign that stays open. `changed` is called after every change that this service makes."""

    def __init__(self, name: str, where: str, on_change: Callable[[str], None]) -> None:
        self.name, self.where = name, where
        self.rows = Campaign(where)
        self._source_lock = threading.Lock()
        self._on_change = on_change
        self.model = ModelThread(lambda: Campaign(where), self.changed)
        self.operations = Operations(self.model)

    def changed(self) -> None:
        """Tell everyone who watches that something has changed."""
        self._on_change(self.name)

    @contextmanager
    def table(self) -> Iterator[Campaign]:
        """`rows` for calls that read the table of candidates, which one thread does at a time."""
        with self._source_lock:
            with self.rows.store.reading() as connection:
                self.rows._keep_up(self.rows.store.row(connection)["n_arms"])
            yield self.rows

    def open_tickets(self) -> list[Issued]:
        """The open tickets, as they were handed out."""
        with self.table() as campaign:
            return campaign.open_tickets()

    @property
    def is_current(self) -> bool:
        """Whether the file of the campaign is still there and the same."""
        return self.rows.store.database.is_current()

    def close(self) -> None:
        """End the thread of the model, and close the database."""
        self.model.close()
        self.rows.close()


class Registry:
    """The campaigns of a place, opened at their first use."""

    def __init__(self, place: Place, on_change: Callable[[str], None]) -> None:
        self.place, self._on_change = place, on_change
        self._open: dict[str, ServedCampaign] = {}
        self._lock, self._closed = threading.Lock(), False

    def names(self) -> list[str]:
        """The names of the campaigns."""
        return self.place.names()

    def find(self, name: str) -> ServedCampaign:
        """The campaign of this name; one whose file was deleted or replaced is let go of."""
        with self._lock:
            if self._closed:
                raise ServiceBusyError("the service is stopping: repeat the request later")
            if name in self._open and not self._open[name].is_current:
                gone = self._open.pop(name)
                threading.Thread(target=gone.close, name=f"closes {name}", daemon=True).start()
            if name not in self._open:
                self._open[name] = ServedCampaign(name, self.place.where(name), self._on_change)
            return self._open[name]

    def close(self) -> None:
        """Close every campaign."""
        with self._lock:
            self._closed, campaigns, self._open = True, list(self._open.values()), {}
        for campaign in campaigns:
            campaign.close()
