"""Requests to the service, repeated while it cannot be reached, and its problems as errors of this package.

A request that changes something is repeated only if that does no harm: an ask carries a key, and a result of
a ticket is recorded once. Other requests are repeated only if no connection could be made.
"""

from __future__ import annotations

import os
import random
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from manyarms import errors
from manyarms.errors import InvalidParameterError, MissingExtraError, UnreachableServiceError

try:
    import httpx
except ImportError:
    raise MissingExtraError("httpx", "client", "a campaign at a URL") from None

TOKEN, TOKEN_FILE = "MANYARMS_TOKEN", "MANYARMS_TOKEN_FILE"
PATIENCE = 30.0  # seconds for which an unreachable service is tried again
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_READ_SECONDS = 900.0  # a ranking of a large pool may take minutes
_BUSY = (502, 503, 504)


def split_url(url: str) -> tuple[str, str]:
    """The address of the service and the name of the campaign: https://host/screen."""
    parts = urlsplit(url)
    above, _, name = parts.path.rstrip("/").rpartition("/")
    above = above.removesuffix("/campaigns")
    web = parts.scheme in ("http", "https")
    if not (web and parts.hostname and name) or parts.query or parts.fragment or parts.username is not None:
        raise InvalidParameterError("the address", url, "of the form https://host/campaign")
    return f"{parts.scheme}://{parts.netloc}{above}", unquote(name)


def given_token(token: str | None) -> str | None:
    """The token, by default that of the environment or of the file that the environment names."""
    if token is not None:
        return token
    file = os.environ.get(TOKEN_FILE)
    if file is None:
        return os.environ.get(TOKEN)
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as problem:
        raise InvalidParameterError(TOKEN_FILE, file, f"a readable file ({problem.strerror})") from None


class Connection:
    """The connection to one campaign of a service; several threads may use it."""

    def __init__(
        self, url: str, token: str | None = None, *, patience: float = PATIENCE, ca: str | Path | None = None
    ) -> None:
        """`ca` is a file with the certificates to trust, by default those of the system."""
        self.base, self.name = split_url(url)
        self.patience, token = patience, given_token(token)
        if token is not None and not (token.isascii() and token.isprintable()):
            raise InvalidParameterError("the token", "a text with other characters", "printable ASCII")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            trusted = ssl.create_default_context(cafile=None if ca is None else str(ca))
        except (OSError, ssl.SSLError) as problem:
            raise InvalidParameterError("ca", str(ca), f"a file with certificates ({problem})") from None
        self._http = httpx.Client(
            base_url=self.base,
            headers=headers,
            verify=trusted,
            timeout=httpx.Timeout(_READ_SECONDS, connect=10.0, write=120.0),
            limits=httpx.Limits(max_connections=100, max_keepalive_connections=20),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def path(self, *parts: str) -> str:
        """The path of something in this campaign."""
        return "/".join(["/campaigns", *(quote(part, safe="") for part in (self.name, *parts))])

    def send(self, method: str, path: str, *, repeat: bool, **request: Any) -> httpx.Response:
        """The answer to a request; a problem is raised as its error.

        With `repeat`, the request is sent again after any failure of the connection or of the service.
        """
        started, pause = time.monotonic(), _SHORTEST_PAUSE
        while True:
            try:
                answer = self._http.request(method, path, **request)
                if answer.status_code not in _BUSY:
                    return _checked(answer)
                problem: Exception = error_of(answer)
                again = repeat
            except httpx.InvalidURL as wrong:
                raise InvalidParameterError("the address", self.base, f"valid ({wrong})") from None
            except httpx.TransportError as failed:
                problem = UnreachableServiceError(f"{self.base}: {str(failed) or type(failed).__name__}")
                hopeless = isinstance(failed, httpx.UnsupportedProtocol) or "CERTIFICATE" in str(failed)
                again = (repeat or isinstance(failed, httpx.ConnectError)) and not hopeless
            if not again or time.monotonic() - started + pause > self.patience:
                raise problem
            time.sleep(pause * random.uniform(0.5, 1.0))  # not all workers at the same moment
            pause = min(2 * pause, _LONGEST_PAUSE)

    def get(self, *parts: str, **query: Any) -> Any:
        """What a path of this campaign holds."""
        wanted = {name: value for name, value in query.items() if value is not None}
        return self.send("GET", self.path(*parts), repeat=True, params=wanted).json()

    def post(self, *parts: str, body: Any, repeat: bool = False) -> Any:
        """The answer to a request that changes something."""
        return self.send("POST", self.path(*parts), repeat=repeat, json=body).json()


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.status_code >= 400:
        raise error_of(answer)
    if answer.is_redirect:
        raise errors.ServiceError(f"{answer.url}: not a service of manyarms: it redirects elsewhere")
    return answer


def error_of(answer: httpx.Response) -> errors.ManyarmsError:
    """The error that the service has raised, of the same class."""
    try:
        found = answer.json()
        detail, kind = str(found["detail"]), str(found["kind"])
    except (ValueError, KeyError, TypeError):
        return errors.ServiceError(f"{answer.url}: not an answer of manyarms: status {answer.status_code}")
    cls = getattr(errors, kind, None)
    if not (isinstance(cls, type) and issubclass(cls, errors.ManyarmsError)):
        cls = errors.ServiceError
    problem: errors.ManyarmsError = cls.__new__(cls)  # some classes build their message from other arguments
    Exception.__init__(problem, detail)
    return problem
