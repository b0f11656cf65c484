"""What the routes share: the campaign of a request, for callers with the scope that the route needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request

from manyarms.service.access import Caller, CampaignName, require
from manyarms.service.served import Registry, ServedCampaign
from manyarms.service.tokens.values import ADMIN, ASK, READ, TELL


def registry_of(request: Request) -> Registry:
    """The campaigns of the application."""
    registry: Registry = request.app.state.registry
    return registry


def served(*scopes: str) -> Callable[..., ServedCampaign]:
    """A dependency: the campaign in the path, for callers with one of these scopes.

    The scope is checked before the campaign is looked for, so nobody learns which names exist.
    """

    allowed: Caller = Depends(require(*scopes))  # not in the annotation, which cannot refer to it

    def found(request: Request, campaign: CampaignName, _caller: Caller = allowed) -> ServedCampaign:
        return registry_of(request).find(campaign)

    return found


ToUse = Annotated[ServedCampaign, Depends(served(READ, ASK, TELL))]
ToRead = Annotated[ServedCampaign, Depends(served(READ))]
ToAsk = Annotated[ServedCampaign, Depends(served(ASK))]
ToTell = Annotated[ServedCampaign, Depends(served(TELL))]
ToAdminister = Annotated[ServedCampaign, Depends(served(ADMIN))]
