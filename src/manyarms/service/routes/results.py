"""Recording results: of one ticket, of several rows, of a results file; and correcting them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi import Path as PathParameter
from fastapi.concurrency import run_in_threadpool

from manyarms.campaigns.file_versions import Mode
from manyarms.campaigns.results_file import ReportedResult, checked_noise, ticket_row
from manyarms.campaigns.store.result_noise import USUAL, ResultNoise
from manyarms.errors import InvalidRequestError
from manyarms.service.access import CampaignName, CurrentCaller
from manyarms.service.common import ToTell
from manyarms.service.problems import described
from manyarms.service.schemas import (
    ChangeAnswer,
    CorrectionRow,
    CorrectionsAnswer,
    CorrectionsBody,
    ImportAnswer,
    ResultBody,
    ResultRow,
    ResultsBody,
)
from manyarms.service.uploads import file_name, whole_body

router = APIRouter(tags=["results"], responses=described(401, 403, 404, 409, 413, 422, 503))
TicketInPath = Annotated[
    str,
    PathParameter(
        pattern=r"^[0-9]{1,18}(-[a-z0-9]{1,10})?$", description="The ticket.", examples=["7-k3f5m"]
    ),
]


@router.put("/campaigns/{campaign}/tickets/{ticket}/result", response_model=ImportAnswer)
def put_result(
    served: ToTell, campaign: CampaignName, ticket: TicketInPath, body: ResultBody
) -> ImportAnswer:
    """Record the result of a ticket. Repeating the request changes nothing; another value is a conflict."""
    if (body.value is None) != body.failed:
        raise InvalidRequestError("a result has either a value or failed = true")
    named = ticket_row("", ticket)
    row = ReportedResult(
        "", named.ticket, None, body.value, note=body.note, check=named.check, noise=_noise("", body)
    )
    summary = served.rows.tell([row], replicates=False)
    if summary.new:
        served.changed()
    return ImportAnswer(**asdict(summary))


@router.post("/campaigns/{campaign}/results", response_model=ImportAnswer)
def post_results(served: ToTell, campaign: CampaignName, body: ResultsBody) -> ImportAnswer:
    """Record several results, by ticket or by id; if one of them is invalid, none is recorded."""
    rows = [_reported(number, row) for number, row in enumerate(body.rows)]
    with served.table() as found:
        summary = found.tell_rows(rows)
    if summary.new:
        served.changed()
    return ImportAnswer(**asdict(summary))


def _reported(number: int, row: ResultRow) -> ReportedResult:
    where = f"row {number}"
    named = ticket_row(where, row.ticket or "", row.id)
    if row.failed and row.value is not None:
        raise InvalidRequestError(f"{where}: a result has either a value or failed = true")
    if named.ticket is None and named.name is None:
        raise InvalidRequestError(f"{where}: the row has neither a ticket nor an id")
    measured = row.failed or row.value is not None
    return ReportedResult(
        where,
        named.ticket,
        named.name,
        row.value,
        number,
        measured=measured,
        check=named.check,
        noise=_noise(f"{where}, ", row),
    )


@router.post(
    "/campaigns/{campaign}/results/file",
    response_model=ImportAnswer,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def post_file(
    served: ToTell,
    caller: CurrentCaller,
    campaign: CampaignName,
    request: Request,
    name: Annotated[str, Query(max_length=255, description="Name of the file.", examples=["plate.csv"])],
    mode: Annotated[
        Mode, Query(description="What rows by id mean that differ from an earlier version.")
    ] = Mode.ASK,
) -> ImportAnswer:
    """Import a results file (CSV, TSV or Excel); importing it again changes nothing."""
    called = file_name(name)
    data = await whole_body(request, called)

    def told() -> ImportAnswer:
        with served.table() as found:
            summary = found.tell_bytes(data, called, mode, caller.name)
        served.changed()
        return ImportAnswer(**asdict(summary))

    return await run_in_threadpool(told)


@router.post("/campaigns/{campaign}/corrections", response_model=CorrectionsAnswer)
def post_corrections(
    served: ToTell, caller: CurrentCaller, campaign: CampaignName, body: CorrectionsBody
) -> CorrectionsAnswer:
    """Correct recorded results, or remove them; the old values stay in the record of corrections."""
    rows = [_correction(number, row, body.remove) for number, row in enumerate(body.rows)]
    was = [row.was for row in body.rows]
    with served.table() as found:
        changes = found.correct(rows, was, why=body.why, who=caller.name, remove=body.remove)
    if changes:
        served.changed()
    return CorrectionsAnswer(
        changes=[
            ChangeAnswer(
                ticket=each.result.ticket,
                id=each.result.name,
                old_value=each.result.value,
                new_value=each.value,
                removed=each.removed,
            )
            for each in changes
        ]
    )


def _correction(number: int, row: CorrectionRow, remove: bool) -> ReportedResult:
    where = f"row {number}"
    if not remove and (row.value is None) != row.failed:
        raise InvalidRequestError(f"{where}: a correction has either a value or failed = true")
    named = ticket_row(where, row.ticket or "", row.id)
    if named.ticket is None and named.name is None:
        raise InvalidRequestError(f"{where}: the row has neither a ticket nor an id")
    return ReportedResult(
        where, named.ticket, named.name, row.value, number, check=named.check, noise=_noise(f"{where}, ", row)
    )


def _noise(where: str, body: ResultBody | ResultRow | CorrectionRow) -> ResultNoise:
    return USUAL if body.failed else checked_noise(where, body.noise_std, body.replicates)
