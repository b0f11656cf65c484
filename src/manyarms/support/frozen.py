"""Frozen dataclasses: fields that are normalised during construction, and copies with some fields changed."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

T = TypeVar("T")


def replace_field(instance: Any, name: str, value: Any) -> None:
    """Store a checked value in a frozen dataclass during its construction."""
    assert dataclasses.is_dataclass(instance)
    object.__setattr__(instance, name, value)


def changed(instance: T, **changes: Any) -> T:
    """`dataclasses.replace` without repeating the construction, for values that are made at every step.

    The fields given must exist, and the class must need no checks: `__post_init__` is not called.
    """
    copy: T = object.__new__(type(instance))
    before, after, fields = vars(instance), vars(copy), instance.__dataclass_fields__  # type: ignore[attr-defined]
    after.update(before)
    if len(after) > len(fields):  # what has been computed from the fields belongs to the old value
        for name in before:
            if name not in fields:
                del after[name]
    after.update(changes)
    return copy
