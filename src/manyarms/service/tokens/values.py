"""A token as the service knows it, the text that its owner keeps, and the scopes.

The text is `ma_ID_SECRET`. The secret has 256 random bits, so a plain SHA-256 of it can be stored: there is
nothing to guess that a slow hash would protect.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

READ, ASK, TELL, ADMIN = "read", "ask", "tell", "admin"
SCOPES = (READ, ASK, TELL, ADMIN)
EVERY_CAMPAIGN = "*"
_TEXT = re.compile(r"ma_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True)
class Token:
    """One token; `admin` includes the other scopes."""

    id: str
    name: str  # who or what uses it
    campaign: str  # the only campaign that it is for, or EVERY_CAMPAIGN
    scopes: frozenset[str]
    created_at: str
    expires_at: float | None = None  # seconds since 1970
    revoked_at: str | None = None

    def allows(self, scope: str, campaign: str | None) -> bool:
        """Whether it allows this in a campaign; with None, in every campaign."""
        there = self.campaign in (EVERY_CAMPAIGN, campaign)
        return there and (scope in self.scopes or ADMIN in self.scopes)

    def sees(self, campaign: str) -> bool:
        """Whether it is for this campaign at all."""
        return self.campaign in (EVERY_CAMPAIGN, campaign)

    def is_valid(self, moment: float) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or moment < self.expires_at)


def new_text() -> tuple[str, str, str]:
    """The id of a new token, its whole text, and the hash of its secret."""
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    return id, f"ma_{id}_{secret}", hashed(secret)


def parsed(text: str) -> tuple[str, str] | None:
    """The id and the hash of the secret; None if the text is not a token."""
    found = _TEXT.fullmatch(text)
    return None if found is None else (found[1], hashed(found[2]))


def hashed(secret: str) -> str:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()
