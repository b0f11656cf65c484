"""The rows of a results file as text: a text table in any of the usual formats, or an Excel file."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from manyarms.errors import ResultsFileError, TableError
from manyarms.pool.encodings import find_encoding
from manyarms.pool.excel import is_workbook, sheet_blocks
from manyarms.pool.text_format import TextFormat, cell_reader, format_of

NumberedRow = tuple[int, list[str]]


def result_rows(data: bytes, file: str) -> tuple[list[str], list[NumberedRow]]:
    """The header, and for every row that is not empty the line on which it ends and its cells."""
    try:
        rows = _workbook_rows(data, file) if is_workbook(Path(file)) else _text_rows(data, file)
    except (UnicodeError, csv.Error) as problem:
        raise ResultsFileError(f"{file}: not a readable CSV or TSV file: {problem}") from None
    except TableError as problem:
        raise ResultsFileError(str(problem)) from None
    if not rows:
        raise ResultsFileError(f"{file}: the file is empty")
    header = [name.strip() for name in rows[0][1]]
    for line, row in rows[1:]:
        if len(row) < len(header) or any(row[len(header) :]):
            raise ResultsFileError(f"{file}: line {line} has {len(row)} cells, the header has {len(header)}")
    return header, [(line, row[: len(header)]) for line, row in rows[1:]]


def _text_rows(data: bytes, file: str) -> list[NumberedRow]:
    encoding = find_encoding(file, lambda: io.BytesIO(data))
    text = data.decode(encoding)
    form = format_of(file, text, True, TextFormat("", encoding, "."), file)
    stream = io.StringIO(text, newline="")
    for _ in range(form.skipped):
        stream.readline()
    lines = cell_reader(stream, form)
    return [(form.skipped + lines.line_num, row) for row in lines if any(row)]


def _workbook_rows(data: bytes, file: str) -> list[NumberedRow]:
    rows = [row for block in sheet_blocks(io.BytesIO(data), None, file) for row in block]
    return list(enumerate(rows, start=1))
