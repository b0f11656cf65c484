"""Build HTML and SVG in which the user's texts are always escaped.

A `Markup` is text that is safe to write; `tag` escapes everything else.
"""

from __future__ import annotations

import re
from html import escape

# Characters that XML and HTML do not allow, including lone surrogates.
FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010fffd]")
LONGEST_TITLE = 10_000
EMPTY = {"meta", "link"}


class Markup(str):
    """Text that is already valid HTML."""

    __slots__ = ()


def safe(text: str) -> Markup:
    """Any text, escaped for use between tags and in quoted attributes."""
    return text if isinstance(text, Markup) else Markup(escape(FORBIDDEN.sub("\ufffd", text)))


def tag(name: str, /, *children: str, **attributes: object) -> Markup:
    """An element. `class_` becomes class, other underscores become hyphens, and None omits an attribute."""
    head = name + "".join(
        f' {key.rstrip("_").replace("_", "-")}="{safe(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY and not children:
        return Markup(f"<{head}/>")
    return Markup(f"<{head}>{''.join(map(safe, children))}</{name}>")


def join(parts: list[Markup], between: str = "\n") -> Markup:
    """Concatenate pieces of HTML."""
    return Markup(between.join(parts))


def shortened(text: str, longest: int) -> str:
    """The text on one line of at most `longest` characters; an ellipsis marks a cut."""
    line = " ".join(text[: 4 * longest].split())
    cut = len(line) > longest or len(text) > 4 * longest
    return f"{line[: longest - 1]}…" if cut else line


def user_text(text: str, longest: int = 60) -> Markup:
    """A user's text: isolated from the text direction around it, with the full text as its title."""
    line = shortened(text, longest)
    return tag("bdi", line, title=None if line == text else shortened_title(text))


def shortened_title(text: str) -> str:
    """A text for a title attribute, cut only beyond `LONGEST_TITLE` characters."""
    return text if len(text) <= LONGEST_TITLE else f"{text[:LONGEST_TITLE]}…"
