"""Every message between an agent and the server, as a frozen value that knows how many reals it carries.

Costs are counted in real numbers (DUETS §2). Each field says what it is on the wire: `reals` and `real`
are counted; digests, lengths and numbers of agents are bookkeeping of fixed size and belong to the
header. The encoding is in `wire`.

DUETS, one epoch (sizes in reals, d = numbers per point, 1 when points go as indices):

    agent → server   Ready            0          digests of the active set and of the coming draws
    server → agent   Inducing         |S|·d      S_j, in the order in which everybody uses it
    agent → server   Projection       |S|        K_{S,D}Y of the agent's draws
    server → agent   Solution         |S| + 2    weights of the mean, σ_max, and the value below which arms go
    server → agent   Confirm          0          in the last epoch instead of all this: digests agree, go on

    on disagreement  ActiveArms / ActiveChain / Draws     what the server holds
    on silence       Ping             0          "send me this again"

Baselines: `SyncRequest`, `SyncCall`, then `Upload` and `Data` (DisKernelUCB), or `Upload`, `Inducing`,
`Statistics` up and `Statistics` down (ApproxDisKernelUCB).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

SERVER = -1  # the server's number as a sender
DIGEST_BYTES = 8

WANT_READY, WANT_PROJECTION = 1, 2  # what a Ping asks for

# what a field is on the wire; the first two are counted
REALS, REAL, WHOLE, WHOLES, DIGEST = (
    {"wire": form} for form in ("reals", "real", "whole", "wholes", "digest")
)

_REGISTRY: dict[int, type[Message]] = {}


@dataclass(frozen=True, eq=False)
class Message:
    """Common part: who sent it, and in which epoch (or sync) it belongs."""

    KIND: ClassVar[int] = 0

    sender: int
    epoch: int

    def __init_subclass__(cls) -> None:
        assert cls.KIND not in _REGISTRY, "each kind of message has its own number"
        _REGISTRY[cls.KIND] = cls

    @property
    def name(self) -> str:
        """The kind of message, as a word."""
        return type(self).__name__

    @property
    def real_numbers(self) -> int:
        """How many reals it carries: the cost of DUETS §2."""
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
    """Names and wire forms of the fields behind the header."""
    return [(f.name, f.metadata["wire"]) for f in fields(kind) if "wire" in f.metadata]


def message_kind(number: int) -> type[Message] | None:
    """The class with this number on the wire."""
    return _REGISTRY.get(number)


def digest_of(array: NDArray[Any]) -> bytes:
    """A digest of numbers, their shape and their order, the same on every machine."""
    form = "<i8" if array.dtype.kind == "i" else "<f8"
    sha = hashlib.blake2b(f"{form}{array.shape}".encode(), digest_size=DIGEST_BYTES)
    sha.update(np.ascontiguousarray(array, dtype=form).tobytes())
    return sha.digest()


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return bool(alike and one.tobytes() == other.tobytes())
    return bool(one == other) or (one != one and other != other)


# ------------------------------------------------------------------ DUETS


@dataclass(frozen=True, eq=False)
class Ready(Message):
    """Up: I am in this epoch, with this active set, and these will be my draws."""

    KIND = 1
    active: bytes = field(metadata=DIGEST)
    draws: bytes = field(metadata=DIGEST)


@dataclass(frozen=True, eq=False)
class Inducing(Message):
    """Down: the inducing points S, in the order that fixes the common basis; dependent ones left out."""

    KIND = 2
    points: NDArray[Any] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class Projection(Message):
    """Up: K_{S,D}Y for the agent's own draws D and rewards Y; `basis` is the digest of the S meant."""

    KIND = 3
    basis: bytes = field(metadata=DIGEST)
    values: NDArray[np.float64] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class Solution(Message):
    """Down: μ̃(x) = k_S(x)ᵀ weights, σ_max, and the cut: arms with μ̃ below it leave the active set.

    `basis` is the digest of the S meant, so that weights never meet another S of the same size.
    """

    KIND = 4
    basis: bytes = field(metadata=DIGEST)
    weights: NDArray[np.float64] = field(metadata=REALS)
    sigma_max: float = field(metadata=REAL)
    cutoff: float = field(metadata=REAL)


@dataclass(frozen=True, eq=False)
class Confirm(Message):
    """Down: in the last epoch, digests agree; pull and be done."""

    KIND = 5


@dataclass(frozen=True, eq=False)
class ActiveArms(Message):
    """Down, on disagreement: the active set of a pool, as arm indices or as one bit per arm in words."""

    KIND = 6
    as_bits: int = field(metadata=WHOLE)
    numbers: NDArray[np.int64] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class ActiveChain(Message):
    """Down, on disagreement: the active region of a box, as the chain of all trims so far."""

    KIND = 7
    sizes: NDArray[np.int64] = field(metadata=WHOLES)
    points: NDArray[np.float64] = field(metadata=REALS)
    weights: NDArray[np.float64] = field(metadata=REALS)
    cutoffs: NDArray[np.float64] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class Draws(Message):
    """Down, on disagreement: the points the agent is to pull in this epoch."""

    KIND = 8
    points: NDArray[Any] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class Ping(Message):
    """Down, on silence: send this again (`WANT_READY` or `WANT_PROJECTION`)."""

    KIND = 9
    wanted: int = field(metadata=WHOLE)


# ------------------------------------------------------------------ the baselines


@dataclass(frozen=True, eq=False)
class SyncRequest(Message):
    """Up: my event trigger fired; `epoch` is the sync I ask for."""

    KIND = 20


@dataclass(frozen=True, eq=False)
class SyncCall(Message):
    """Down: everybody, report for this sync."""

    KIND = 21


@dataclass(frozen=True, eq=False)
class Upload(Message):
    """Up: new points with their rewards (DisKernelUCB), or inducing candidates without (Approx).

    `known` is the last sync whose result the agent has: the server sends it whatever came after. `first`
    is the number of the agent's own pulls before these points.
    """

    KIND = 22
    known: int = field(metadata=WHOLE)
    first: int = field(metadata=WHOLE)
    points: NDArray[Any] = field(metadata=REALS)
    rewards: NDArray[np.float64] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class Data(Message):
    """Down: everybody's points and rewards after sync `known`, `counts[n]` of them from agent n, in order.

    A receiver whose own last sync is another one must not take it in: some would count twice.
    """

    KIND = 23
    known: int = field(metadata=WHOLE)
    counts: NDArray[np.int64] = field(metadata=WHOLES)
    points: NDArray[Any] = field(metadata=REALS)
    rewards: NDArray[np.float64] = field(metadata=REALS)


@dataclass(frozen=True, eq=False)
class Statistics(Message):
    """Up: ZᵀZ (upper triangle) and Zᵀy of one agent's `pulls`. Down: their sums over `agents`.

    `basis` is the digest of the S that z is meant on.
    """

    KIND = 24
    basis: bytes = field(metadata=DIGEST)
    agents: NDArray[np.int64] = field(metadata=WHOLES)
    gram: NDArray[np.float64] = field(metadata=REALS)
    vector: NDArray[np.float64] = field(metadata=REALS)
    pulls: int = field(metadata=WHOLE)
