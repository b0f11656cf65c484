"""Create a campaign atomically: its file appears complete, and never replaces an existing file.

The database of a new file is made in memory, so a process that is killed leaves no file behind.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from sqlalchemy import URL

from manyarms.campaigns.store.database import address
from manyarms.campaigns.store.store import Store
from manyarms.errors import CampaignExistsError, DatabaseError, OutputError
from manyarms.support.output_files import write_new


def create_campaign(campaign: str | Path, settings: str, n_arms: int) -> None:
    """Create a campaign. An existing file is never changed, and a failure leaves nothing behind."""
    where = address(campaign)
    in_memory = URL.create("sqlite", database=":memory:")
    store = Store(where if where.file is None else replace(where, url=in_memory))
    try:
        store.create(settings, n_arms)
        if where.file is not None:
            _write(where.file, store.database.contents())
    finally:
        store.close()


def _write(file: Path, data: bytes) -> None:
    try:
        write_new(file, data)
    except OutputError as problem:
        refuse_existing(file)
        raise DatabaseError(str(problem)) from None


def refuse_existing(campaign: str | Path) -> None:
    """Raise an error if the file already exists, before the pool is read."""
    file = address(campaign).file
    if file is None or not os.path.lexists(file):
        return
    if file.is_file() and not file.stat().st_size:
        raise CampaignExistsError(f"{file}: the file already exists and is empty; delete it first")
    raise CampaignExistsError(f"{file}: the file already exists, and a campaign never overwrites a file")
