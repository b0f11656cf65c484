"""Open the campaign that a command names: a file, an address of PostgreSQL, or a URL of a service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from manyarms.campaigns.access import CampaignAccess
from manyarms.campaigns.local import LocalCampaign


def is_url(campaign: str) -> bool:
    """Whether this names a campaign of a service."""
    return campaign.lower().startswith(("http://", "https://"))


@contextmanager
def opened(
    campaign: str,
    pool: Path | None = None,
    progress: Callable[..., Any] | None = None,
    patience: float | None = None,
    engine: str | None = None,
) -> Iterator[CampaignAccess]:
    """The campaign, closed at the end. `patience` is how long an unreachable service is tried again."""
    found: CampaignAccess
    if is_url(campaign):
        if pool is not None:
            raise typer.BadParameter("--pool cannot be used with a URL: the service knows its table")
        if engine is not None:
            raise typer.BadParameter("--engine cannot be used with a URL: the service computes")
        from manyarms.service.client.http import PATIENCE, Connection
        from manyarms.service.client.remote import RemoteCampaign

        found = RemoteCampaign(Connection(campaign, patience=PATIENCE if patience is None else patience))
    else:
        found = LocalCampaign(campaign, pool=pool, progress=progress, engine=engine)
    try:
        yield found
    finally:
        found.close()
