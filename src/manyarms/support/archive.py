"""Plain data with arrays in one npz archive: the arrays as they are, the rest as JSON. Nothing is pickled.

An archive holds a digest of its contents, so that one that was changed by hand or by a fault is refused when
it is read instead of failing, or deciding wrongly, later.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np

from manyarms.errors import CheckpointError

_DIGEST = "digest"
_ARRAY = "array at"  # the placeholder key of an array in the JSON text


def write_archive(stream: IO[bytes], plain: dict[str, Any]) -> None:
    """Write nested dicts and lists of numbers, texts and arrays."""
    arrays: dict[str, Any] = {}
    manifest = _without_arrays(plain, "", arrays)
    written = json.dumps(manifest, default=lambda number: number.item()).encode()
    arrays["manifest"] = np.frombuffer(written, dtype=np.uint8)
    digest = np.frombuffer(_digest(arrays), dtype=np.uint8)
    np.savez(stream, allow_pickle=False, **arrays, **{_DIGEST: digest})


def _digest(arrays: Mapping[str, Any]) -> bytes:
    """The SHA-256 digest of names, types, shapes and contents, in the order of the names."""
    sha = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(repr((name, array.dtype.str, array.shape)).encode())
        sha.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return sha.digest()


def unchanged(manifest: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """For `older` of `read_archive`: an earlier version that differs only by having no digest."""
    plain: dict[str, Any] = _with_arrays(manifest, arrays)
    return plain


def read_archive(
    stream: IO[bytes],
    name: str,
    form: str,
    version: int,
    older: dict[int, Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]] | None = None,
) -> dict[str, Any]:
    """What `write_archive` wrote, checked to be of this form and version; `name` is used in messages.

    `older` brings manifest and arrays of an earlier version, which had no digest, into the present form.
    """
    try:
        with np.load(stream, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        digest = arrays.pop(_DIGEST, None)
        changed = digest is None or digest.tobytes() != _digest(arrays)
        manifest = json.loads(arrays.pop("manifest").tobytes())
    except Exception as problem:  # zipfile, zlib, struct and numpy each have errors of their own
        raise CheckpointError(f"{name}: not a saved run, or damaged: {problem}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != form:
        raise CheckpointError(f"{name}: not a saved run")
    found = manifest.get("version")
    older = older or {}
    if digest is not None or found not in older:
        _check_version(name, found, version)
        if changed:
            raise CheckpointError(f"{name}: damaged: the contents do not match their digest")
    try:
        if found in older:
            return older[found](manifest, arrays)
        plain: dict[str, Any] = _with_arrays(manifest, arrays)
    except KeyError as missing:
        raise CheckpointError(f"{name}: damaged: {missing} is missing") from None
    return plain


def _check_version(name: str, found: Any, version: int) -> None:
    if found != version:
        older_release = isinstance(found, int) and found < version
        hint = "load it with the release that saved it" if older_release else "it needs a newer release"
        raise CheckpointError(f"{name}: format version {found}, this package reads version {version}: {hint}")


def _without_arrays(plain: Any, path: str, arrays: dict[str, Any]) -> Any:
    if isinstance(plain, np.ndarray):
        arrays[path] = plain
        return {_ARRAY: path}
    if isinstance(plain, dict):
        return {
            key: _without_arrays(value, f"{path}.{key}" if path else key, arrays)
            for key, value in plain.items()
        }
    return plain


def _with_arrays(manifest: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(manifest, dict):
        if set(manifest) == {_ARRAY}:
            return arrays[manifest[_ARRAY]]
        return {key: _with_arrays(value, arrays) for key, value in manifest.items()}
    return manifest
