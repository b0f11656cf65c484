"""Where the shards of a pool live: in this process, on threads, or on a cluster.

A shard holds a contiguous range of arms and everything of that length. The driver holds what is small. An
engine places the shards and carries calls to them; it knows nothing about what they compute.
"""

from importlib import import_module
from typing import Any

from manyarms.engines.local import Local

__all__ = ["Dask", "Local"]


def __getattr__(name: str) -> Any:
    """Import the engine for Dask when it is first used."""
    if name == "Dask":
        return import_module("manyarms.engines.dask").Dask
    raise AttributeError(f"module 'manyarms.engines' has no attribute {name!r}")
