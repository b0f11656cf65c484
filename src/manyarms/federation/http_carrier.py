"""The carrier between an agent and the mailbox of `manyarms serve`: one POST per packet.

Over HTTPS the server's certificate is checked, against the authority in the invitation if it has one. If the
service asks for client certificates (mutual TLS), give the file of one. Nothing but the standard library is
needed on the agent's side.
"""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from manyarms.errors import (
    CorruptPacketError,
    RefusedPacketError,
    ReplayedPacketError,
    RevokedKeyError,
    RunFileError,
    UnknownKeyError,
    UnreachableError,
)
from manyarms.federation.invitation import Invitation

PACKET_TYPE = "application/vnd.manyarms.packet"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_REFUSALS: dict[str, type[RefusedPacketError]] = {
    kind.__name__: kind
    for kind in (CorruptPacketError, UnknownKeyError, RevokedKeyError, ReplayedPacketError)
}


class HttpCarrier:
    """A connection to the mailbox, opened when it is needed and opened again after an error."""

    def __init__(
        self,
        invitation: Invitation,
        certificate: Path | None = None,
        key: Path | None = None,
        timeout: float = 60.0,
    ) -> None:
        parts = urlsplit(invitation.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RunFileError(
                f"the invitation has no usable address of a server ({invitation.url!r}). Ask for one that "
                "was made with --url, or use --offline if another program carries the packets"
            )
        if parts.scheme == "http" and parts.hostname not in _LOCAL:
            raise RunFileError(f"{invitation.url}: only a mailbox on this machine may be reached without TLS")
        self._url, self._host, self._port, self._timeout = invitation.url, parts.hostname, parts.port, timeout
        self._path = f"{parts.path.rstrip('/')}/agents/{invitation.description.run}/packets"
        self._context = _context(invitation, certificate, key) if parts.scheme == "https" else None
        self._connection: http.client.HTTPConnection | None = None

    def exchange(self, packet: bytes) -> bytes:
        """Send a packet and return the answer; raises `UnreachableError`, or the hub's refusal."""
        headers = {"Content-Type": PACKET_TYPE}
        try:
            connection = self._opened()
            connection.request("POST", self._path, packet, headers)
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as problem:
            self.close()
            raise UnreachableError(
                f"the server of the run at {self._url} cannot be reached ({_why(problem)}). Nothing is lost: "
                "try again later"
            ) from problem
        if response.status != http.client.OK:
            raise _refusal(response.status, body)
        return body

    def _opened(self) -> http.client.HTTPConnection:
        if self._connection is None:
            if self._context is None:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
            else:
                self._connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=self._timeout, context=self._context
                )
        return self._connection

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _context(invitation: Invitation, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=invitation.certificate or None)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as problem:
        raise RunFileError(f"the certificate cannot be used: {problem}") from None
    return context


def _why(problem: Exception) -> str:
    """The reason in words, without the number of the error."""
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__


def _refusal(status: int, body: bytes) -> Exception:
    """The error that the hub has raised, or that it cannot be reached for now."""
    try:
        told = json.loads(body)
        kind, detail = str(told["kind"]), str(told["detail"])
    except (ValueError, KeyError, TypeError):
        kind, detail = "", ""
    if kind in _REFUSALS:
        return _REFUSALS[kind](detail)
    return UnreachableError(f"the server of the run answered with status {status}. {detail}".rstrip())
