"""The page of a run of agents, which reads its parts again every few seconds, and the list of all runs.

Whoever may look at every campaign may look at the runs: they show progress and traffic, no keys and no
rewards.
"""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response

from manyarms.errors import NotAllowedError
from manyarms.federation.mailbox import Mailbox
from manyarms.service.page.agents_contents import run_parts
from manyarms.service.page.routes import page, rendered, visitor
from manyarms.service.problems import described
from manyarms.service.routes.agents import Reader, Run, mailbox_of
from manyarms.service.tokens.values import READ

router = APIRouter(tags=["pages"], include_in_schema=False)
JUMPS = {"epochs": "Epochs", "agents": "Agents", "traffic": "Messages", "log": "Log", "settings": "Settings"}
PARTS = ("headline", "epochs", "agents", "traffic", "log", "facts")


@router.get("/agents/{run}/page")
async def run_page(request: Request, run: Run) -> Response:
    """One run live."""
    who = await visitor(request)
    if isinstance(who, Response):
        return who
    if not who.allows(READ, None):
        raise NotAllowedError("the token does not have the scope 'read' for every campaign")
    mailbox = mailbox_of(request)
    name = await run_in_threadpool(mailbox.name, run)
    contents = await run_in_threadpool(_contents, mailbox, run)
    jumps = [(place, title) for place, title in JUMPS.items() if place != "epochs" or contents["epochs"]]
    return page("agents.html", caller=who, name=name, run=run, parts=contents, jumps=jumps)


@router.get("/agents/{run}/parts", responses=described(401, 403, 404, 503))
def parts(request: Request, run: Run, _reader: Reader) -> Response:
    """The parts of the page as they are now."""
    known = {"parts": _contents(mailbox_of(request), run), "run": run}
    return JSONResponse({"parts": {part: rendered(f"agents_{part}", **known) for part in PARTS}})


def _contents(mailbox: Mailbox, run: str) -> dict[str, Any]:
    hub = mailbox.hub(run)
    return run_parts(hub.status(), hub.log(), time.time())
