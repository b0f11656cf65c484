"""Uploaded files: their contents within the limits, and their names without tricks.

The name of a results file is only recorded and shown; nothing is written under it. A table of candidates is
written into the folder of tables under a name that the service makes, from the campaign, a random text and
one of the known endings.
"""

from __future__ import annotations

import gzip
import io
import re
import secrets
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from manyarms.errors import InvalidRequestError, TooLargeError, shown
from manyarms.service.limits import Limits
from manyarms.service.problems import BodyError
from manyarms.support.output_files import flush_to_disk

_ENDINGS = re.compile(r"\.(csv|tsv|txt|csv\.gz|tsv\.gz|txt\.gz|parquet|pq|xlsx|npy|npz)$", re.IGNORECASE)
_INFLATION = 10  # a workbook of results may have so many times the bytes of the largest file
_PACKED = (".gz", ".xlsx", ".npz")
_PART = 2**20  # bytes that are unpacked at a time


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
        _check_unpacked(_parts_of_zip(io.BytesIO(data)), _INFLATION * limits.file_bytes)
    return bytes(data)


def _check_unpacked(sizes: Iterable[int], most: int) -> None:
    """Refuse a small file that is huge when it is unpacked; a damaged one is left to its reader."""
    size = 0
    for part in sizes:
        size += part
        if size > most:
            raise TooLargeError(f"the file has more than {most} bytes when it is unpacked")


def _parts_of_zip(file: Any) -> Iterator[int]:
    try:
        with zipfile.ZipFile(file) as packed:
            yield from (part.file_size for part in packed.infolist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return


def _parts_of_gzip(path: Path) -> Iterator[int]:
    try:
        with gzip.open(path) as packed:
            while part := len(packed.read(_PART)):
                yield part
    except (EOFError, OSError, zlib.error):
        return


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
        limits: Limits = request.app.state.limits
        if path.suffix in _PACKED:
            parts = _parts_of_gzip(path) if path.suffix == ".gz" else _parts_of_zip(path)
            await run_in_threadpool(_check_unpacked, parts, limits.table_bytes)
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
