"""The stored rows about candidates: tables that were added, and candidates that are excluded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, text, update

from manyarms.campaigns.store.digests import settings_digest
from manyarms.campaigns.store.schema import ADDITIONS, ARMS, CAMPAIGNS, EXCLUSIONS


def excluded(connection: Connection, campaign: int) -> list[int]:
    """The arms that are never asked for."""
    found = select(EXCLUSIONS.c.arm).where(EXCLUSIONS.c.campaign == campaign)
    return list(connection.execute(found).scalars())


def exclude(
    connection: Connection, campaign: int, arms: Sequence[int], note: str | None, moment: str
) -> None:
    """Exclude arms, whose names the database knows."""
    rows = [{"campaign": campaign, "arm": arm, "note": note, "excluded_at": moment} for arm in arms]
    if rows:
        connection.execute(insert(EXCLUSIONS), rows)


def readmit(connection: Connection, campaign: int, arms: Sequence[int]) -> None:
    """Undo the exclusion of arms."""
    for arm in arms:
        mine = (EXCLUSIONS.c.campaign == campaign) & (EXCLUSIONS.c.arm == arm)
        connection.execute(delete(EXCLUSIONS).where(mine))


def additions(connection: Connection, campaign: int) -> list[str]:
    """The added tables as JSON, in order."""
    found = select(ADDITIONS.c.source).where(ADDITIONS.c.campaign == campaign).order_by(ADDITIONS.c.number)
    return list(connection.execute(found).scalars())


def columns_after(connection: Connection, campaign: int) -> list[tuple[int, str]]:
    """The number of candidates of each added table, and the columns of the model after it, as JSON."""
    found = select(ADDITIONS.c.n_arms, ADDITIONS.c["columns"]).where(ADDITIONS.c.campaign == campaign)
    return [(row[0], row[1]) for row in connection.execute(found.order_by(ADDITIONS.c.number))]


def add_table(connection: Connection, campaign: int, table: Mapping[str, Any], total: int) -> None:
    """Store a table (the columns of its row), after which the campaign has `total` candidates."""
    number = 1 + len(additions(connection, campaign))
    connection.execute(insert(ADDITIONS).values(campaign=campaign, number=number, **table))
    _resize(connection, campaign, total)
    found = select(CAMPAIGNS.c.identity, CAMPAIGNS.c.settings).where(CAMPAIGNS.c.id == campaign)
    identity, settings = connection.execute(found).one()
    digest = settings_digest(identity, settings, total)
    connection.execute(update(CAMPAIGNS).where(CAMPAIGNS.c.id == campaign).values(settings_digest=digest))


def _resize(connection: Connection, campaign: int, total: int) -> None:
    """Change the size of the pool, which every row of `arms` refers to.

    Both tables must change together: SQLite checks the reference at the end of the transaction if it is told
    to, and PostgreSQL at the end of one statement.
    """
    arms = update(ARMS).where(ARMS.c.campaign == campaign).values(n_arms=total)
    pool = update(CAMPAIGNS).where(CAMPAIGNS.c.id == campaign).values(n_arms=total)
    if connection.dialect.name == "sqlite":
        connection.execute(text("PRAGMA defer_foreign_keys = ON"))
        connection.execute(pool)
        connection.execute(arms)
    else:
        connection.execute(pool.add_cte(arms.cte("resized")))
