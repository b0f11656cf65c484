"""Looking at campaigns: the list, status, best candidates, history and batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from manyarms.campaigns import queries
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.export import shown_row
from manyarms.campaigns.local import LocalCampaign
from manyarms.campaigns.status import status as campaign_status
from manyarms.service.access import CampaignName, CurrentCaller
from manyarms.service.common import ToRead, ToUse, registry_of
from manyarms.service.problems import described
from manyarms.service.schemas import CampaignsAnswer, Id, Plain
from manyarms.service.served import ServedCampaign
from manyarms.support.plain_data import plain_data

router = APIRouter(tags=["looking"], responses=described(401, 403, 404, 409, 422, 503))
T = TypeVar("T")


async def with_model(served: ServedCampaign, function: Callable[[Campaign], T]) -> T:
    """Call a function in the thread of the model, and wait for it."""
    return await asyncio.wrap_future(served.model.call(function))


@router.get("/campaigns", response_model=CampaignsAnswer)
def campaigns(request: Request, caller: CurrentCaller) -> CampaignsAnswer:
    """The campaigns that the token is for."""
    return CampaignsAnswer(campaigns=[name for name in registry_of(request).names() if caller.sees(name)])


@router.get("/campaigns/{campaign}/form", response_model=Plain)
def form(served: ToUse, campaign: CampaignName) -> Plain:
    """The columns of the table of candidates, and how results are judged; for callers with any scope."""
    with served.table() as found:
        return dict(plain_data(LocalCampaign(found).form))


@router.get("/campaigns/{campaign}/report", response_class=HTMLResponse)
async def report(
    served: ToRead,
    campaign: CampaignName,
    k: Annotated[int, Query(ge=1, le=10_000, description="Number of candidates.")] = 20,
    optimum: Annotated[float | None, Query(allow_inf_nan=False, description="Best possible value.")] = None,
) -> HTMLResponse:
    """The report as one self-contained HTML page, to be saved."""
    page, _ = await with_model(served, lambda found: LocalCampaign(found).report(k, optimum))
    return HTMLResponse(page, headers={"Content-Disposition": 'attachment; filename="report.html"'})


@router.get("/campaigns/{campaign}/status", response_model=Plain)
async def status(
    served: ToRead,
    campaign: CampaignName,
    certify: Annotated[bool, Query(description="Compute the certificate from all results.")] = False,
) -> Plain:
    """Settings, counts, the learned model, the certificate and the assumptions."""
    judged = await with_model(served, queries.judged) if certify else {}
    found = await run_in_threadpool(lambda: campaign_status(served.rows, **judged))
    return dict(plain_data({**found, "campaign": served.name}))


@router.get("/campaigns/{campaign}/best", response_model=Plain)
async def best(
    served: ToRead,
    campaign: CampaignName,
    k: Annotated[int, Query(ge=1, le=10_000, description="Number of candidates.")] = 20,
    everywhere: Annotated[bool, Query(description="Include candidates without a result.")] = False,
) -> Plain:
    """The candidates with the best model mean."""
    rows = await with_model(served, lambda found: queries.best(found, k, everywhere))
    return {"id_column": served.rows.id_column, "best": plain_data(rows)}


@router.get("/campaigns/{campaign}/explanations", response_model=Plain)
async def explanations(
    served: ToRead,
    campaign: CampaignName,
    id: Annotated[list[Id], Query(min_length=1, max_length=100, description="Ids of the candidates.")],
) -> Plain:
    """Why these candidates: predictions, the nearest measured candidates, and what columns contribute."""
    found = await with_model(served, lambda found: queries.explain(found, id))
    return {"explanations": plain_data(found)}


@router.get("/campaigns/{campaign}/history", response_model=Plain)
def history(
    served: ToRead,
    campaign: CampaignName,
    last: Annotated[int | None, Query(ge=1, le=2**31, description="Only so many latest results.")] = None,
) -> Plain:
    """The recorded results in the order of recording, and every correction."""
    results, corrections = queries.history(served.rows), queries.corrections(served.rows)
    shown = results if last is None else results[-last:]
    return {
        "results": plain_data([{**shown_row(each), "number_of_ticket": each.ticket} for each in shown]),
        "total": len(results),
        "corrections": plain_data([asdict(each) for each in corrections]),
    }


@router.get("/campaigns/{campaign}/batches", response_model=Plain)
def batches(served: ToRead, campaign: CampaignName) -> Plain:
    """Every batch that was handed out, with the reason why it ended."""
    return {"batches": plain_data(queries.batches(served.rows))}
