"""Logging in with a browser: a token is exchanged for a session cookie."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from manyarms.service.access import CurrentCaller, gate_of
from manyarms.service.problems import described
from manyarms.service.schemas import Plain
from manyarms.service.tokens import sessions

router = APIRouter(tags=["session"])


@router.post("/login", status_code=303, response_class=Response, responses=described(401, 403, 413, 422, 429))
async def login(
    request: Request,
    token: Annotated[str, Form(max_length=200)],
    next: Annotated[str, Form(max_length=500)] = "/",
) -> Response:
    """Begin a session with a token; the answer leads to the page `next` of this service."""
    gate, address = gate_of(request), request.client.host if request.client else ""
    caller = await run_in_threadpool(gate.by_bearer, token.strip(), address)
    assert caller.token is not None
    inside = next.startswith("/") and not next.startswith("//") and next.isprintable() and "\\" not in next
    response = Response(status_code=303, headers={"Location": next if inside and next.isascii() else "/"})
    response.set_cookie(
        sessions.COOKIE,
        sessions.new_session(gate.tokens.session_key, caller.token.id),
        max_age=sessions.SESSION_SECONDS,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


@router.post("/logout", status_code=303, response_class=Response, responses=described(401, 403))
async def logout(caller: CurrentCaller) -> Response:
    """End the session."""
    response = Response(status_code=303, headers={"Location": "/"})
    response.delete_cookie(sessions.COOKIE, path="/", httponly=True, samesite="strict")
    return response


@router.get("/session", response_model=Plain, responses=described(401, 429))
async def session(caller: CurrentCaller) -> Plain:
    """Who the caller is, and the CSRF token that changes by a session must carry."""
    token = caller.token
    return {
        "name": caller.name,
        "campaign": "*" if token is None else token.campaign,
        "scopes": ["admin"] if token is None else sorted(token.scopes),
        "csrf": caller.csrf or None,
    }
