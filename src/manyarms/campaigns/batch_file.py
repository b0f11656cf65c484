"""The batch file that `ask` writes: one row per ticket, with an empty column `value` to fill in."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import IO, Any

from manyarms.campaigns.explaining import columns_text, nearest_text
from manyarms.campaigns.orders import COST_COLUMNS, Issued
from manyarms.campaigns.spreadsheet_cells import as_text_cell
from manyarms.pool.excel import write_sheet
from manyarms.support.output_files import flush_to_disk

EXPLAINED = ("nearest_measured", "speaks_for_it")  # present if explanations were asked for
_RESERVED = ("ticket", "predicted_mean", "predicted_sd", "reason", "value")


def batch_lines(issued: Sequence[Issued], id_column: str) -> list[dict[str, Any]]:
    """Ticket, id, the user's own columns, the prediction if there is one, and an empty value.

    If one of the user's columns has a reserved name, it is called `pool.NAME` here, so that the completed
    file can be imported without changes. Explanations take two columns of text, if there are any, and costs
    two columns of numbers.
    """
    explained, costly = any(line.explanation for line in issued), any(line.cost for line in issued)
    taken = {*_RESERVED, id_column, "failed", *(EXPLAINED if explained else ())}
    taken |= {*COST_COLUMNS} if costly else set()
    return [
        {
            "ticket": line.code,
            id_column: line.id,
            **{f"pool.{name}" if name in taken else name: cell for name, cell in line.columns.items()},
            "predicted_mean": line.predicted if line.predicts else None,
            "predicted_sd": line.predicted_std if line.predicts else None,
            **(dict(zip(COST_COLUMNS, (line.cost, line.gain_per_cost), strict=True)) if costly else {}),
            "reason": line.reason,
            **(_explained(line) if explained else {}),
            "value": "",
        }
        for line in issued
    ]


def _explained(line: Issued) -> dict[str, str]:
    if line.explanation is None:
        return dict.fromkeys(EXPLAINED, "")
    found = dict(line.explanation)
    return dict(zip(EXPLAINED, (nearest_text(found), columns_text(found)), strict=True))


def write_batch(
    stream: IO[Any], issued: Sequence[Issued], id_column: str, delimiter: str | None = ","
) -> None:
    """Write a batch to a file, and flush it to disk; without a delimiter, as an Excel file."""
    write_batch_cells(stream, issued, id_column, delimiter)
    flush_to_disk(stream)


def write_batch_cells(
    stream: IO[Any], issued: Sequence[Issued], id_column: str, delimiter: str | None = ","
) -> None:
    """Write the header and the rows to any stream."""
    lines = batch_lines(issued, id_column)
    header = list(lines[0]) if lines else ["ticket", id_column, *_RESERVED[1:]]
    rows = [list(line.values()) for line in lines]
    if delimiter is None:
        write_sheet(stream, header, rows)
    else:
        csv.writer(stream, delimiter=delimiter).writerows(map(as_text_cell, row) for row in (header, *rows))
