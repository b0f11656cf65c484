"""Domains other than a pool: `Optimizer(domain)` makes a run of the class that was written for it.

Such a class inherits from `Optimizer` and is registered under the name of its domain, so that this package
need not know it. The name is also written to saved runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

_CLASSES: dict[str, Callable[[], type[Any]]] = {}


class Domain(Protocol):
    """What can be searched instead of a pool."""

    @property
    def domain(self) -> str:
        """The name of this kind of domain."""


def register(name: str, runs: Callable[[], type[Any]]) -> None:
    """From now on, a run on a domain of this name is of the class that `runs` gives, at its first use."""
    _CLASSES[name] = runs


class OnDomains:
    """The base of `Optimizer`, which looks for the class of its runs."""

    def __new__(cls, pool: Any = None, *_: Any, **__: Any) -> Any:
        """A run on this pool or, on another domain, one of the class made for it."""
        name = getattr(pool, "domain", None)
        known = isinstance(name, str) and name in _CLASSES
        return super().__new__(_CLASSES[name]() if known else cls)  # type: ignore[index]

    @property
    def domain(self) -> Any:
        """What is searched: the pool, or the domain that was given instead of one."""
        return self.pool  # type: ignore[attr-defined]

    @classmethod
    def class_for(cls, plain: Mapping[str, Any]) -> type[Any]:
        """The class of a saved run."""
        name = plain.get("domain", {}).get("name")
        return _CLASSES[name]() if name in _CLASSES else cls
