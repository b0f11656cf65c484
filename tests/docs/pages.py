"""Run the Python examples of a page: one script per page, its blocks in order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def python_blocks(page: str) -> list[tuple[int, str]]:
    """The examples of a page with the number of the line before each."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start(1)].count("\n"), match[1]) for match in found]


def run_page(page: str) -> dict[str, Any]:
    """The names that the examples of a page define; an error shows the line of the page."""
    names: dict[str, Any] = {"__name__": "__main__"}
    blocks = python_blocks(page)
    assert blocks, f"{page} has no example"
    for line, code in blocks:
        exec(compile("\n" * line + code, str(ROOT / page), "exec"), names)
    return names
