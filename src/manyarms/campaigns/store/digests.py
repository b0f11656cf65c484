"""Digests of the rows that decide what a campaign does next: its settings and the saved state of its model.

A row that was changed by a fault or by hand is refused when the campaign is opened.
"""

from __future__ import annotations

import hashlib


def settings_digest(identity: str, settings: str, n_arms: int) -> str:
    """The digest of the settings of a campaign."""
    return hashlib.sha256(repr((identity, settings, n_arms)).encode("utf-8", "surrogatepass")).hexdigest()


def state_digest(batch: int, sequence: int, data: bytes) -> str:
    """The digest of a saved state and of its place in the campaign."""
    return hashlib.sha256(repr((batch, sequence)).encode() + bytes(data)).hexdigest()
