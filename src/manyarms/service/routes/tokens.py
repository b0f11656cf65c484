"""Tokens: making, listing and revoking them, for those who may do everything."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi import Path as PathParameter
from pydantic import Field

from manyarms.errors import TokenError
from manyarms.service.access import Caller, gate_of, require_everywhere
from manyarms.service.problems import described
from manyarms.service.schemas import Body, Name, Plain
from manyarms.service.tokens.values import ADMIN, EVERY_CAMPAIGN, SCOPES

router = APIRouter(tags=["tokens"], responses=described(401, 403, 413, 422, 503))
Administrator = Annotated[Caller, Depends(require_everywhere(ADMIN))]


class TokenBody(Body):
    """What a new token is for."""

    name: Name = Field(description="Who or what will use it.")
    campaign: Name = Field(EVERY_CAMPAIGN, description="The only campaign that it is for, or *.")
    scopes: list[str] = Field(min_length=1, max_length=len(SCOPES), examples=[["read", "ask", "tell"]])
    days: float | None = Field(None, gt=0, le=36_500, allow_inf_nan=False, description="Until it expires.")


@router.post("/tokens", status_code=201, response_model=Plain)
def make(request: Request, body: TokenBody, _caller: Administrator) -> Plain:
    """Make a token. Its text is in this answer only.

    The first token must allow everything, because nobody can use the service without a token afterwards.
    """
    gate = gate_of(request)
    was_open = gate.is_open()
    if was_open and (ADMIN not in body.scopes or body.campaign != EVERY_CAMPAIGN):
        raise TokenError(
            "the first token must allow everything (admin) in every campaign, because afterwards everyone "
            "needs a token"
        )
    until = None if body.days is None else time.time() + 86_400 * body.days
    token, text = gate.tokens.make(body.name, body.campaign, body.scopes, until)
    return {"id": token.id, "token": text, "scopes": sorted(token.scopes), "campaign": token.campaign,
            "was_open": was_open}  # fmt: skip


@router.get("/tokens", response_model=Plain)
def listed(request: Request, _caller: Administrator) -> Plain:
    """The tokens, without their secrets."""
    found = gate_of(request).tokens.all()
    return {
        "tokens": [
            {"id": each.id, "name": each.name, "campaign": each.campaign, "scopes": sorted(each.scopes),
             "created_at": each.created_at, "is_valid": each.is_valid(time.time())}
            for each in found
        ]
    }  # fmt: skip


@router.post("/tokens/{id}/revoke", response_model=Plain)
def revoke(
    request: Request, id: Annotated[str, PathParameter(pattern="^[0-9a-f]{12}$")], _caller: Administrator
) -> Plain:
    """Revoke a token; it is refused at once."""
    return {"revoked": gate_of(request).tokens.revoke(id).id}
