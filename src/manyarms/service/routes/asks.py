"""Asking: hand out a batch now, or answer 202 with an operation if it takes long."""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import Future
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from fastapi import Path as PathParameter
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from manyarms.campaigns.orders import Issued, Share
from manyarms.errors import InvalidRequestError, UnknownOperationError
from manyarms.service.access import CampaignName, CurrentCaller
from manyarms.service.common import ToAsk
from manyarms.service.limits import Limits
from manyarms.service.model_thread import AskRequest
from manyarms.service.operations import operation_name
from manyarms.service.problems import described
from manyarms.service.schemas import AskBody, BatchAnswer, OperationAnswer, TicketAnswer
from manyarms.service.served import ServedCampaign

router = APIRouter(tags=["asking"])
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="A text that the client chooses for this ask. Repeating the request with the same key "
        "returns the same tickets, also after a crash of the service.",
        examples=["0b9c2f1e"],
    ),
]
Wait = Annotated[
    float | None,
    Query(
        ge=0, le=60, allow_inf_nan=False, description="Seconds to wait before the ask becomes an operation."
    ),
]


@router.post(
    "/campaigns/{campaign}/asks",
    status_code=201,
    response_model=BatchAnswer,
    responses={202: {"model": OperationAnswer}, **described(401, 403, 404, 409, 413, 422, 503)},
)
async def ask(
    served: ToAsk,
    caller: CurrentCaller,
    campaign: CampaignName,
    body: AskBody,
    request: Request,
    key: Key = None,
    wait: Wait = None,
) -> BatchAnswer | JSONResponse:
    """Choose the next candidates to measure and hand out a ticket for each."""
    order = ask_request(body, caller.id, key)
    future = await run_in_threadpool(served.operations.start, order)
    return await _outcome(served, order.share.key or "", future, request, wait)


def ask_request(body: AskBody, caller: str, key: str | None) -> AskRequest:
    """The ask that a body describes."""
    if body.n is not None and body.at_most is not None:
        raise InvalidRequestError("n and at_most cannot be combined")
    later = {name for name in ("max_cost", "per_cost") if getattr(body, name) is None}
    digest = hashlib.sha256(body.model_dump_json(exclude=later).encode()).hexdigest()  # as it always was
    share = Share(body.n, body.worker, body.lease, operation_name(caller, key), digest)
    ids = None if body.ids is None else tuple(dict.fromkeys(body.ids))
    limits = tuple(sorted((body.at_most_each or {}).items()))
    return AskRequest(
        share, body.at_most, body.until_gap, body.eligible, ids, body.same, limits, body.until_gain,
        body.max_cost, body.per_cost,
    )  # fmt: skip


@router.get(
    "/campaigns/{campaign}/operations/{operation}",
    response_model=BatchAnswer,
    responses={202: {"model": OperationAnswer}, **described(401, 403, 404, 409, 422, 503)},
)
async def operation(
    served: ToAsk,
    campaign: CampaignName,
    operation: Annotated[str, PathParameter(pattern="^[0-9a-f]{64}$")],
    request: Request,
    wait: Wait = None,
) -> BatchAnswer | JSONResponse:
    """The tickets of an ask that took long, its error, or 202 while it is still being computed."""
    future = served.operations.find(operation)
    if future is not None:
        return await _outcome(served, operation, future, request, wait)
    found = await run_in_threadpool(_stored, served, operation)
    if found is None:
        raise UnknownOperationError(
            "there is no such ask: repeat the request with its Idempotency-Key, nothing was handed out"
        )
    return _batch(served, found)


def _stored(served: ServedCampaign, operation: str) -> list[Issued] | None:
    with served.table() as campaign:
        found = campaign.asked(operation)
    return None if found is None else found[1]


async def _outcome(
    served: ServedCampaign,
    name: str,
    future: Future[list[Issued]],
    request: Request,
    wait: float | None,
) -> BatchAnswer | JSONResponse:
    limits: Limits = request.app.state.limits
    seconds = limits.ask_seconds if wait is None else min(wait, limits.ask_seconds)
    running = asyncio.wrap_future(future)
    running.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # nobody may ask for it
    done, _ = await asyncio.wait([running], timeout=seconds)
    if not done:
        where = f"/campaigns/{quote(served.name, safe='')}/operations/{name}"
        answer = OperationAnswer(operation=name).model_dump()
        return JSONResponse(answer, 202, headers={"Location": where, "Retry-After": "1"})
    return _batch(served, running.result())


def _batch(served: ServedCampaign, issued: list[Issued]) -> BatchAnswer:
    return BatchAnswer(id_column=served.rows.id_column, tickets=[TicketAnswer.of(each) for each in issued])
