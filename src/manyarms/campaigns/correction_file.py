"""Read a file of corrections: a results file, optionally with the present values in a column `was`."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from manyarms.campaigns.access import TableForm
from manyarms.campaigns.results_file import ReportedResult, checked_value, read_file, read_results


def read_corrections(
    form: TableForm, path: Path, *, remove: bool
) -> tuple[list[ReportedResult], list[float | str | None]]:
    """The measured rows of the file with the present values of their results; None: not given.

    To remove results, the values of the file are the present values, so that a file can be removed as it was
    imported.
    """
    data = read_file(path)
    rows = read_results(data, str(path), form.id_column, form.id is None, form.columns, form.identity)
    before: list[float | str | None]
    if remove:
        before = ["failed" if row.value is None else row.value for row in rows]
    else:
        before = _present_values(data, path, len(rows))
    chosen = [place for place, row in enumerate(rows) if row.measured]
    return [rows[place] for place in chosen], [before[place] for place in chosen]


def _present_values(data: bytes, path: Path, size: int) -> list[float | str | None]:
    """The column `was`, which need not exist; `read_results` has checked the form of the file."""
    delimiter = "\t" if path.name.endswith(".tsv") else ","
    lines = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), delimiter=delimiter)
    header, *rows = [row for row in lines if row]
    names = [name.strip() for name in header]
    if "was" not in names:
        return [None] * size
    place = names.index("was")
    texts = [row[place].strip() for row in rows]
    return [
        text or None if text in ("", "failed") else checked_value(f"{path}: row {number}, column 'was'", text)
        for number, text in enumerate(texts)
    ]
