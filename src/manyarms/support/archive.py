"""Plain data with arrays in one npz archive: the arrays as they are, the rest as JSON. Nothing is pickled."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from manyarms.errors import CheckpointError

_ARRAY = "array at"  # the placeholder key of an array in the JSON text


def write_archive(stream: IO[bytes], plain: dict[str, Any]) -> None:
    """Write nested dicts and lists of numbers, texts and arrays."""
    arrays: dict[str, Any] = {}
    manifest = _without_arrays(plain, "", arrays)
    written = json.dumps(manifest, default=lambda number: number.item()).encode()
    np.savez(stream, allow_pickle=False, **arrays, manifest=np.frombuffer(written, dtype=np.uint8))


def read_archive(
    stream: IO[bytes],
    name: str,
    form: str,
    version: int,
    older: dict[int, Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]] | None = None,
) -> dict[str, Any]:
    """What `write_archive` wrote, checked to be of this form and version; `name` is used in messages.

    `older` brings manifest and arrays of an earlier version into the present form.
    """
    try:
        with np.load(stream, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        manifest = json.loads(arrays.pop("manifest").tobytes())
    except Exception as problem:  # zipfile, zlib, struct and numpy each have errors of their own
        raise CheckpointError(f"{name}: not a saved run, or damaged: {problem}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != form:
        raise CheckpointError(f"{name}: not a saved run")
    found = manifest.get("version")
    if older is None or found not in older:
        _check_version(name, found, version)
    try:
        if older is not None and found in older:
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
