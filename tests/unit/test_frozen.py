"""Copies of frozen values with some fields changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from manyarms.support.frozen import changed


@dataclass(frozen=True)
class Pair:
    left: int
    right: int = 2

    @cached_property
    def total(self) -> int:
        return self.left + self.right


def test_what_was_computed_from_the_fields_is_computed_again() -> None:
    first = Pair(1)
    assert first.total == 3
    second = changed(first, left=10)
    assert (second, second.total) == (Pair(10, 2), 12)
    assert (first, first.total) == (Pair(1, 2), 3)
    assert vars(changed(second)) == {"left": 10, "right": 2}
