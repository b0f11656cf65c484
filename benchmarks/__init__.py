"""Benchmarks, most of them with a target ("bar"): `python -m benchmarks [names] [--smoke]`.

To add a benchmark, add a module to this folder with a list `BENCHMARKS` of functions `f(smoke) -> list[Row]`.
It is discovered automatically and can be selected as `module` or `module.function`. Smoke mode runs the same
code on a tiny problem in a second or two; its figures are meaningless and its bars are not enforced.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure, its unit and its bar. `ok` is None for a figure without a bar."""

    name: str
    measured: float
    unit: str = ""
    bar: str = ""
    ok: bool | None = None
    note: str = ""


Benchmark = Callable[[bool], list[Row]]


def at_least(name: str, measured: float, bar: float, unit: str = "", note: str = "") -> Row:
    """A row that passes if the figure is at least the bar."""
    return Row(name, float(measured), unit, f"≥ {bar:g}", bool(measured >= bar), note)


def at_most(name: str, measured: float, bar: float, unit: str = "", note: str = "") -> Row:
    """A row that passes if the figure is at most the bar."""
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
    """The benchmarks with these names, or all of them if there are no names; an unknown name is an error."""
    everything = discover()
    chosen: dict[str, Benchmark] = {}
    for name in names:
        meant = {key: value for key, value in everything.items() if name in (key, *key.split("."))}
        if not meant:
            raise LookupError(f"there is no benchmark {name!r}; known are: {', '.join(everything)}")
        chosen |= meant
    return chosen or everything
