"""Frozen dataclasses that normalise their fields during construction."""

from __future__ import annotations

import dataclasses
from typing import Any


def replace_field(instance: Any, name: str, value: Any) -> None:
    """Store a checked value in a frozen dataclass during its construction."""
    assert dataclasses.is_dataclass(instance)
    object.__setattr__(instance, name, value)
