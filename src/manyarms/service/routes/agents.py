"""The mailbox of runs of agents: packets in and out, and the progress of a run.

A packet needs no token of the service. It is signed with the key of its agent, and the hub checks that.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from manyarms.errors import TooLargeError, UnknownRunError
from manyarms.federation.http_carrier import PACKET_TYPE
from manyarms.federation.mailbox import Mailbox
from manyarms.service.access import Caller, require_everywhere
from manyarms.service.problems import described
from manyarms.service.schemas import Plain
from manyarms.service.tokens.values import READ
from manyarms.support.plain_data import plain_data

router = APIRouter(tags=["agents"], responses=described(401, 403, 404, 413, 422, 503))
Run = Annotated[str, Path(description="Identity of the run.", max_length=64)]
Reader = Annotated[Caller, Depends(require_everywhere(READ))]


def mailbox_of(request: Request) -> Mailbox:
    """The mailbox of the application."""
    mailbox: Mailbox | None = request.app.state.mailbox
    if mailbox is None:
        raise UnknownRunError("runs of agents are files: serve the folder that they are in")
    return mailbox


@router.post("/agents/{run}/packets", response_class=Response)
async def packets(request: Request, run: Run) -> Response:
    """Take a packet of an agent, and answer with the packet for it."""
    most = request.app.state.limits.file_bytes
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise TooLargeError(f"a packet has at most {most} bytes")
        pieces.append(piece)
    mailbox = mailbox_of(request)
    hub = await run_in_threadpool(mailbox.hub, run)
    answer = await run_in_threadpool(hub.exchange, b"".join(pieces))
    return Response(answer, media_type=PACKET_TYPE)


@router.get("/agents", response_model=Plain)
def runs(request: Request, _reader: Reader) -> Plain:
    """The runs of agents in the folder, with their progress."""
    return {"runs": plain_data(mailbox_of(request).runs())}


@router.get("/agents/{run}", response_model=Plain)
def status(request: Request, run: Run, _reader: Reader) -> Plain:
    """The progress of a run: epochs, who is in, what was sent, what is left, and the log."""
    hub = mailbox_of(request).hub(run)
    return dict(plain_data({**hub.status(), "log": hub.log()}))
