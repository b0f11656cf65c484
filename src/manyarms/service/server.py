"""Start the service: where it may listen, and how it stops.

It listens on this machine only, unless it has a certificate (TLS) and at least one token. Behind a proxy on
the same machine, which provides TLS, the names under which the proxy is reached must be given.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from manyarms.errors import UnsafeAddressError
from manyarms.service.app import LOOPBACK_NAMES, create_app
from manyarms.service.connections import protocol
from manyarms.service.limits import Limits
from manyarms.service.places import Place

_GRACE_SECONDS = 5


@dataclass(frozen=True)
class Listening:
    """Where the service listens."""

    host: str = "127.0.0.1"
    port: int = 8765  # 0: any free port
    certificate: Path | None = None
    key: Path | None = None
    names: Sequence[str] = ()  # further names under which it is reached
    client_authority: Path | None = None  # with it, clients need a certificate that it has signed

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def scheme(self) -> str:
        """The scheme of its address."""
        return "http" if self.certificate is None else "https"


def check_listening(where: Listening, has_tokens: bool) -> None:
    """Refuse an address where others could use the service without a token, or read the tokens."""
    if (where.certificate is None) != (where.key is None):
        raise UnsafeAddressError("a certificate and its key are needed: --certificate and --key")
    if where.client_authority is not None and where.certificate is None:
        raise UnsafeAddressError("client certificates need TLS: --certificate and --key")
    for file in (where.certificate, where.key, where.client_authority):
        if file is not None and not file.is_file():
            raise UnsafeAddressError(f"{file}: there is no such file")
    if not where.is_local and where.certificate is None:
        raise UnsafeAddressError(
            f"{where.host} can be reached from other machines, where tokens and results could be read on the "
            "way: give --certificate and --key, or listen at 127.0.0.1 behind a proxy that provides TLS"
        )
    if not has_tokens and (not where.is_local or where.names):
        raise UnsafeAddressError(
            "the service can be reached from other machines, but there is no token: make one with "
            "`manyarms token new` first"
        )


def check_certificates(where: Listening) -> None:
    """Refuse certificates that TLS cannot use, before anything is listened at or announced."""
    if where.certificate is None:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(where.certificate, where.key, password=_no_password)
    except (OSError, ValueError) as problem:  # ssl.SSLError is an OSError
        raise UnsafeAddressError(
            f"{where.certificate} and {where.key} are not a certificate in PEM format and its key without a "
            f"password ({problem})"
        ) from None
    if where.client_authority is None:
        return
    try:
        context.load_verify_locations(where.client_authority)
    except (OSError, ValueError) as problem:
        raise UnsafeAddressError(
            f"{where.client_authority} holds no certificate in PEM format ({problem})"
        ) from None


def _no_password() -> str:
    raise ValueError("the key has a password")


class _Server(uvicorn.Server):
    """Ends the event streams first, which would otherwise hold up the end."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._application = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._application.state.watch.close()
        await super().shutdown(sockets)


def serve(
    place: Place,
    where: Listening,
    *,
    limits: Limits | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the campaigns of a place until a signal ends it. `on_ready` is called with the address."""
    limits = limits or Limits()
    with contextlib.closing(place.tokens()) as tokens:
        check_listening(where, tokens.exist())
    check_certificates(where)
    hosts = {*LOOPBACK_NAMES, where.host, *where.names} if where.is_local else {where.host, *where.names}
    if where.host in ("0.0.0.0", "::"):
        hosts |= {*LOOPBACK_NAMES, socket.gethostname(), socket.getfqdn()}
    may_be_open = where.is_local and not where.names
    app = create_app(place, limits=limits, hosts=hosts, may_be_open=may_be_open)
    listener = _bound(where)
    options: dict[str, Any] = {
        "http": protocol(limits.head_seconds), "ws": "none", "log_level": "warning", "access_log": False,
        "server_header": False, "proxy_headers": where.is_local and bool(where.names),
        "limit_concurrency": limits.connections, "timeout_keep_alive": 30,
        "timeout_graceful_shutdown": _GRACE_SECONDS,
    }  # fmt: skip
    if where.certificate is not None:
        options |= {"ssl_certfile": str(where.certificate), "ssl_keyfile": str(where.key)}
    if where.client_authority is not None:  # mutual TLS
        options |= {"ssl_ca_certs": str(where.client_authority), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    server = _Server(uvicorn.Config(app, **options), app)
    name = f"[{where.host}]" if ":" in where.host else where.host
    if on_ready is not None:
        on_ready(f"{where.scheme}://{name}:{listener.getsockname()[1]}")
    with listener, contextlib.suppress(KeyboardInterrupt):
        server.run([listener])


def _bound(where: Listening) -> socket.socket:
    """A socket that listens; connections that arrive before the service is ready wait."""
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((where.host, where.port))
        listener.listen(128)
    except OSError as problem:
        listener.close()
        raise UnsafeAddressError(
            f"cannot listen at {where.host}, port {where.port}: {problem.strerror or problem}"
        ) from None
    return listener
