"""Excluding candidates, and allowing them again."""

from __future__ import annotations

from fastapi import APIRouter

from manyarms.service.access import CampaignName
from manyarms.service.common import ToAdminister, ToRead
from manyarms.service.problems import described
from manyarms.service.schemas import ExcludeBody, ExclusionsAnswer, ReadmitBody

router = APIRouter(tags=["candidates"], responses=described(401, 403, 404, 413, 422, 503))


@router.get("/campaigns/{campaign}/exclusions", response_model=ExclusionsAnswer)
def exclusions(served: ToRead, campaign: CampaignName) -> ExclusionsAnswer:
    """The candidates that are never asked for."""
    return ExclusionsAnswer(changed=0, excluded=served.rows.excluded())


@router.post("/campaigns/{campaign}/exclusions", response_model=ExclusionsAnswer)
def exclude(served: ToAdminister, campaign: CampaignName, body: ExcludeBody) -> ExclusionsAnswer:
    """Never ask for these candidates again; their results and open tickets stay valid."""
    with served.table() as found:
        changed = found.exclude(body.ids, body.note)
    served.changed()
    return ExclusionsAnswer(changed=changed, excluded=served.rows.excluded())


@router.post("/campaigns/{campaign}/readmissions", response_model=ExclusionsAnswer)
def readmit(served: ToAdminister, campaign: CampaignName, body: ReadmitBody) -> ExclusionsAnswer:
    """Allow these candidates again."""
    with served.table() as found:
        changed = found.readmit(body.ids)
    served.changed()
    return ExclusionsAnswer(changed=changed, excluded=served.rows.excluded())
