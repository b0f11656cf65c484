"""Asks with a key: a request that is repeated with the same key gets the tickets of the first one.

The key is stored in the transaction that hands out the batch. After a crash or a lost answer, the requester
repeats its request: either the tickets were handed out, and it gets them, or nothing has happened yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from manyarms.campaigns.store.schema import ASKS
from manyarms.campaigns.store.store import Store


@dataclass(frozen=True)
class KeyedAsk:
    """A request of the past: its key, the digest of its contents, and its tickets."""

    key: str
    digest: str
    batch: int
    first: int
    size: int


def known_asks(store: Store, connection: Connection, keys: Sequence[str]) -> dict[str, KeyedAsk]:
    """Those of these keys under which a batch was handed out."""
    columns = (ASKS.c.key, ASKS.c.digest, ASKS.c.batch, ASKS.c.first, ASKS.c.size)
    wanted = select(*columns).where(ASKS.c.campaign == store.id, ASKS.c.key.in_(keys))
    return {row.key: KeyedAsk(*row) for row in connection.execute(wanted)}


def keep_asks(store: Store, connection: Connection, asks: Sequence[KeyedAsk]) -> None:
    """Store keys whose tickets are handed out in the same transaction."""
    rows = [
        {"campaign": store.id, "key": each.key, "digest": each.digest, "batch": each.batch,
         "first": each.first, "size": each.size}
        for each in asks
    ]  # fmt: skip
    if rows:
        connection.execute(insert(ASKS), rows)
