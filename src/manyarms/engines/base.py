"""What an engine does: it places the shards of a pool, and carries calls to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from manyarms.pool.pool import Pool
from manyarms.support.column_room import ColumnRoom
from manyarms.support.validation import Ints

BLOCK = 1 << 14  # arms; shards begin at multiples of it, so every pass cuts the pool at the same places


Make = Callable[[Pool, int, ColumnRoom], Any]
Answers = Callable[[], list[Any]]  # the answers of all shards; waits for them if they are not known yet


class Shards(Protocol):
    """The shards of one pool, wherever they live."""

    starts: list[int]  # the first arm of each shard, and the number of arms

    def each(self, method: str, calls: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of each shard with its own arguments; None leaves a shard out (and gives None)."""

    def post(self, method: str, calls: Sequence[tuple[Any, ...]]) -> Answers:
        """The same for a call of all shards whose answers are not needed yet.

        An engine may send it together with the next call that reads what it makes. If the call fails there,
        it is made again by the call after that, so that what it was to make never seems to exist.
        """

    def release(self, method: str, number: int) -> None:
        """Let every shard forget what has this number, by a method of its own: nothing refers to it any more.

        It is called when an object is deleted, by any thread, and must not wait.
        """

    def extended(self, pool: Pool) -> Shards:
        """The shards of a larger pool that begins with the present arms; versions of it are made anew."""


class Engine(Protocol):
    """Something that places shards."""

    def place(self, pool: Pool, make: Make) -> Shards:
        """The shards of a pool; `make(part, first, room)` makes the shard that begins with arm `first`."""


@dataclass(frozen=True)
class Keeps:
    """What a call leaves with a shard, so that an engine can make a lost shard again.

    Things that shards keep are named by a kind, such as "version", and a number. `makes` and `reads` are
    places among the arguments that hold such numbers.
    """

    kind: str
    makes: int  # the number of what the call makes or changes
    reads: tuple[tuple[str, int], ...] = ()  # what has to exist with its present contents
    begins: Callable[[tuple[Any, ...]], bool] | None = None

    def restarts(self, args: tuple[Any, ...]) -> bool:
        """Whether the call reads only what the first call of its chain made, and nothing made in between."""
        return self.begins is not None and self.begins(args)


F = TypeVar("F", bound=Callable[..., Any])


def keeps(
    kind: str,
    makes: int,
    reads: tuple[tuple[str, int], ...] = (),
    begins: Callable[[tuple[Any, ...]], bool] | None = None,
) -> Callable[[F], F]:
    """Declare what a method of a shard, or a function that a shard runs, leaves with it (see `Keeps`)."""

    def declared(function: F) -> F:
        function.keeps = Keeps(kind, makes, reads, begins)  # type: ignore[attr-defined]
        return function

    return declared


def forgets(kind: str) -> Callable[[F], F]:
    """Declare that a method of a shard forgets what has the kind and the number given."""

    def declared(function: F) -> F:
        function.forgets = kind  # type: ignore[attr-defined]
        return function

    return declared


def repeatable(function: F) -> F:
    """Declare that a method of a shard always gives the same answer to the same arguments."""
    function.repeatable = True  # type: ignore[attr-defined]
    return function


def cuts(n_arms: int, shards: int) -> list[int]:
    """The first arm of each shard and the number of arms; there are fewer shards if there are few blocks."""
    blocks = -(-n_arms // BLOCK)
    shards = min(shards, blocks)
    return [min(n_arms, BLOCK * (i * blocks // shards)) for i in range(shards)] + [n_arms]


def by_shard(starts: Sequence[int], arms: Ints) -> list[Ints | None]:
    """For each shard, the positions in `arms` of its arms, or None if it has none."""
    owners = np.searchsorted(np.asarray(starts[1:]), arms, side="right")
    found: list[Ints | None] = [None] * (len(starts) - 1)
    for owner in np.unique(owners).tolist():
        found[owner] = np.flatnonzero(owners == owner)
    return found
