"""Tables of candidates: create a campaign on an uploaded one, or add its candidates."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.engine_settings import EngineSettings
from manyarms.campaigns.settings import read_request
from manyarms.campaigns.status import status
from manyarms.errors import InvalidRequestError, SettingsError, shown
from manyarms.service.access import CampaignName, require_everywhere
from manyarms.service.common import ToAdminister, registry_of
from manyarms.service.problems import described
from manyarms.service.routes.looking import with_model
from manyarms.service.schemas import Plain
from manyarms.service.served import Registry
from manyarms.service.tokens.values import ADMIN
from manyarms.service.uploads import kept_on_success, saved_table
from manyarms.support.plain_data import plain_data

router = APIRouter(tags=["candidates"], responses=described(401, 403, 404, 409, 413, 422, 503))
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}")
_BINARY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
FileName = Annotated[
    str, Query(max_length=255, description="Name of the file; its ending says how it is read.")
]
FormText = Annotated[str | None, Query(max_length=50)]


@router.put(
    "/campaigns/{campaign}",
    status_code=201,
    response_model=Plain,
    openapi_extra=_BINARY,
    dependencies=[Depends(require_everywhere(ADMIN))],
)
async def create(
    request: Request,
    campaign: CampaignName,
    name: FileName,
    settings: Annotated[
        str,
        Query(
            max_length=20_000, description="The settings of `manyarms new` as a JSON object, without `pool`."
        ),
    ] = "{}",
) -> Plain:
    """Create a campaign on the uploaded table of candidates; an existing campaign is an error."""
    registry, wanted = registry_of(request), _settings(settings)
    if not _NAME.fullmatch(campaign):
        raise InvalidRequestError(
            f"{shown(campaign)}: the name of a campaign has letters, digits, spaces, points, dashes and "
            f"underscores"
        )
    where = await run_in_threadpool(registry.place.new_place, campaign)
    table = await saved_table(request, registry.place.tables, campaign, name)
    return await run_in_threadpool(_created, registry, campaign, where, table, wanted)


def _settings(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidRequestError("settings must be a JSON object") from None
    if not isinstance(found, dict) or "pool" in found:
        raise InvalidRequestError("settings must be a JSON object without `pool`: the table is uploaded")
    if any(found.get(name) for name in ("prior_results", "prior_campaign")):  # files of this machine
        raise InvalidRequestError("old results cannot be given over HTTP: create the campaign from its files")
    return found


def _created(registry: Registry, name: str, where: str, table: Path, settings: dict[str, Any]) -> Plain:
    with kept_on_success(table):
        try:
            asked = read_request(None, {**settings, "pool": str(table)})
            if asked.on_engine() != EngineSettings():
                raise SettingsError("engine cannot be chosen over HTTP: the service computes")
            Campaign.new(where, asked).close()
        except (TypeError, ValueError, OverflowError) as problem:
            if type(problem).__module__.startswith("manyarms"):
                raise
            raise SettingsError(f"the settings cannot be used: {problem}") from None
    found = registry.find(name)
    columns = found.rows.settings.source.columns
    described = [{"name": each.name, "role": each.role, "note": each.note} for each in columns]
    return dict(plain_data({**status(found.rows), "campaign": name, "columns": described}))


@router.post("/campaigns/{campaign}/candidates", response_model=Plain, openapi_extra=_BINARY)
async def add(
    request: Request,
    served: ToAdminister,
    campaign: CampaignName,
    name: FileName,
    delimiter: FormText = None,
    encoding: FormText = None,
    decimal: FormText = None,
    sheet: Annotated[str | None, Query(max_length=200)] = None,
) -> Plain:
    """Add the candidates of the uploaded table, which must have the same columns."""
    form = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal, "sheet": sheet}
    table = await saved_table(request, registry_of(request).place.tables, campaign, name)

    def added(found: Campaign) -> tuple[int, int]:
        with kept_on_success(table):
            return found.add(table, **form), found.source.n_arms

    more, total = await with_model(served, added)
    served.changed()
    return {"added": more, "candidates": total}
