"""Measurements with a bar to pass: `python -m benchmarks [names…] [--smoke]`.

To add one, drop a module into this folder with a list `BENCHMARKS` of functions `f(smoke) -> list[Row]`.
It is found by itself and answers to `module` and to `module.function`. Smoke mode runs the same code on
a tiny problem in a second or two; its figures mean nothing and its bars are not enforced.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table. `ok` is None for a figure without a bar."""

    name: str
    measured: float
    unit: str = ""
    bar: str = ""
    ok: bool | None = None
    note: str = ""


Benchmark = Callable[[bool], list[Row]]


def at_least(name: str, measured: float, bar: float, unit: str = "", note: str = "") -> Row:
    """A row that passes when the figure reaches the bar."""
    return Row(name, float(measured), unit, f"≥ {bar:g}", bool(measured >= bar), note)


def at_most(name: str, measured: float, bar: float, unit: str = "", note: str = "") -> Row:
    """A row that passes when the figure stays within the bar."""
    return Row(name, float(measured), unit, f"≤ {bar:g}", bool(measured <= bar), note)


def discover() -> dict[str, Benchmark]:
    """Every benchmark in this folder, by `module.function`."""
    found: dict[str, Benchmark] = {}
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith("_"):
            module = importlib.import_module(f"{__name__}.{info.name}")
            for function in getattr(module, "BENCHMARKS", []):
                found[f"{info.name}.{function.__name__}"] = function
    return found


def select(names: Iterable[str]) -> dict[str, Benchmark]:
    """The benchmarks these names mean, all of them when there are none; an unknown name is an error."""
    everything = discover()
    chosen: dict[str, Benchmark] = {}
    for name in names:
        meant = {key: value for key, value in everything.items() if name in (key, *key.split("."))}
        if not meant:
            raise LookupError(f"no benchmark is called {name!r}; there are {', '.join(everything)}")
        chosen |= meant
    return chosen or everything
