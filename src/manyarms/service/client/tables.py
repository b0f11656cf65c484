"""Upload a table of candidates, and create a campaign on it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyarms.campaigns.settings import Request
from manyarms.errors import SettingsError, TableError
from manyarms.service.client.http import Connection


def upload(
    connection: Connection, method: str, where: str, path: Path, query: Mapping[str, str | None]
) -> Any:
    """Send a file as the body of a request. A failed request is not repeated."""
    given = {name: value for name, value in query.items() if value is not None}
    try:
        with open(path, "rb") as stream:
            return connection.send(
                method,
                where,
                repeat=False,
                content=stream,
                params={"name": path.name, **given},
                headers={"Content-Type": "application/octet-stream"},
            ).json()
    except OSError as problem:
        if problem.filename is None:
            raise
        raise TableError(f"{path}: {problem.strerror}") from None


def create(url: str, request: Request) -> dict[str, Any]:
    """Create a campaign at a service; returns its status and what every column is used as."""
    settings = {
        each.name: getattr(request, each.name)
        for each in dataclasses.fields(request)
        if each.name != "pool" and getattr(request, each.name) != each.default
    }
    if request.prior_results or request.prior_campaign:
        raise SettingsError("old results are given to campaigns in files and databases, not to a service")
    connection = Connection(url)
    try:
        query = {"settings": json.dumps(settings)}
        return dict(upload(connection, "PUT", connection.path(), Path(request.pool), query))
    finally:
        connection.close()
