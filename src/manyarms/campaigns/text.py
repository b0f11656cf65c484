"""Text from anywhere, made fit to be shown and stored."""

from __future__ import annotations


def one_line(text: str) -> str:
    """No line breaks, no control characters, nothing that UTF-8 or a database cannot hold."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
