"""Tickets: those that are open, batch files to download, leases, and cancelling."""

from __future__ import annotations

import io
import re
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from fastapi import Path as PathParameter

from manyarms.campaigns.batch_file import write_batch_cells
from manyarms.campaigns.leases import released, renewed
from manyarms.campaigns.orders import Issued
from manyarms.campaigns.store.schema import TICKETS
from manyarms.errors import InvalidRequestError, NoResultsError
from manyarms.service.access import CampaignName
from manyarms.service.common import ToAsk, ToRead
from manyarms.service.problems import described
from manyarms.service.routes.results import TicketInPath
from manyarms.service.schemas import (
    BatchAnswer,
    ForgetAnswer,
    ForgetBody,
    Plain,
    ReleaseBody,
    RenewBody,
    TicketAnswer,
)
from manyarms.service.served import ServedCampaign

router = APIRouter(tags=["tickets"], responses=described(401, 403, 404, 409, 422, 503))
Format = Annotated[Literal["csv", "tsv", "xlsx"], Query(description="The form of the file.")]
_MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


@router.get("/campaigns/{campaign}/tickets", response_model=BatchAnswer)
def open_tickets(served: ToRead, campaign: CampaignName) -> BatchAnswer:
    """The open tickets, as they were handed out."""
    issued = served.open_tickets()
    return BatchAnswer(id_column=served.rows.id_column, tickets=[TicketAnswer.of(each) for each in issued])


@router.get("/campaigns/{campaign}/tickets/file", response_class=Response)
def open_file(served: ToRead, campaign: CampaignName, format: Format = "csv") -> Response:
    """The open tickets as a file to fill in."""
    return _file(served, served.open_tickets(), f"{served.name}-open", format)


@router.get("/campaigns/{campaign}/batches/{number}/file", response_class=Response)
def batch_file(
    served: ToRead,
    campaign: CampaignName,
    number: Annotated[int, PathParameter(ge=1, le=2**31 - 1)],
    format: Format = "csv",
) -> Response:
    """A batch as a file to fill in."""
    with served.table() as found:
        with found.store.reading() as connection:
            tickets = found.store.tickets(connection, TICKETS.c.batch == number)
        if not tickets:
            raise NoResultsError(f"there is no batch {number}")
        issued = found.reissued(tickets)
    return _file(served, issued, f"{served.name}-batch-{number}", format)


def _file(served: ServedCampaign, issued: list[Issued], name: str, format: str) -> Response:
    if format == "xlsx":
        binary = io.BytesIO()
        write_batch_cells(binary, issued, served.rows.id_column, None)
        data = binary.getvalue()
    else:
        text = io.StringIO(newline="")
        write_batch_cells(text, issued, served.rows.id_column, "\t" if format == "tsv" else ",")
        data = text.getvalue().encode()
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    headers = {"Content-Disposition": f'attachment; filename="{safe}.{format}"'}
    return Response(data, media_type=_MEDIA[format], headers=headers)


@router.post("/campaigns/{campaign}/tickets/{ticket}/renew", response_model=Plain)
def renew(served: ToAsk, campaign: CampaignName, ticket: TicketInPath, body: RenewBody) -> Plain:
    """Extend the lease of a ticket that this worker holds."""
    until = renewed(served.rows, ticket, body.worker, body.lease)
    return {"ticket": ticket, "lease_until": until}


@router.post("/campaigns/{campaign}/tickets/{ticket}/release", response_model=ForgetAnswer)
def release(served: ToAsk, campaign: CampaignName, ticket: TicketInPath, body: ReleaseBody) -> ForgetAnswer:
    """Give up a ticket that this worker holds: its candidate may be asked for again."""
    number = released(served.rows, ticket, body.worker)
    served.changed()
    return ForgetAnswer(forgotten=[number])


@router.post("/campaigns/{campaign}/tickets/forget", response_model=ForgetAnswer)
def forget(served: ToAsk, campaign: CampaignName, body: ForgetBody) -> ForgetAnswer:
    """Cancel open tickets, whoever holds them. A late result is still recorded."""
    if not body.tickets and body.batch is None and not body.all_open:
        raise InvalidRequestError("specify tickets, batch or all_open")
    found = served.rows
    chosen = found.choose_open(found.numbers_of(body.tickets), body.batch, body.all_open)
    found.forget(chosen)
    if chosen:
        served.changed()
    return ForgetAnswer(forgotten=chosen)
