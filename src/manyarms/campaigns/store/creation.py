"""Create a campaign atomically: its file appears complete, and never replaces an existing file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from sqlalchemy import URL

from manyarms.campaigns.store.database import Address, address
from manyarms.campaigns.store.store import Store
from manyarms.errors import CampaignExistsError, DatabaseError


def create_campaign(campaign: str | Path, settings: str, n_arms: int) -> None:
    """Create a campaign. An existing file is never changed, and a failure leaves nothing behind."""
    where = address(campaign)
    if where.file is None:
        _create_at(where, settings, n_arms)
        return
    unfinished = where.file.with_name(f".{where.file.name}.{os.getpid()}.new")
    try:
        _create_at(
            replace(where, url=URL.create("sqlite", database=str(unfinished.absolute()))), settings, n_arms
        )
        if _beside(unfinished, "-wal").exists():
            raise DatabaseError(f"{where}: the new campaign could not be written completely")
        _put_in_place(unfinished, where.file)
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            _beside(unfinished, ending).unlink(missing_ok=True)


def refuse_existing(campaign: str | Path) -> None:
    """Raise an error if the file already exists, before the pool is read."""
    file = address(campaign).file
    if file is not None and os.path.lexists(file):
        raise _already_exists(file)


def _create_at(where: Address, settings: str, n_arms: int) -> None:
    store = Store(where)
    try:
        store.create(settings, n_arms)
    finally:
        store.close()


def _put_in_place(unfinished: Path, file: Path) -> None:
    """Link the file to its final name, which fails if that exists; without links, reserve the name first."""
    try:
        try:
            os.link(unfinished, file)
        except FileExistsError:
            raise
        except OSError:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.replace(unfinished, file)
    except FileExistsError:
        raise _already_exists(file) from None
    except OSError as problem:
        raise DatabaseError(f"{file}: {problem.strerror}") from None


def _already_exists(file: Path) -> CampaignExistsError:
    return CampaignExistsError(f"{file}: the file already exists, and a campaign never overwrites a file")


def _beside(file: Path, ending: str) -> Path:
    return file.with_name(f"{file.name}{ending}")
