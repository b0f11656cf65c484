"""On which engine a campaign computes: in this process, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from manyarms.engines import Local
from manyarms.engines.base import Engine
from manyarms.errors import MissingExtraError, SchedulerLostError, SettingsError
from manyarms.support.column_room import WAYS

LOCAL = "local"
_SCHEMES = ("tcp", "tls", "ws", "wss")
_PATIENCE = "10s"  # for a scheduler to answer for the first time


@dataclass(frozen=True)
class EngineSettings:
    """Where the candidates are held and worked on; the batches do not depend on it.

    where: "local"; "memory", "disk" or "recompute", which are kinds of storage of `manyarms.engines.Local`;
        or the address of a scheduler, such as "tls://host:8786".
    ca, cert, key: the files of a connection with TLS; without them those of Dask's own configuration count.
    insecure: allow a connection without TLS to another machine.
    """

    where: str = LOCAL
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if self.where in (LOCAL, *WAYS):
            return
        parts = urlsplit(self.where)
        try:
            complete = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port is not None
        except ValueError:
            complete = False
        if not complete:
            raise SettingsError(
                f"engine must be 'local', 'memory', 'disk', 'recompute' or the address of a Dask scheduler "
                f"such as 'tls://host:8786', got {self.where!r}"
            )

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any] | None) -> EngineSettings:
        """The settings that `to_plain` wrote."""
        return cls(**plain) if plain else cls()

    def to_plain(self) -> dict[str, Any] | None:
        """The settings as stored with a campaign; None for the usual ones."""
        return None if self == EngineSettings() else asdict(self)

    @property
    def remote(self) -> bool:
        """Whether the engine is a cluster."""
        return "://" in self.where

    def elsewhere(self, where: str | None) -> EngineSettings:
        """The same with another address, if one is given."""
        return self if where is None else replace(self, where=where)

    def connect(self) -> ConnectedEngine:
        """The engine; it is an error if the scheduler does not answer."""
        if not self.remote:
            return ConnectedEngine(None if self.where == LOCAL else Local(storage=self.where))
        try:
            from distributed import Client
        except ImportError:
            raise MissingExtraError("distributed", "dask", "an engine on a Dask cluster") from None
        from manyarms.engines.dask import Dask
        from manyarms.engines.dask_cluster import check_safe

        check_safe(self.where, self.insecure)
        try:
            client: Any = Client(  # type: ignore[no-untyped-call]
                self.where, security=self._security(), timeout=_PATIENCE, set_as_default=False
            )
        except Exception as problem:
            raise SchedulerLostError(
                f"the Dask scheduler at {self.where} cannot be reached: {_reason(problem)}. Start it, name "
                "another one with --engine, or compute in this process with --engine local",
                self.where,
            ) from problem
        try:
            return ConnectedEngine(Dask(client, insecure=self.insecure), client)
        except BaseException:
            client.close()
            raise

    def _security(self) -> Any:
        from distributed.security import Security

        files = {"tls_ca_file": self.ca, "tls_client_cert": self.cert, "tls_client_key": self.key}
        given = {name: file for name, file in files.items() if file is not None}
        return Security(  # type: ignore[no-untyped-call]
            **given, require_encryption=urlsplit(self.where).scheme in ("tls", "wss")
        )


@dataclass(frozen=True)
class ConnectedEngine:
    """An engine that is ready, None for the usual one, and the connection to close at the end."""

    engine: Engine | None
    client: Any = None

    def close(self) -> None:
        """Close the connection."""
        if self.client is not None:
            self.client.close()


def _reason(problem: BaseException) -> str:
    text = str(problem).strip() or type(problem).__name__
    return text.splitlines()[0].rstrip(".")


def lost_scheduler(problem: SchedulerLostError) -> SchedulerLostError:
    """What a lost scheduler means for a campaign: nothing is lost, and the call can be repeated."""
    return SchedulerLostError(
        f"the Dask scheduler at {problem.address} does not answer. Nothing was handed out and no result is "
        "lost: start a scheduler and ask again, with --engine if its address has changed",
        problem.address,
    )
