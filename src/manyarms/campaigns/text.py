"""Make arbitrary text safe to print and to store."""

from __future__ import annotations


def one_line(text: str) -> str:
    """The text on one line, with every character that is not printable written as an escape sequence."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
