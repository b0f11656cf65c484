"""A new campaign's place: a file appears whole and only where there was none, whoever else makes one."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from sqlalchemy import URL

from manyarms.campaigns.store.database import Address, address
from manyarms.campaigns.store.store import Store
from manyarms.errors import CampaignExistsError, DatabaseError


def make(campaign: str | Path, settings: str, n_arms: int) -> None:
    """Write a new campaign down. What is there is never touched, and a failure leaves nothing."""
    where = address(campaign)
    if where.file is None:
        _written(where, settings, n_arms)
        return
    unfinished = where.file.with_name(f".{where.file.name}.{os.getpid()}.new")
    try:
        _written(
            replace(where, url=URL.create("sqlite", database=str(unfinished.absolute()))), settings, n_arms
        )
        if _beside(unfinished, "-wal").exists():
            raise DatabaseError(f"{where}: the new campaign could not be written in full")
        _put_in_place(unfinished, where.file)
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            _beside(unfinished, ending).unlink(missing_ok=True)


def refuse_existing(campaign: str | Path) -> None:
    """Say at once that a file is in the way, before a long look at the pool."""
    file = address(campaign).file
    if file is not None and os.path.lexists(file):
        raise _there_already(file)


def _written(where: Address, settings: str, n_arms: int) -> None:
    store = Store(where)
    try:
        store.create(settings, n_arms)
    finally:
        store.close()


def _put_in_place(unfinished: Path, file: Path) -> None:
    """A link is made only where nothing is, in one step; on a disk without links the name is taken first."""
    try:
        try:
            os.link(unfinished, file)
        except FileExistsError:
            raise
        except OSError:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.replace(unfinished, file)
    except FileExistsError:
        raise _there_already(file) from None
    except OSError as problem:
        raise DatabaseError(f"{file}: {problem.strerror}") from None


def _there_already(file: Path) -> CampaignExistsError:
    return CampaignExistsError(f"{file}: there is a file here already; a campaign never replaces one")


def _beside(file: Path, ending: str) -> Path:
    return file.with_name(f"{file.name}{ending}")
