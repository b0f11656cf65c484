"""The names of tickets, such as 7-k3f5m: a number and a check.

Ticket numbers follow from the results, so an ask that fails and is repeated uses the same numbers, possibly
for other candidates. A file that a failed ask has left behind must not be mistaken for a batch that was
handed out. Each attempt to hand out a batch therefore draws a random nonce, which is stored only if the
attempt succeeds, and the check follows from the campaign, the nonce and the number. One of 800 000 checks is
accepted for a ticket.

Tickets handed out before there were checks have no nonce, and their name is the number.
"""

from __future__ import annotations

import hashlib
import secrets

_LETTERS, _DIGITS = "bcdfghjkmnpqrstvwxyz", "0123456789"
_PATTERN = (_LETTERS, _DIGITS, _LETTERS, _DIGITS, _LETTERS)  # neither a number nor a month in a spreadsheet
_MOST_DIGITS = 18


def new_nonce() -> str:
    """A random text for one attempt to hand out a batch."""
    return secrets.token_hex(8)


def new_identity() -> str:
    """A random text that identifies a campaign, also in its exports."""
    return secrets.token_hex(6)


def ticket_code(identity: str, nonce: str | None, ticket: int) -> str:
    """The name of a ticket; without a nonce, its number."""
    if nonce is None:
        return str(ticket)
    rest = int.from_bytes(hashlib.sha256(f"{identity} {nonce} {ticket}".encode()).digest())
    check = ""
    for letters in _PATTERN:
        rest, place = divmod(rest, len(letters))
        check += letters[place]
    return f"{ticket}-{check}"


def parsed_code(text: str) -> tuple[int, str | None] | None:
    """The number of a ticket, and its check if the text has one; None if this is not the name of a ticket."""
    number, dash, check = text.strip().lower().partition("-")
    if not (number.isascii() and number.isdecimal()) or len(number) > _MOST_DIGITS:
        return None
    if dash and not (check.isascii() and check.isalnum()):
        return None
    return int(number), check if dash else None
