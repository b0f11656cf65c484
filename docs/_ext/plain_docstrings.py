"""Docstrings of this project in Sphinx: arguments as fields, names in single backticks as code.

The docstrings are plain text. A line `name: explanation` that begins a block explains an argument; lines that
are indented below it continue the explanation.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

_ARGUMENT = re.compile(r"^(\w+(?:, \w+)*): (\S.*)$")
_CODE = re.compile(r"(?<![`:\w])`([^`\n]+)`(?![`_])")


def fields(lines: list[str], names: set[str]) -> list[str]:
    """The lines with arguments as `:param name:` fields, at the end, and code in double backticks."""
    text: list[str] = []
    found: list[str] = []
    inside = False
    for line in lines:
        line = marked_up(line)
        match = _ARGUMENT.match(line)
        if match and set(match[1].split(", ")) <= names:
            inside = True
            *others, last = match[1].split(", ")
            found += [f":param {name}: see ``{last}``." for name in others]
            found.append(f":param {last}: {match[2]}")
        elif inside and line.startswith("    "):
            found.append(line)
        else:
            inside = inside and not line.strip()
            text.append(line)
    return [*text, "", *found, ""] if found else text


def marked_up(line: str) -> str:
    """Names in single backticks as code; signs with a meaning in reStructuredText as they are elsewhere."""
    parts = _CODE.sub(r"``\1``", line).split("``")
    return "``".join(part if i % 2 else re.sub(r"([|*])", r"\\\1", part) for i, part in enumerate(parts))


def process(app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Rewrite the docstring of one object."""
    lines[:] = fields(list(lines), arguments(item))


def arguments(item: Any) -> set[str]:
    """The names that a docstring may explain: parameters of a function or class, fields of a dataclass."""
    names: set[str] = set(getattr(item, "__dataclass_fields__", ()))
    for function in (item, getattr(item, "__init__", None), getattr(item, "__wrapped__", None)):
        code = getattr(function, "__code__", None)
        if code is not None:
            names |= set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2])
    return names


def signature(
    app: Any, what: str, name: str, item: Any, options: Any, arguments: str | None, result: str | None
) -> tuple[str, str | None] | None:
    """The arguments of `__init__` for a class with a `__new__` that only chooses the class."""
    if what != "class" or "__init__" not in vars(item):
        return None
    if item.__new__ is object.__new__:
        return None
    found = inspect.signature(item.__init__)
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values()]
    return str(inspect.Signature(plain[1:])), result


def setup(app: Any) -> dict[str, bool]:
    """Register the rewriting with Sphinx."""
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", signature)
    return {"parallel_read_safe": True}
