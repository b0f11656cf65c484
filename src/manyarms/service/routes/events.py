"""The stream of changes of a campaign."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse

from manyarms.service.access import CampaignName, CurrentCaller, gate_of
from manyarms.service.common import ToRead
from manyarms.service.events import Watch
from manyarms.service.problems import described
from manyarms.service.tokens.values import READ

router = APIRouter(tags=["looking"], responses=described(401, 403, 404, 422, 503))


@router.get(
    "/campaigns/{campaign}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    served: ToRead,
    caller: CurrentCaller,
    campaign: CampaignName,
    request: Request,
    last: Annotated[str | None, Header(alias="Last-Event-ID", max_length=200)] = None,
) -> StreamingResponse:
    """Server-sent events: one named `change` with the counters of the campaign whenever it has changed."""
    watch: Watch = request.app.state.watch
    watch.check()
    gate, token = gate_of(request), caller.token

    def is_allowed() -> bool:
        if token is None:
            return gate.is_open()
        now = gate.tokens.by_id(token.id)
        return now is not None and now.allows(READ, campaign)

    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(
        watch.stream(served, last, is_allowed), media_type="text/event-stream", headers=headers
    )
