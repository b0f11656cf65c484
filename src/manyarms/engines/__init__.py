"""Where the shards of a pool live: in this process, on threads, or on a cluster.

A shard holds a contiguous range of arms and everything of that length. The driver holds what is small. An
engine places the shards and carries calls to them; it knows nothing about what they compute.
"""

from manyarms.engines.local import Local

__all__ = ["Local"]
