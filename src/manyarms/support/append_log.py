"""An immutable sequence that grows at its end without copying what is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")
_LOCK = Lock()


class AppendLog(Generic[T]):
    """The first entries of a list that later logs share and lengthen.

    Adding to the latest log appends to the shared list. Adding to an earlier one copies its own entries, so
    no log ever changes, whatever is done with another.
    """

    __slots__ = ("_entries", "_length")

    def __init__(self, entries: Iterable[T] = ()) -> None:
        self._entries = list(entries)
        self._length = len(self._entries)

    def added(self, entries: Iterable[T]) -> AppendLog[T]:
        """With more entries at the end."""
        new = list(entries)
        longer: AppendLog[T] = AppendLog.__new__(AppendLog)
        with _LOCK:  # two threads must not both find that they have the latest log
            latest = len(self._entries) == self._length
            longer._entries = self._entries if latest else self._entries[: self._length]
            longer._entries.extend(new)
            longer._length = self._length + len(new)
        return longer

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: int) -> T:
        if not -self._length <= place < self._length:
            raise IndexError(place)
        return self._entries[place if place >= 0 else self._length + place]

    def __iter__(self) -> Iterator[T]:
        return iter(self._entries[: self._length])
