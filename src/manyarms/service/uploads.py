"""Uploaded files: their contents within the limits, and their name without tricks.

The name of an uploaded results file is only recorded and shown; nothing is written under it.
"""

from __future__ import annotations

from fastapi import Request

from manyarms.errors import InvalidRequestError, TooLargeError, shown
from manyarms.service.limits import Limits
from manyarms.service.problems import BodyError


def file_name(name: str) -> str:
    """The name, if it is one of a file: not a path, not hidden, and printable."""
    if not name.strip() or not name.isprintable() or {*name} & {*"/\\:"} or name.startswith("."):
        raise InvalidRequestError(f"{shown(name)} is not the name of a file")
    return name


async def whole_body(request: Request) -> bytes:
    """The body of an upload that fits into memory."""
    limits: Limits = request.app.state.limits
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > limits.file_bytes:
            raise BodyError(TooLargeError(f"the file has more than {limits.file_bytes} bytes"))
    return bytes(data)
