"""Make arbitrary text safe to print and to store."""

from __future__ import annotations

import re

# user:password@ (also with a mistyped scheme), and password=… as a parameter of an address
_USER_AND_PASSWORD = re.compile(r"([^\s/@:'\"]*):(?!//)[^\s'\"]*@")
_PARAMETER = re.compile(r"((?:password|passwd|pwd|passphrase)\s*=\s*)[^\s&#'\"]*", re.IGNORECASE)


def counted(count: int, noun: str) -> str:
    """A count with its noun in the singular or plural: 1 ticket, 2 tickets."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def counted_in_full(count: int, noun: str) -> str:
    """The same with commas between thousands, as on the pages: 20,000 candidates."""
    return counted(count, noun).replace(str(count), f"{count:,}", 1)


def one_line(text: str) -> str:
    """The text on one line, with every character that is not printable written as an escape sequence."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


def masked(text: str) -> str:
    """The text with every password in an address of a database replaced by ***."""
    return _PARAMETER.sub(r"\1***", _USER_AND_PASSWORD.sub(r"\1:***@", text))
