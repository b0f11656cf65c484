"""Cells of a CSV file that a spreadsheet would run as a formula are written as text, and read back unchanged.

A text that begins with =, +, -, @, a tab or a carriage return gets an apostrophe in front. So does one that
begins with apostrophes before such a character, which makes the rule reversible. Numbers stay as they are.
"""

from __future__ import annotations

import re
from typing import Any

_WRITTEN = re.compile(r"'*[=+\-@\t\r]")
_READ = re.compile(r"'+[=+\-@\t\r]")
_NUMBER = re.compile(r"[-+]?[\d.,]+([eE][-+]?\d+)?")


def as_text_cell(cell: Any) -> Any:
    """What to write for this cell."""
    if not isinstance(cell, str) or not _WRITTEN.match(cell) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def from_text_cell(cell: str) -> str:
    """The cell for which `as_text_cell` returned this text."""
    return cell[1:] if _READ.match(cell) else cell
