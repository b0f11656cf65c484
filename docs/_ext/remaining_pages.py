"""`<!-- remaining pages -->` in index.md becomes a list of the pages that no other list of it names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

MARKER = "<!-- remaining pages -->"


def remaining(index: str, pages: set[str]) -> list[str]:
    """The pages that are not named in a toctree of the index."""
    listed = set(re.findall(r"^([\w/-]+)$", index, re.MULTILINE))
    return sorted(pages - listed - {"index"})


def fill(app: Any, name: str, source: list[str]) -> None:
    """Replace the marker when the index is read."""
    if name != "index" or MARKER not in source[0]:
        return
    pages = {path.stem for path in Path(app.srcdir).glob("*.md")}
    rest = remaining(source[0], pages)
    tree = "\n".join(["```{toctree}", ":caption: Further pages", ":maxdepth: 1", "", *rest, "```"])
    source[0] = source[0].replace(MARKER, tree if rest else "")


def setup(app: Any) -> dict[str, bool]:
    """Register the replacement with Sphinx."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True}
