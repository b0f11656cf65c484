"""The sessions of browsers: a signed cookie that names a token, and the CSRF token that goes with it.

A session says which token somebody has logged in with and until when. It holds no secret, and it ends when
its token is revoked. A request that changes something must also carry the CSRF token, which follows from the
session and which a page of another site cannot read.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

COOKIE = "manyarms_session"
CSRF_HEADER, CSRF_FIELD = "X-CSRF-Token", "csrf"
SESSION_SECONDS = 12 * 3600


def new_session(key: bytes, token_id: str, moment: float | None = None) -> str:
    """The cookie of somebody who has just logged in."""
    until = int((time.time() if moment is None else moment) + SESSION_SECONDS)
    text = f"{token_id}.{until}.{secrets.token_hex(8)}"
    return f"{text}.{_signed(key, 'session', text)}"


def token_of(key: bytes, session: str, moment: float | None = None) -> str | None:
    """The id of the token of a session; None if the cookie is forged or has expired."""
    text, _, mac = session.rpartition(".")
    if not hmac.compare_digest(mac.encode(), _signed(key, "session", text).encode()):
        return None
    id, until, _ = text.split(".")
    return id if (time.time() if moment is None else moment) < int(until) else None


def csrf_token(key: bytes, session: str) -> str:
    """What a request that changes something must carry besides the cookie."""
    return _signed(key, "csrf", session)


def csrf_matches(key: bytes, session: str, given: str) -> bool:
    """Whether this is the CSRF token of the session."""
    return hmac.compare_digest(csrf_token(key, session).encode(), given.encode("utf-8", "replace"))


def _signed(key: bytes, purpose: str, text: str) -> str:
    return hmac.new(key, f"{purpose} {text}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()
