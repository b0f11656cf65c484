"""The routes of the pages: the list, a campaign, its parts, the login form, and the files that they load.

A page loads scripts and styles from this service only, runs nothing that is written inside it, and needs no
build step. What it changes goes through the same routes as for programs.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from manyarms.campaigns.report.markup import FORBIDDEN, shortened
from manyarms.campaigns.status import status
from manyarms.campaigns.text import counted_in_full
from manyarms.errors import ManyarmsError, NotAllowedError, NotAuthenticatedError, UnknownOperationError
from manyarms.plots.numbers import number
from manyarms.plots.web import SCRIPTS, THEMES, as_json, script
from manyarms.service.access import Caller, CampaignName, CurrentCaller, caller
from manyarms.service.common import ToRead, registry_of
from manyarms.service.page.agents_contents import run_line
from manyarms.service.page.cache import PageCache
from manyarms.service.page.contents import MOST_PREVIEWED, model_parts, rows_parts, shown_columns
from manyarms.service.problems import described
from manyarms.service.served import ServedCampaign
from manyarms.service.tokens.values import ADMIN, ASK, READ, SCOPES, TELL

router = APIRouter(tags=["pages"], include_in_schema=False)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
JUMPS = {
    "progress": "Progress", "next": "Next batch", "tickets": "Open tickets", "results": "Results",
    "top": "Top candidates", "learned": "Model", "candidates": "Excluded", "settings": "Settings",
}  # fmt: skip
MEANINGS = {READ: "look", ASK: "ask for batches", TELL: "record results", ADMIN: "do everything"}
OWN = ("page.css", "login.js", "figures.js", "acts.js", "why.js", "live.js", "agents.js", "agents.css")
ROW_PARTS = ("headline", "tickets", "results", "excluded", "facts")

_environment = Environment(
    loader=PackageLoader("manyarms.service.page"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
_environment.filters["figure"] = number
_environment.filters["counted"] = counted_in_full
_environment.filters["ago"] = lambda age: age if age == "now" else f"{age} ago"
_environment.filters["short"] = lambda text: shortened(FORBIDDEN.sub("\ufffd", str(text)), 60)


def page(template: str, /, **contents: Any) -> HTMLResponse:
    """A page from its template, with its security policy."""
    text = _environment.get_template(template).render(**contents)
    clean = FORBIDDEN.sub("\ufffd", text)
    return HTMLResponse(clean, headers={"Content-Security-Policy": POLICY})


async def visitor(request: Request) -> Caller | RedirectResponse:
    """Who looks at a page; somebody unknown is led to the login form."""
    try:
        return await caller(request, None)
    except NotAuthenticatedError:
        return RedirectResponse(f"/login?next={quote(request.url.path)}", 303)


@router.get("/")
async def campaigns(request: Request) -> Response:
    """The list of campaigns."""
    who = await visitor(request)
    if isinstance(who, Response):
        return who
    registry = registry_of(request)

    def found() -> list[dict[str, Any]]:
        return [_line(registry.find, name) for name in registry.names() if who.sees(name)]

    return page(
        "campaigns.html", caller=who, campaigns=await run_in_threadpool(found),
        runs=await run_in_threadpool(_runs, request, who),
    )  # fmt: skip


def _runs(request: Request, who: Caller) -> list[dict[str, Any]]:
    """The runs of agents, for those who may look at everything."""
    mailbox = request.app.state.mailbox
    return [run_line(each) for each in mailbox.runs()] if mailbox and who.allows(READ, None) else []


def _line(find: Any, name: str) -> dict[str, Any]:
    try:
        now = status(find(name).rows)
    except ManyarmsError as problem:
        return {"name": name, "problem": str(problem)}
    return {
        "name": name, "problem": None, "goal": now["goal"], "candidates": now["pool"]["candidates"],
        "results": now["results"]["values"], "open": now["tickets"]["open"], "best": now["best_measured"],
    }  # fmt: skip


@router.get("/login")
def login_form(next: Annotated[str, Query(max_length=500)] = "/") -> Response:
    """The form to log in with a token."""
    return page("login.html", caller=None, next=next)


@router.get("/page/{campaign}")
async def campaign_page(request: Request, campaign: CampaignName) -> Response:
    """One campaign live."""
    who = await visitor(request)
    if isinstance(who, Response):
        return who
    if not who.allows(READ, campaign):
        raise NotAllowedError("the token does not have the scope 'read' for this campaign")
    served = await run_in_threadpool(registry_of(request).find, campaign)
    rows = await run_in_threadpool(_rows, served)
    return page(
        "campaign.html", caller=who, name=served.name, goal=served.rows.settings.goal, rows=rows, model=None,
        is_open=who.token is None,
        may=_may(who, campaign), jumps=JUMPS.items(), scopes=[(each, MEANINGS[each]) for each in SCOPES],
        themes=Markup(as_json(THEMES)), scripts=[each.removeprefix("vendor/") for each in SCRIPTS],
    )  # fmt: skip


def _rows(served: ServedCampaign) -> dict[str, Any]:
    with served.table() as campaign:
        return rows_parts(campaign)


def _may(who: Caller, campaign: str) -> dict[str, bool]:
    """What the page offers to this visitor."""
    own = {scope: who.allows(scope, campaign) for scope in SCOPES}
    return {**own, "admin_everywhere": who.allows(ADMIN, None)}


def rendered(part: str, /, **contents: Any) -> str:
    """The markup of one part of a page."""
    return FORBIDDEN.sub("\ufffd", _environment.get_template(f"{part}.html").render(**contents))


@router.get("/page/{campaign}/rows", responses=described(401, 403, 404, 503))
async def row_parts(served: ToRead, who: CurrentCaller, campaign: CampaignName, request: Request) -> Response:
    """The parts of the page that come from the rows of the campaign."""
    rows, cache = await run_in_threadpool(_rows, served), _cache(request)
    known = {"rows": rows, "name": served.name, "may": _may(who, campaign), "model": cache.latest(served)}
    return JSONResponse({"parts": {part: rendered(part, **known) for part in ROW_PARTS}})


@router.get("/page/{campaign}/model", responses=described(401, 403, 404, 503))
async def model_part(
    served: ToRead,
    who: CurrentCaller,
    campaign: CampaignName,
    request: Request,
    n: Annotated[str, Query(max_length=6, pattern="^[0-9]*$", description="Size of the next batch.")] = "",
) -> Response:
    """The charts and the parts that need the model; computed once for all who look."""
    size = min(int(n), MOST_PREVIEWED) if n and int(n) else None
    cache = _cache(request)
    model = await cache.model(served, size, model_parts)
    rows = await run_in_threadpool(_rows, served)
    known = {
        "rows": rows, "model": model, "name": served.name, "may": _may(who, campaign),
        "columns": shown_columns(model["preview"]), "top_columns": shown_columns(model["top"]),
    }  # fmt: skip
    parts = {part: rendered(part, **known) for part in ("preview", "top", "headline")}
    return JSONResponse({"parts": parts, "figures": model["figures"]})


def _cache(request: Request) -> PageCache:
    state = request.app.state
    if not hasattr(state, "page_cache"):
        state.page_cache = PageCache()
    cache: PageCache = state.page_cache
    return cache


@router.get("/static/{name}")
def static(name: str) -> Response:
    """A script or a style sheet."""
    vendored = {each.removeprefix("vendor/"): each for each in SCRIPTS}
    if name == "report.css":
        text = files("manyarms.campaigns.report").joinpath("page.css").read_text(encoding="utf-8")
    elif name in OWN:
        text = files("manyarms.service.page").joinpath("static", name).read_text(encoding="utf-8")
    elif name in vendored:
        text = script(vendored[name])
    else:
        raise UnknownOperationError("there is no such file")
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    return Response(text, media_type=f"{kind}; charset=utf-8", headers={"Cache-Control": "no-cache"})
