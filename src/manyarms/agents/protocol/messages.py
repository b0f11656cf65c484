"""All messages between agents and server, as frozen dataclasses that count the real numbers they carry.

The cost is counted in real numbers (DUETS §2). Each field declares its wire form: `reals` and `real` are
counted; digests, lengths and agent numbers are overhead of fixed size and are not. The encoding is in `wire`.

One epoch of DUETS (sizes in reals; d is the numbers per point, 1 when points are sent as indices):

    agent → server   Ready             0          digests of the active set and of the epoch's draws
    server → agent   Inducing          |S|·d      S_j, in the order that all parties use
    agent → server   ProjectedRewards  |S|        K_{S,D}Y of the agent's draws
    server → agent   Solution          |S| + 2    weights of the mean, σ_max, and the cutoff of the trim
    server → agent   Confirm           0          in the last epoch, instead of the above: digests agree

    on disagreement  ActiveArms, ActiveChain, EpochDraws     the server's active set or draws
    on silence       Ping              0          a request to send a report again

The baselines use `SyncRequest` and `SyncCall`, then `Upload` and `Data` (DisKernelUCB), or `Upload`,
`Inducing`, `Statistics` up and `Statistics` down (ApproxDisKernelUCB).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

SERVER = -1  # the sender number of the server
DIGEST_BYTES = 8
_LARGEST = 1e100

WANT_READY, WANT_PROJECTED_REWARDS = 1, 2  # the report that a Ping requests

# the wire form of a field; the first two are counted
REALS, REAL, INTEGER, INTEGERS, DIGEST = (
    {"wire": form} for form in ("reals", "real", "integer", "integers", "digest")
)

_REGISTRY: dict[int, type[Message]] = {}


@dataclass(frozen=True, eq=False)
class Message:
    """The common part of all messages: the sender and the epoch (or sync) the message belongs to."""

    KIND: ClassVar[int] = 0

    sender: int
    epoch: int

    def __init_subclass__(cls) -> None:
        assert cls.KIND not in _REGISTRY, "each kind of message needs a number of its own"
        _REGISTRY[cls.KIND] = cls

    @property
    def name(self) -> str:
        """The name of the kind of message."""
        return type(self).__name__

    @property
    def real_numbers(self) -> int:
        """The number of reals the message carries, the cost of DUETS §2."""
        total = 0
        for name, form in wire_fields(type(self)):
            total += 1 if form == "real" else getattr(self, name).size if form == "reals" else 0
        return total

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Message):
            return False
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    def __hash__(self) -> int:
        return hash((self.KIND, self.sender, self.epoch))


def wire_fields(kind: type[Message]) -> list[tuple[str, str]]:
    """Names and wire forms of the fields after the header."""
    return [(f.name, f.metadata["wire"]) for f in fields(kind) if "wire" in f.metadata]


def message_kind(number: int) -> type[Message] | None:
    """The class with this kind number."""
    return _REGISTRY.get(number)


def digest_of(array: NDArray[Any]) -> bytes:
    """A digest of an array's values and shape, the same on every machine."""
    form = "<i8" if array.dtype.kind == "i" else "<f8"
    sha = hashlib.blake2b(f"{form}{array.shape}".encode(), digest_size=DIGEST_BYTES)
    sha.update(np.ascontiguousarray(array, dtype=form).tobytes())
    return sha.digest()


def plausible(numbers: NDArray[Any]) -> bool:
    """Whether all numbers are finite and so small that sums of their products cannot overflow."""
    return bool(np.isfinite(numbers).all() and (np.abs(numbers) < _LARGEST).all())


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return bool(alike and one.tobytes() == other.tobytes())
    return bool(one == other) or (one != one and other != other)


# ------------------------------------------------------------------ DUETS


@dataclass(frozen=True, eq=False)
class Ready(Message):
    """Up: the agent has entered this epoch; digests of its active set and of its draws."""

    KIND = 1
    active: bytes = field(metadata=DIGEST)
    draws: bytes = field(metadata=DIGEST)


@dataclass(frozen=True, eq=False)
class Inducing(Message):
    """Down: the linearly independent inducing points S, in the order that fixes the common basis."""

    KIND = 2
    points: NDArray[Any] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class ProjectedRewards(Message):
    """Up: K_{S,D}Y for the agent's draws D and rewards Y; `basis` is the digest of S."""

    KIND = 3
    basis: bytes = field(metadata=DIGEST)
    values: NDArray[np.float64] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class Solution(Message):
    """Down: the weights of μ̃(x) = k_S(x)ᵀ weights, σ_max, and the cutoff below which arms are trimmed.

    `basis` is the digest of S, so that the weights are never used with another S of the same size.
    """

    KIND = 4
    basis: bytes = field(metadata=DIGEST)
    weights: NDArray[np.float64] = field(metadata=REALS)
    sigma_max: float = field(metadata=REAL)
    cutoff: float = field(metadata=REAL)


@dataclass(frozen=True, eq=False)
class Confirm(Message):
    """Down: in the last epoch, the digests agree and the agent may make its last pulls."""

    KIND = 5


@dataclass(frozen=True, eq=False)
class ActiveArms(Message):
    """Down, on disagreement: the active set of a pool, as arm indices or as one bit per arm."""

    KIND = 6
    as_bits: int = field(metadata=INTEGER)
    numbers: NDArray[np.int64] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class ActiveChain(Message):
    """Down, on disagreement: the active region of a box, as the chain of all trims so far."""

    KIND = 7
    sizes: NDArray[np.int64] = field(metadata=INTEGERS)
    points: NDArray[np.float64] = field(metadata=REALS)
    weights: NDArray[np.float64] = field(metadata=REALS)
    cutoffs: NDArray[np.float64] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class EpochDraws(Message):
    """Down, on disagreement: the points the agent must pull in this epoch."""

    KIND = 8
    points: NDArray[Any] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class Ping(Message):
    """Down, on silence: send a report again (`WANT_READY` or `WANT_PROJECTED_REWARDS`)."""

    KIND = 9
    wanted: int = field(metadata=INTEGER)


# ------------------------------------------------------------------ the baselines


@dataclass(frozen=True, eq=False)
class SyncRequest(Message):
    """Up: the agent's trigger has fired; `epoch` is the number of the sync it requests."""

    KIND = 20


@dataclass(frozen=True, eq=False)
class SyncCall(Message):
    """Down: all agents must report for this sync."""

    KIND = 21


@dataclass(frozen=True, eq=False)
class Upload(Message):
    """Up: new points with rewards (DisKernelUCB), or candidate inducing points (ApproxDisKernelUCB).

    `known` is the last sync whose result the agent has; the server sends it all later data. `first` is the
    number of the agent's own pulls before these points.
    """

    KIND = 22
    known: int = field(metadata=INTEGER)
    first: int = field(metadata=INTEGER)
    points: NDArray[Any] = field(metadata=REALS)
    rewards: NDArray[np.float64] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class Data(Message):
    """Down: the points and rewards of all agents after sync `known`, in order, `counts[n]` from agent n.

    A receiver whose last sync is not `known` must ignore the message, because it would count data twice.
    """

    KIND = 23
    known: int = field(metadata=INTEGER)
    counts: NDArray[np.int64] = field(metadata=INTEGERS)
    points: NDArray[Any] = field(metadata=REALS)
    rewards: NDArray[np.float64] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class Statistics(Message):
    """Up: ZᵀZ (upper triangle) and Zᵀy of one agent's `pulls`. Down: their sums over `agents`.

    `basis` is the digest of the S on which the embedding z is defined.
    """

    KIND = 24
    basis: bytes = field(metadata=DIGEST)
    agents: NDArray[np.int64] = field(metadata=INTEGERS)
    gram: NDArray[np.float64] = field(metadata=REALS)
    vector: NDArray[np.float64] = field(metadata=REALS)
    pulls: int = field(metadata=INTEGER)
