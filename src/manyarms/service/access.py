"""Who makes a request, and what they may do: the dependencies of every route.

A program sends `Authorization: Bearer TOKEN`. A browser that has logged in sends its session cookie, and with
every request that changes something the CSRF token, as a header or as a field of the form. If no token was
ever made and the service listens on this machine only, everyone on it may do everything.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from manyarms.errors import CrossSiteError, NotAllowedError, NotAuthenticatedError, TooManyAttemptsError
from manyarms.service.tokens import sessions
from manyarms.service.tokens.attempts import Attempts
from manyarms.service.tokens.store import TokenStore
from manyarms.service.tokens.values import Token

_bearer = HTTPBearer(auto_error=False, description="A token of `manyarms token new`.")
CampaignName = Annotated[
    str,
    Path(alias="campaign", description="Name of the campaign.", max_length=200, examples=["screen"]),
]


@dataclass(frozen=True)
class Caller:
    """Who makes a request. Without a token, it is anyone on this machine."""

    token: Token | None
    session: str | None = None  # the cookie of a browser
    csrf: str = ""  # what the forms of a page must carry

    @property
    def name(self) -> str:
        """The name for the record of corrections."""
        return "local user" if self.token is None else self.token.name

    @property
    def id(self) -> str:
        """What separates the keys of this caller from those of others."""
        return "" if self.token is None else self.token.id

    def allows(self, scope: str, campaign: str | None) -> bool:
        """Whether the caller may do this; without a campaign, in all of them."""
        return self.token is None or self.token.allows(scope, campaign)

    def sees(self, campaign: str) -> bool:
        """Whether lists show this campaign to the caller."""
        return self.token is None or self.token.sees(campaign)


class Gate:
    """Decides who makes a request."""

    def __init__(self, tokens: TokenStore, may_be_open: bool) -> None:
        self.tokens, self.attempts = tokens, Attempts()
        self._may_be_open = may_be_open

    def is_open(self) -> bool:
        """Whether no token is needed: none was ever made, and only this machine can reach the service."""
        if self._may_be_open and self.tokens.exist():
            self._may_be_open = False
        return self._may_be_open

    def by_bearer(self, text: str, address: str) -> Caller:
        """The caller with this token."""
        token = self.tokens.by_text(text)
        if token is None:
            self.refuse(address, "the token is wrong, expired or revoked")
        return Caller(token)

    def by_session(self, cookie: str) -> Caller | None:
        """The caller with this cookie; None if the session has ended."""
        key = self.tokens.session_key
        id = sessions.token_of(key, cookie)
        token = None if id is None else self.tokens.by_id(id)
        return None if token is None else Caller(token, cookie, sessions.csrf_token(key, cookie))

    def refuse(self, address: str, why: str) -> None:
        """Count a wrong attempt, and raise its error."""
        wait = self.attempts.count(address)
        if wait is None:
            raise NotAuthenticatedError(why)
        problem = TooManyAttemptsError(f"too many wrong attempts: wait {wait} seconds")
        problem.retry_after = wait  # type: ignore[attr-defined]
        raise problem


def gate_of(request: Request) -> Gate:
    """The gate of the application."""
    gate: Gate = request.app.state.gate
    return gate


async def caller(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Caller:
    """Who makes this request; raises an error if that is unknown."""
    gate, address = gate_of(request), request.client.host if request.client else ""
    if given is not None:
        return await run_in_threadpool(gate.by_bearer, given.credentials, address)
    cookie = request.cookies.get(sessions.COOKIE)
    found = None if cookie is None else await run_in_threadpool(gate.by_session, cookie)
    if found is None:
        if await run_in_threadpool(gate.is_open):
            return Caller(None)
        raise NotAuthenticatedError("a token is needed: send the header 'Authorization: Bearer TOKEN'")
    if request.method not in ("GET", "HEAD"):
        await _check_csrf(request, gate, found)
    return found


async def _check_csrf(request: Request, gate: Gate, found: Caller) -> None:
    sent = request.headers.get(sessions.CSRF_HEADER)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent is None and kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        sent = str((await request.form()).get(sessions.CSRF_FIELD, ""))
    if not sessions.csrf_matches(gate.tokens.session_key, found.session or "", sent or ""):
        raise CrossSiteError("the request does not carry the CSRF token of its session")


CurrentCaller = Annotated[Caller, Depends(caller)]


def require(*scopes: str) -> Callable[..., Coroutine[Any, Any, Caller]]:
    """A dependency: the caller, who must have one of these scopes for the campaign in the path."""

    async def allowed(found: CurrentCaller, campaign: CampaignName) -> Caller:
        if not any(found.allows(scope, campaign) for scope in scopes):
            wanted = " or ".join(map(repr, scopes))
            raise NotAllowedError(f"the token does not have the scope {wanted} for this campaign")
        return found

    return allowed


def require_everywhere(scope: str) -> Callable[..., Coroutine[Any, Any, Caller]]:
    """A dependency: the caller, who must have this scope for every campaign."""

    async def allowed(found: CurrentCaller) -> Caller:
        if not found.allows(scope, None):
            raise NotAllowedError(f"the token does not have the scope {scope!r} for every campaign")
        return found

    return allowed
