"""Saved server states: an npz archive of plain arrays, with the rest as JSON text inside. No pickle."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import SavedStateError

_FORMAT = "manyarms server state"
_VERSION = 1


def pack(
    algorithm: str, fingerprint: dict[str, Any], meta: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> bytes:
    """`fingerprint` says which run the state belongs to; `unpack` compares it."""
    head = {
        "format": _FORMAT,
        "version": _VERSION,
        "algorithm": algorithm,
        "fingerprint": fingerprint,
        "meta": meta,
    }
    text = np.frombuffer(json.dumps(head, allow_nan=False).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, head=text, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack(
    data: bytes, algorithm: str, fingerprint: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Meta data and arrays, after checking that they belong here."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        head = json.loads(arrays.pop("head").tobytes())
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise SavedStateError(f"not a saved server state: {error}") from None
    if head.get("format") != _FORMAT or head.get("version") != _VERSION:
        raise SavedStateError(f"a state of {head.get('format')!r} version {head.get('version')!r}")
    if head["algorithm"] != algorithm:
        raise SavedStateError(f"the state is of {head['algorithm']}, not of {algorithm}")
    expected = json.loads(json.dumps(fingerprint))
    for name, value in expected.items():
        if head["fingerprint"].get(name) != value:
            raise SavedStateError(
                f"the state was saved with {name} = {head['fingerprint'].get(name)!r}, not {value!r}"
            )
    return head["meta"], arrays
