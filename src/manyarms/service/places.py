"""Where the served campaigns are kept: the files of a folder, or the campaigns of a PostgreSQL database.

A name in a request is looked up among the campaigns that exist. It never becomes part of a path.
"""

from __future__ import annotations

import os
import sqlite3
from abc import ABC, abstractmethod
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import select

from manyarms.campaigns.store.database import Database, address
from manyarms.campaigns.store.schema import CAMPAIGNS, VERSIONS
from manyarms.campaigns.text import masked
from manyarms.errors import CampaignExistsError, DatabaseError, InvalidRequestError, NoCampaignError, shown
from manyarms.service.tokens.store import TOKENS_FILE, TokenStore, in_folder

ENDINGS = (".db", ".sqlite", ".sqlite3")
_HEADER = b"SQLite format 3\0"
_BUSY_SECONDS = 1.0  # how long the look at a file waits for those who have locked it
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Place(ABC):
    """The campaigns that a service serves, and its tokens."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the campaigns, in order."""

    @abstractmethod
    def where(self, name: str) -> str:
        """The address of a campaign, as `Campaign` takes it; an unknown name is an error."""

    @abstractmethod
    def new_place(self, name: str) -> str:
        """The address of a campaign that does not exist yet; an existing one is an error."""

    @property
    @abstractmethod
    def tables(self) -> Path:
        """The folder of uploaded tables of candidates."""

    @abstractmethod
    def tokens(self) -> TokenStore:
        """The tokens of this place."""

    def close(self) -> None:  # noqa: B027
        """Close the connections of this place; a later call opens them again."""


class Folder(Place):
    """The campaign files of a folder, under the names of the files without their ending."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_file():
            raise DatabaseError(f"{path}: not a folder; name the folder that holds it: {path.parent}")
        if not path.is_dir():
            raise DatabaseError(f"{path}: there is no such folder")

    def __str__(self) -> str:
        return str(self.path)

    def names(self) -> list[str]:
        """The names of the files that hold a campaign."""
        return sorted(self._files())

    def where(self, name: str) -> str:
        """The path of a campaign file."""
        found = self._files().get(name)
        if found is None:
            raise _unknown(name)
        return str(found)

    def _files(self) -> dict[str, Path]:
        try:
            files = sorted(self.path.iterdir())
        except OSError as problem:
            raise DatabaseError(f"{self.path}: {problem.strerror}") from None
        found: dict[str, Path] = {}
        for file in files:
            readable = file.name.isprintable()  # a name that is no text cannot be part of an answer
            if file.suffix in ENDINGS and readable and file.name != TOKENS_FILE and _is_campaign(file):
                found.setdefault(file.stem, file)
        return found

    def new_place(self, name: str) -> str:
        """The path of a new campaign file."""
        if name in self._files():
            raise _exists(name)
        return str(self.path / f"{name}.db")

    @property
    def tables(self) -> Path:
        """The same folder."""
        return self.path

    def tokens(self) -> TokenStore:
        """The tokens in a file of the folder."""
        return in_folder(self.path)


class PostgresDatabase(Place):
    """The campaigns of one PostgreSQL database, under their names there."""

    def __init__(self, url: str, tables: Path | None = None) -> None:
        self.url, self._tables = url.partition("#")[0], tables
        if tables is not None and not tables.is_dir():
            raise DatabaseError(f"{tables}: there is no such folder")
        self._database = Database(address(self.url))

    def __str__(self) -> str:
        return masked(self.url)

    def names(self) -> list[str]:
        """The names of the campaigns; one with a slash cannot be part of an address and is left out."""
        with self._database.reading() as connection:
            names = connection.execute(select(CAMPAIGNS.c.name).order_by(CAMPAIGNS.c.name)).scalars().all()
        return [name for name in names if "/" not in name]

    def where(self, name: str) -> str:
        """The address of a campaign."""
        if name not in self.names():
            raise _unknown(name)
        return f"{self.url}#{name}"

    def new_place(self, name: str) -> str:
        """The address of a new campaign."""
        if name in self.names():
            raise _exists(name)
        return f"{self.url}#{name}"

    @property
    def tables(self) -> Path:
        """The folder that was given for them."""
        if self._tables is None:
            raise InvalidRequestError(
                "the service has no folder for tables: see --tables of `manyarms serve`"
            )
        return self._tables

    def tokens(self) -> TokenStore:
        """The tokens in tables of the same database."""
        return TokenStore(address(self.url).url, masked(self.url))

    def close(self) -> None:
        """Close the connection that looks up names."""
        self._database.close()


def place(text: str, tables: Path | None = None) -> Place:
    """The folder or the database that the command line names, with a folder for uploaded tables."""
    if text.startswith(("postgresql:", "postgres:", "postgresql+")):
        return PostgresDatabase(text, tables)
    return Folder(Path(text))


def _unknown(name: str) -> NoCampaignError:
    return NoCampaignError(f"{shown(name)}: the service has no campaign of this name")


def _exists(name: str) -> CampaignExistsError:
    return CampaignExistsError(f"{shown(name)}: the service already has a campaign of this name")


def _is_campaign(file: Path) -> bool:
    """Whether the file is a database with the tables of a campaign; it is only read.

    A database that somebody has locked for a moment is taken for one: the request then waits for it, or says
    that it is locked.
    """
    try:
        with open(file, "rb") as stream:
            if stream.read(len(_HEADER)) != _HEADER:
                return False
        where = f"file:{quote(os.fsencode(file.absolute()))}?mode=ro"
        connection = sqlite3.connect(where, uri=True, timeout=_BUSY_SECONDS)
        try:
            known = "SELECT 1 FROM sqlite_master WHERE name = ?"
            return connection.execute(known, (VERSIONS.name,)).fetchone() is not None
        finally:
            connection.close()
    except sqlite3.OperationalError as problem:
        return problem.sqlite_errorcode & 0xFF in _LOCKED
    except (OSError, sqlite3.Error):
        return False
