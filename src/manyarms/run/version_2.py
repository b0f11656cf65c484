"""States that campaigns saved in version 2, brought into the present form.

Version 2 kept the places of its random streams. Streams are now addressed by a number that only has to be a
new one; the next ticket's number is.
"""

from __future__ import annotations

from typing import Any


def upgraded(manifest: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """Manifest and arrays of a compact state in version 2, as a compact state of version 3."""
    tickets = manifest["ledger"]
    return {
        "pool": manifest["pool"],
        "model": manifest["model"],
        "memory": manifest["memory"],
        "posterior": _part(arrays, "posterior_"),
        "history": _part(arrays, "history_"),
        "tickets": tickets,
        "waiting": manifest["waiting"],
        "design": manifest["plan"],
        "n_unasked": manifest["unasked"],
        "n_batches": tickets["next_ticket"],
        "n_feedbacks": tickets["next_ticket"],
    }


def _part(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
