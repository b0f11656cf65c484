"""Calls to shards that wait until something reads what they make, and are then sent with that call.

A message costs about as much as a small step, and a step asks for little: new values of all arms, then the
highest of them. The first of these calls is put here and sent with the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from manyarms.engines.base import Keeps
from manyarms.engines.call_log import Name

MISSING: Any = object()  # in the place of an answer


@dataclass(eq=False)
class Call:
    """A call to shards: its arguments for each of them (None leaves one out), plain and packed."""

    method: str
    args: Sequence[tuple[Any, ...] | None]
    packed: Sequence[bytes | None]
    keeps: Keeps | None
    answers: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.answers = [None if packed is None else MISSING for packed in self.packed]

    @property
    def first(self) -> tuple[Any, ...]:
        """The arguments for the first shard that is called; empty if none is."""
        return next((args for args in self.args if args is not None), ())

    @property
    def makes(self) -> Name | None:
        """The kind and the number of what the call makes or changes."""
        return None if self.keeps is None else (self.keeps.kind, self.first[self.keeps.makes])

    @property
    def may_read(self) -> set[Name]:
        """The versions with a number among the first arguments: all that it reads, and perhaps others."""
        return {("version", value) for value in self.first[:3] if type(value) is int}

    @property
    def begins(self) -> bool:
        """Whether the call may begin a chain of versions, which takes much longer than other calls."""
        return self.keeps is not None and self.keeps.begins is not None

    @property
    def is_answered(self) -> bool:
        """Whether all shards have answered."""
        return not any(answer is MISSING for answer in self.answers)

    def lost(self, shard: int) -> None:
        """The shard is made again, without what this call left with it."""
        if self.packed[shard] is not None:
            self.answers[shard] = MISSING


class Outbox:
    """The calls that wait, by what each makes."""

    def __init__(self) -> None:
        self._waiting: dict[Name | None, Call] = {}

    def __iter__(self) -> Iterator[Call]:
        return iter(self._waiting.values())

    def add(self, call: Call) -> None:
        """Let a call wait."""
        self._waiting[call.makes] = call

    def up_to(self, call: Call) -> list[Call]:
        """The waiting calls that must be made before this one, in order, and the call itself."""
        found, wanted = [call], call.may_read
        for other in reversed(self._waiting.values()):
            if other is not call and other.makes in wanted:
                found.append(other)
                wanted |= other.may_read
        return found[::-1]

    def remove(self, call: Call) -> None:
        """The call has been answered."""
        if self._waiting.get(call.makes) is call:
            del self._waiting[call.makes]

    def drop(self, name: Name) -> None:
        """Leave out the call, if there is one, that makes what nobody refers to any more."""
        self._waiting.pop(name, None)

    def needs(self, name: Name) -> bool:
        """Whether a waiting call may read this, which then cannot be forgotten yet."""
        return any(name in call.may_read and name != call.makes for call in self)
