"""Saved states of servers and agents: npz archives of plain arrays, all other data as JSON. No pickle."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.errors import SavedStateError

_FORMAT = "manyarms server state"  # the name of both kinds of state; `algorithm` tells them apart
_VERSION = 2


def pack(
    algorithm: str, fingerprint: dict[str, Any], meta: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> bytes:
    """Serialise a state; `fingerprint` identifies the run it belongs to, and `unpack` compares it."""
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
    """The metadata and arrays of a state, after checking algorithm and fingerprint."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        head = json.loads(arrays.pop("head").tobytes())
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise SavedStateError(f"not a saved state: {error}") from None
    if head.get("format") != _FORMAT or head.get("version") != _VERSION:
        raise SavedStateError(
            f"cannot read format {head.get('format')!r}, version {head.get('version')!r}; "
            f"expected {_FORMAT!r}, version {_VERSION}"
        )
    if head["algorithm"] != algorithm:
        raise SavedStateError(f"the state was saved by {head['algorithm']}, not by {algorithm}")
    expected = json.loads(json.dumps(fingerprint))
    for name, value in expected.items():
        if head["fingerprint"].get(name) != value:
            raise SavedStateError(
                f"the state was saved with {name} = {head['fingerprint'].get(name)!r}, not {value!r}"
            )
    return head["meta"], arrays
