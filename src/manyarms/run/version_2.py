"""Migration of the states that campaigns saved in version 2.

Version 2 stored the positions of its random streams. Streams are now addressed by a counter, which only has
to be a number that was not used before; the number of the next ticket satisfies this.
"""

from __future__ import annotations

from typing import Any


def upgraded(manifest: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """The manifest and arrays of a compact state of version 2 in the form of version 3."""
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
