"""Uploaded files: their contents within the limits, and their names without tricks.

The name of a results file is only recorded and shown; nothing is written under it. A table of candidates is
written into the folder of tables under a name that the service makes, from the campaign, a random text and
one of the known endings.
"""

from __future__ import annotations

import io
import re
import secrets
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from manyarms.errors import InvalidRequestError, TooLargeError, shown
from manyarms.service.limits import Limits
from manyarms.service.problems import BodyError
from manyarms.support.output_files import flush_to_disk

_ENDINGS = re.compile(r"\.(csv|tsv|txt|csv\.gz|tsv\.gz|txt\.gz|parquet|pq|xlsx|npy|npz)$", re.IGNORECASE)
_INFLATION = 10  # a workbook may be so much larger than its file


def file_name(name: str) -> str:
    """The name, if it is one of a file: not a path, not hidden, and printable."""
    if not name.strip() or not name.isprintable() or {*name} & {*"/\\:"} or name.startswith("."):
        raise InvalidRequestError(f"{shown(name)} is not the name of a file")
    return name


async def whole_body(request: Request, name: str) -> bytes:
    """The contents of an uploaded results file, which fit into memory."""
    limits: Limits = request.app.state.limits
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > limits.file_bytes:
            raise BodyError(TooLargeError(f"the file has more than {limits.file_bytes} bytes"))
    if name.lower().endswith((".xlsx", ".xlsm")):
        _check_workbook(bytes(data), _INFLATION * limits.file_bytes)
    return bytes(data)


def _check_workbook(data: bytes, most: int) -> None:
    """Refuse a small file that is huge when it is unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            size = sum(part.file_size for part in packed.infolist())
    except (zipfile.BadZipFile, ValueError, OSError):
        return  # the reader says what is wrong with it
    if size > most:
        raise TooLargeError(f"the workbook has {size} bytes when it is unpacked; the limit is {most}")


async def saved_table(request: Request, folder: Path, campaign: str, name: str) -> Path:
    """Write the body to a new file of the folder, under a name that the service makes."""
    ending = _ENDINGS.search(file_name(name))
    if ending is None:
        raise InvalidRequestError(
            f"{shown(name)}: a table of candidates is a CSV, TSV, text, Parquet, Excel, npy or npz file"
        )
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", campaign)[:60]
    path = folder / f"{safe}.table-{secrets.token_hex(6)}{ending[0].lower()}"
    stream = await run_in_threadpool(open, path, "xb")
    try:
        with stream:
            async for part in request.stream():
                await run_in_threadpool(stream.write, part)
            await run_in_threadpool(flush_to_disk, stream)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


@contextmanager
def kept_on_success(path: Path) -> Iterator[None]:
    """Delete the file if the campaign does not take it."""
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise
