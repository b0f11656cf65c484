"""The lease of a ticket: who measures it, and until when it is not given to anyone else.

A worker renews its lease while it measures. The next ask forgets tickets whose lease has expired; a result
that arrives later is still recorded.
"""

from __future__ import annotations

import time

from sqlalchemy import Connection

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.store.schema import OPEN
from manyarms.campaigns.store.store import Ticket
from manyarms.errors import AlreadyToldError, LeaseError


def renewed(campaign: Campaign, ticket: str, worker: str, seconds: float) -> float:
    """Extend the lease of an open ticket that this worker holds; returns its end, in seconds since 1970."""
    (number,), store = campaign.numbers_of([ticket]), campaign.store
    until = time.time() + seconds
    with store.writing() as connection:
        _held(campaign, connection, number, worker)
        store.lease(connection, [number], worker, until)
    return until


def released(campaign: Campaign, ticket: str, worker: str) -> int:
    """Forget an open ticket that this worker holds; returns its number."""
    (number,), store = campaign.numbers_of([ticket]), campaign.store
    with store.writing() as connection:
        _held(campaign, connection, number, worker)
        store.forget(connection, [number])
    return number


def _held(campaign: Campaign, connection: Connection, number: int, worker: str) -> Ticket:
    found = campaign.store.named_tickets(connection, {number: ""})[number]
    if found.state != OPEN:
        raise AlreadyToldError(f"ticket {found.code} is not open: it is {found.state}")
    if found.worker != worker:
        raise LeaseError(f"ticket {found.code} is not held by this worker")
    return found
