"""What is refused before a request reaches its route: other sites, foreign hosts, large and slow bodies.

* `Host` must be a name under which the service is reached. Otherwise a page of another site could point a
  name of its own at this machine and read the answers (DNS rebinding).
* A request that changes something must not come from a page of another site. Browsers say where a request
  comes from in `Sec-Fetch-Site` and `Origin`; programs send neither.
* A body is read up to a limit, and it must arrive at a minimal speed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from manyarms.errors import CrossSiteError, InvalidRequestError, ManyarmsError, TooLargeError, TooSlowError
from manyarms.service.problems import BodyError, answer

_SAFE = ("GET", "HEAD", "OPTIONS")
_HEADERS = {  # on every answer, unless the route has set them
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Limits:
    """The limits of a service."""

    json_bytes: int = 8 * 2**20  # the largest body of other requests
    file_bytes: int = 64 * 2**20  # the largest uploaded results file
    table_bytes: int = 2 * 2**30  # the largest uploaded table of candidates, which is written to a file
    body_seconds: float = 20.0  # how long a body may take, besides one second per `slowest_bytes`
    slowest_bytes: int = 50_000
    head_seconds: float = 20.0  # how long a connection may take to send the head of a request
    ask_seconds: float = 20.0  # how long an ask is waited for before it becomes an operation
    streams: int = 200  # open event streams
    connections: int = 1_000


class Guard:
    """The middleware of these rules."""

    def __init__(self, app: ASGIApp, limits: Limits, hosts: Collection[str]) -> None:
        self.app, self.limits, self.hosts = app, limits, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on with a limited body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, send = Headers(scope=scope), _with_headers(send)
        most = self._most(scope["method"], scope["path"])
        problem = self._problem(scope["method"], scope.get("scheme", "http"), headers, most)
        if problem is None:
            await self.app(scope, self._limited(most, receive), send)
        else:
            told = answer(problem)
            told.headers["Connection"] = "close"
            await told(scope, receive, send)

    def _problem(self, method: str, scheme: str, headers: Headers, most: int) -> ManyarmsError | None:
        host = headers.get("host", "")
        if _host_name(host) not in self.hosts:
            return InvalidRequestError(
                "the service is not reached under this name: see --allow-host of `manyarms serve`"
            )
        if method not in _SAFE:
            site, origin = headers.get("sec-fetch-site"), headers.get("origin")
            other = site is not None and site not in ("same-origin", "none")
            if other or (origin is not None and origin.lower() != f"{scheme}://{host.lower()}"):
                return CrossSiteError("a page of another site must not change anything here")
        length = headers.get("content-length")
        if length is not None and (not length.isdecimal() or int(length[:20]) > most):
            return TooLargeError(f"the body has {length[:20]} bytes; the limit is {most}")
        return None

    def _most(self, method: str, path: str) -> int:
        """The largest body. Those of files are read by their route, after it has checked the token."""
        if path.endswith("/results/file"):
            return self.limits.file_bytes
        if path.endswith("/candidates") or (method == "PUT" and path.count("/") == 2):
            return self.limits.table_bytes
        return self.limits.json_bytes

    def _limited(self, most: int, receive: Receive) -> Receive:
        waited, received, complete = 0.0, 0, False

        async def limited() -> Message:
            nonlocal waited, received, complete
            if complete:  # waiting for the end of the connection, which may take any time
                return await receive()
            allowed, began = self.limits.body_seconds + received / self.limits.slowest_bytes, time.monotonic()
            try:  # only the time spent waiting for the client counts
                message = await asyncio.wait_for(receive(), max(0.01, allowed - waited))
            except TimeoutError:
                raise BodyError(TooSlowError("the body of the request did not arrive in time")) from None
            waited += time.monotonic() - began
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                complete = not message.get("more_body", False)
                if received > most:
                    raise BodyError(TooLargeError(f"the body has more than {most} bytes"))
            return message

        return limited


def _host_name(host: str) -> str:
    """The host of a `Host` header, without its port; empty if it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        return "" if parts.username is not None or parts.path else (parts.hostname or "")
    except ValueError:
        return ""


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers: Any = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
