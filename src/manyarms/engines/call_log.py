"""The calls from which a lost shard is made again.

A shard that was lost is made anew from its part of the pool. The log then tells it what it kept: for each
version in use, the calls that led to it. A call that begins from scratch (`Keeps.restarts`) makes everything
between it and the start of the chain superfluous, so the log is as long as the steps since the last rebuild.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from manyarms.engines.base import Keeps

Name = tuple[str, int]  # a kind and a number


@dataclass(frozen=True)
class LoggedCall:
    """A call that all shards answered; `packed` holds the arguments of each shard."""

    order: int
    method: str
    packed: Sequence[bytes | None]
    names: tuple[Name, ...]  # what it makes and reads


@dataclass(eq=False)
class _Entry:
    """One thing that the shards keep: the calls that made and changed it, and what those calls read."""

    name: Name
    first: _Entry | None  # the entry that begins the chain; None if this one does
    calls: list[LoggedCall] = field(default_factory=list)
    needs: list[_Entry] = field(default_factory=list)


class CallLog:
    """What the shards of one pool keep, as the calls that lead to it. Entries that nothing needs vanish."""

    def __init__(self, pack: Callable[[tuple[Any, ...]], bytes]) -> None:
        self._pack = pack
        self._living: dict[Name, _Entry] = {}
        self._order = count()

    def record(
        self,
        keeps: Keeps,
        method: str,
        calls: Sequence[tuple[Any, ...] | None],
        packed: Sequence[bytes | None] | None = None,
    ) -> None:
        """Note a call that all shards have answered; `packed` are its arguments, if that is done already."""
        args = next(args for args in calls if args is not None)
        name = keeps.kind, args[keeps.makes]
        read = [self._living[kind, args[place]] for kind, place in keeps.reads]
        first = read[0].first or read[0] if read and keeps.kind == read[0].name[0] else None
        entry = self._living.get(name)
        if entry is None:
            entry = self._living[name] = _Entry(name, first)
        if first is not None and keeps.restarts(args):
            place = keeps.reads[0][1]
            calls, packed = _with_number(calls, place, first.name[1]), None
            read = [first, *read[1:]]
        entry.needs += [other for other in read if other is not entry]
        names = name, *(other.name for other in read)
        packed = self.packed(calls) if packed is None else packed
        entry.calls.append(LoggedCall(next(self._order), method, packed, names))

    def packed(self, calls: Sequence[tuple[Any, ...] | None]) -> list[bytes | None]:
        """The arguments of each shard as bytes; arguments that shards share are packed once."""
        known: dict[int, bytes] = {}
        found: list[bytes | None] = []
        for args in calls:
            if args is not None and id(args) not in known:
                known[id(args)] = self._pack(args)
            found.append(None if args is None else known[id(args)])
        return found

    def forget(self, kind: str, number: int) -> None:
        """Nothing refers to this any more; its calls stay if something else was made from it."""
        self._living.pop((kind, number), None)

    def replay(self, shard: int) -> list[tuple[str, bytes]]:
        """The calls (method and arguments) that make what this shard kept.

        What only served to make something else is forgotten as soon as it is not needed any more, by calls
        with the method "forget" and the packed name as arguments.
        """
        calls = sorted(
            (call for entry in self._needed() for call in entry.calls), key=lambda call: call.order
        )
        last = {name: place for place, call in enumerate(calls) for name in call.names}
        found = []
        for place, call in enumerate(calls):
            args = call.packed[shard]
            if args is not None:
                found.append((call.method, args))
            over = (name for name in dict.fromkeys(call.names) if last[name] == place)
            found += [("forget", self._pack(name)) for name in over if name not in self._living]
        return found

    def __len__(self) -> int:
        """The number of calls in the log."""
        return sum(len(entry.calls) for entry in self._needed())

    def _needed(self) -> list[_Entry]:
        """Everything in use, and everything that it was made from."""
        found: dict[int, _Entry] = {}
        waiting = list(self._living.values())
        while waiting:
            entry = waiting.pop()
            if id(entry) not in found:
                found[id(entry)] = entry
                waiting += entry.needs
        return list(found.values())


def _with_number(
    calls: Sequence[tuple[Any, ...] | None], place: int, number: int
) -> list[tuple[Any, ...] | None]:
    """The calls with another number at one place of their arguments; shared arguments remain shared."""
    changed: dict[int, tuple[Any, ...]] = {}
    for args in calls:
        if args is not None and id(args) not in changed:
            changed[id(args)] = (*args[:place], number, *args[place + 1 :])
    return [None if args is None else changed[id(args)] for args in calls]
