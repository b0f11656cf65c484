"""The tokens of a service, in a file of the folder that it serves or in its database.

Only hashes of secrets are stored. The key that signs the sessions of browsers is stored here, too, so that a
restart logs nobody out.
"""

from __future__ import annotations

import hmac
import os
import secrets
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Float,
    MetaData,
    Row,
    String,
    Table,
    Text,
    create_engine,
    event,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.schema import CreateTable

from manyarms.campaigns.store.database import BUSY_SECONDS, message_line
from manyarms.campaigns.store.store import now_text
from manyarms.errors import DatabaseError, TokenError, shown
from manyarms.service.tokens.values import EVERY_CAMPAIGN, SCOPES, Token, new_text, parsed

METADATA = MetaData()
TOKENS = Table(
    "manyarms_tokens",
    METADATA,
    Column("id", String(12), primary_key=True),
    Column("name", Text, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("campaign", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("expires_at", Float),
    Column("revoked_at", String(32)),
)
KEYS = Table(  # one row: the key that signs sessions
    "manyarms_session_key",
    METADATA,
    Column("id", String(4), primary_key=True),
    Column("key", String(64), nullable=False),
)
_LONGEST_NAME = 100
_SCHEMA_LOCK = 0x6D617473  # key of PostgreSQL's advisory lock during the creation of tables: "mats"


class TokenStore:
    """Tokens, read at every request: a revoked one is refused at once, by every server."""

    def __init__(self, url: URL, name: str) -> None:
        self._name, self._lock, self._ready = name, threading.Lock(), False
        options = {} if url.drivername != "sqlite" else {"connect_args": {"timeout": BUSY_SECONDS}}
        self._url = url
        self._engine = create_engine(url, pool_pre_ping=url.drivername != "sqlite", **options)
        if url.drivername == "sqlite":
            event.listen(self._engine, "connect", _prepare_sqlite)
        self._key: bytes | None = None

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def make(
        self, name: str, campaign: str, scopes: Collection[str], expires_at: float | None = None
    ) -> tuple[Token, str]:
        """Make a token. Its text is returned only here and cannot be shown again."""
        unknown = sorted(set(scopes) - set(SCOPES))
        if unknown or not scopes:
            raise TokenError(f"scopes are {', '.join(SCOPES)}; got {shown(unknown or '')}")
        if not 0 < len(name.strip()) <= _LONGEST_NAME or not name.isprintable():
            raise TokenError(
                f"a token needs a name of at most {_LONGEST_NAME} printable characters, got {shown(name)}"
            )
        if not campaign:
            raise TokenError(f"a token is for one campaign or for all ({EVERY_CAMPAIGN!r}), got ''")
        id, whole, hash = new_text()
        token = Token(id, name.strip(), campaign, frozenset(scopes), now_text(), expires_at)
        row = {
            "id": id, "name": token.name, "hash": hash, "campaign": campaign, "created_at": token.created_at,
            "scopes": ",".join(sorted(scopes)), "expires_at": expires_at,
        }  # fmt: skip
        with self._transaction() as connection:
            connection.execute(insert(TOKENS).values(row))
        return token, whole

    def revoke(self, id: str) -> Token:
        """Revoke a token by its id; revoking it again changes nothing."""
        with self._transaction() as connection:
            found = connection.execute(select(TOKENS).where(TOKENS.c.id == id)).first()
            if found is None:
                raise TokenError(f"there is no token {shown(id)}; `manyarms token list` shows the ids")
            if found.revoked_at is None:
                connection.execute(update(TOKENS).where(TOKENS.c.id == id).values(revoked_at=now_text()))
        return _token(found)

    def all(self) -> list[Token]:
        """Every token, also those that were revoked."""
        with self._transaction() as connection:
            return [_token(row) for row in connection.execute(select(TOKENS).order_by(TOKENS.c.created_at))]

    def exist(self) -> bool:
        """Whether any token was ever made. Revoking the last one does not open the service to everyone."""
        with self._transaction() as connection:
            return bool(connection.execute(select(func.count()).select_from(TOKENS)).scalar_one())

    def by_text(self, text: str) -> Token | None:
        """The token with this text, if it is valid now."""
        found = parsed(text)
        if found is None:
            return None
        id, hash = found
        with self._transaction() as connection:
            row = connection.execute(select(TOKENS).where(TOKENS.c.id == id)).first()
        if row is None or not hmac.compare_digest(row.hash, hash):
            return None
        return self._valid(row)

    def by_id(self, id: str) -> Token | None:
        """The token of a session, if it is valid now."""
        with self._transaction() as connection:
            row = connection.execute(select(TOKENS).where(TOKENS.c.id == id)).first()
        return None if row is None else self._valid(row)

    @staticmethod
    def _valid(row: Row[tuple[object, ...]]) -> Token | None:
        token = _token(row)
        return token if token.is_valid(time.time()) else None

    @property
    def session_key(self) -> bytes:
        """The key that signs sessions; every server of the same place has the same one."""
        if self._key is None:
            wanted = select(KEYS.c.key).where(KEYS.c.id == "main")
            with self._transaction() as connection:
                found = connection.execute(wanted).scalar()
            if found is None:
                try:
                    with self._transaction() as connection:
                        connection.execute(insert(KEYS).values(id="main", key=secrets.token_hex(32)))
                except DatabaseError as problem:  # another server was faster
                    if not isinstance(problem.__cause__, IntegrityError):
                        raise
                with self._transaction() as connection:
                    found = connection.execute(wanted).scalar_one()
            self._key = bytes.fromhex(str(found))
        return self._key

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            self._prepare()
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as problem:
            raise DatabaseError(f"{self._name}: {message_line(problem)}") from problem

    def _prepare(self) -> None:
        """Create the tables at the first use, in a file that only its owner may read."""
        with self._lock:
            if self._ready:
                return
            if self._url.drivername == "sqlite":
                try:
                    os.close(os.open(str(self._url.database), os.O_CREAT | os.O_RDWR, 0o600))
                except OSError as problem:
                    raise DatabaseError(f"{self._name}: {problem.strerror}") from None
            with self._engine.begin() as connection:  # another server may do the same at this moment
                if self._url.drivername != "sqlite":
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})"))
                for table in METADATA.sorted_tables:
                    connection.execute(CreateTable(table, if_not_exists=True))
            self._ready = True


def _token(row: Row[tuple[object, ...]]) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        campaign=row.campaign,
        scopes=frozenset(row.scopes.split(",")),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )


def _prepare_sqlite(connection: object, _record: object) -> None:
    connection.execute("PRAGMA journal_mode = WAL")  # type: ignore[attr-defined]


def in_folder(folder: Path) -> TokenStore:
    """The tokens of a folder of campaigns."""
    file = folder.absolute() / TOKENS_FILE
    return TokenStore(URL.create("sqlite", database=str(file)), str(file))


TOKENS_FILE = "manyarms-service.sqlite"
