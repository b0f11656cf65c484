"""The file that `ask` writes: one line per ticket, with an empty `value` to be filled in and told."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import IO, Any

from manyarms.campaigns.campaign import Issued
from manyarms.campaigns.pool_file.files import on_disk

_OURS = ("ticket", "predicted_mean", "predicted_sd", "reason", "value")


def batch_lines(issued: Sequence[Issued], id_column: str) -> list[dict[str, Any]]:
    """Ticket, id, the user's own columns, what the model thinks, and room for the result.

    A column of the user's that has one of our names is called `pool.NAME` here, so that the file can be
    told as it is.
    """
    taken = {*_OURS, id_column, "failed"}
    return [
        {
            "ticket": line.ticket,
            id_column: line.id,
            **{f"pool.{name}" if name in taken else name: cell for name, cell in line.columns.items()},
            "predicted_mean": line.predicted,
            "predicted_sd": line.predicted_std,
            "reason": line.reason,
            "value": "",
        }
        for line in issued
    ]


def write_batch(stream: IO[str], issued: Sequence[Issued], id_column: str, delimiter: str = ",") -> None:
    """Write the header and the lines, none of them left in a buffer."""
    lines = batch_lines(issued, id_column)
    header = list(lines[0]) if lines else ["ticket", id_column, *_OURS[1:]]
    writer = csv.DictWriter(stream, header, delimiter=delimiter)
    writer.writeheader()
    writer.writerows(lines)
    on_disk(stream)
