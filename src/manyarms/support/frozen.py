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
    before, after = vars(instance), vars(copy)
    for name in instance.__dataclass_fields__:  # type: ignore[attr-defined]
        after[name] = changes[name] if name in changes else before[name]
    return copy
