"""The application: its routes, its guards, and what they share.

`app.state` holds the registry of campaigns, the gate, the mailbox, the event streams and the limits. A
further set of routes is a router in `ROUTERS`. It uses the dependencies of `common.py` (the campaign in the
path, for callers with a scope) and of `access.py` (who the caller is, and the CSRF token for the forms of a
page), and calls `served.changed()` after a change.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from manyarms.federation.mailbox import Mailbox
from manyarms.service.access import Gate
from manyarms.service.events import Watch
from manyarms.service.limits import Guard, Limits
from manyarms.service.page import agents_routes as agents_pages
from manyarms.service.page import routes as pages
from manyarms.service.places import Folder, Place
from manyarms.service.problems import handle_errors
from manyarms.service.routes import (
    agents,
    asks,
    candidates,
    events,
    login,
    looking,
    results,
    tables,
    tickets,
    tokens,
)
from manyarms.service.served import Registry

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_PARTS = (
    looking,
    asks,
    tickets,
    results,
    candidates,
    tables,
    events,
    login,
    tokens,
    pages,
    agents,
    agents_pages,
)
ROUTERS = [each.router for each in _PARTS]


def create_app(
    place: Place,
    *,
    limits: Limits | None = None,
    hosts: Collection[str] = LOOPBACK_NAMES,
    may_be_open: bool = True,
) -> FastAPI:
    """The application for the campaigns of a place.

    `hosts` are the names under which it is reached. With `may_be_open`, no token is needed until the first
    one is made.
    """
    limits = limits or Limits()
    watch = Watch(limits.streams)
    registry, stored_tokens = Registry(place, watch.notify), place.tokens()
    mailbox = Mailbox(place.path) if isinstance(place, Folder) else None

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        watch.close()
        await run_in_threadpool(registry.close)
        if mailbox is not None:
            mailbox.close()
        stored_tokens.close()
        place.close()

    app = FastAPI(
        title="manyarms",
        summary="Choose well among very many candidates when each trial is noisy and costly.",
        version="1",  # of the interface, not of the package
        docs_url=None,  # the usual pages load scripts from other hosts
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.registry, app.state.watch, app.state.limits = registry, watch, limits
    app.state.gate, app.state.mailbox = Gate(stored_tokens, may_be_open), mailbox
    handle_errors(app)
    for router in ROUTERS:
        app.include_router(router)
    app.add_middleware(Guard, limits=limits, hosts=hosts)
    return app
