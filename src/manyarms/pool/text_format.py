"""The format of a text table: encoding, delimiter, decimal sign, and the lines before the header.

`find_format` reads the beginning of a file and decides; whatever is ambiguous is refused with the option that
settles it. `text_blocks` reads the rows of a table in a known format, block by block.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

from manyarms.errors import TableError, shown
from manyarms.pool.encodings import UTF_8, WESTERN, find_encoding

TEXT_TABLES = (".csv", ".tsv", ".txt")
BLOCK_ROWS = 4096
ROW_NAMES = "row names"  # the name given to a first column without a name, as R and pandas write row names
_SAMPLE = 1 << 16  # characters from which delimiter and decimal sign are found
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", " ": "spaces"}
_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")
_GROUPED_BY_COMMA = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")


@dataclass(frozen=True)
class TextFormat:
    """How to read a text table. `skipped` is the number of lines before the header."""

    delimiter: str = ","
    encoding: str = UTF_8
    decimal: str = "."
    skipped: int = 0
    row_names: bool = False  # rows begin with a name that the header does not have
    stripped: bool = False  # whether spaces around the names of columns are removed
    sheet: str = ""  # of a workbook; empty: its only sheet

    def __str__(self) -> str:
        encoding = {UTF_8: "UTF-8", WESTERN: "Windows-1252"}.get(self.encoding, self.encoding.upper())
        separated = _DELIMITERS.get(self.delimiter, repr(self.delimiter))
        decimal = "comma" if self.decimal == "," else "point"
        return f"separated by {separated}, decimal {decimal}, {encoding}"

    def number(self, cell: str) -> float:
        """The number in a cell; a ValueError if there is none. Python's 1_000 is not a number in a table."""
        if self.decimal == ",":
            if "." in cell:
                raise ValueError(cell)
            cell = cell.replace(",", ".")
        if "_" in cell:
            raise ValueError(cell)
        return float(cell)

    def numbers(self, cells: Sequence[str]) -> list[float] | None:
        """The numbers in the cells, or None if a cell holds no finite number; faster than `number`."""
        joined = "\n".join(cells)
        if "_" in joined:
            return None
        if self.decimal == ",":
            if "." in joined:
                return None
            cells = [cell.replace(",", ".") for cell in cells]
        try:
            numbers = list(map(float, cells))
        except ValueError:
            return None
        return numbers if math.isfinite(sum(numbers)) else None

    def plain(self) -> dict[str, Any]:
        """The format as JSON data."""
        return asdict(self)


def extension(path: Path) -> str:
    """The extension that names the format, in lower case, with `.gz` behind it for a compressed file."""
    endings = [ending.lower() for ending in path.suffixes]
    return "".join(endings[-2:]) if endings[-1:] == [".gz"] else "".join(endings[-1:])


def is_text_table(path: Path) -> bool:
    """Whether the name of the file ends as a text table, possibly compressed."""
    return extension(path).removesuffix(".gz") in TEXT_TABLES


# ------------------------------------------------------------------ finding the format


def find_format(
    path: Path, delimiter: str | None = None, encoding: str | None = None, decimal: str | None = None
) -> TextFormat:
    """The format of a text table. What is given is used as it is; the rest is found."""
    _check_given(path, delimiter, encoding, decimal)
    try:
        encoding = encoding or find_encoding(path, lambda: _bytes_of(path))
        with _opened(path, encoding) as stream:
            text = stream.read(_SAMPLE)
            whole = not stream.read(1)
    except (UnicodeError, zlib.error, EOFError, OSError) as problem:
        raise TableError(f"{path}: not a readable text table: {problem}") from None
    return format_of(path.name, text, whole, TextFormat(delimiter or "", encoding, decimal or ""), str(path))


def format_of(name: str, text: str, whole: bool, known: TextFormat, place: str) -> TextFormat:
    """The format of a table whose first characters are `text`; `known` holds what is known of it."""
    lines = text.splitlines(keepends=True)
    if not whole and len(lines) > 1:
        lines.pop()  # it may be incomplete
    usual = "\t" if ".tsv" in name.lower() else ","
    skipped, delimiter = _before_header(lines, known.delimiter)
    lines = lines[skipped:]
    delimiter = delimiter or _delimiter(lines, usual, place)
    rows = _parsed(lines, delimiter)
    names = delimiter in ("\t", " ") and len(rows) > 1 and all(len(r) == len(rows[0]) + 1 for r in rows[1:])
    found = replace(known, delimiter=delimiter, skipped=skipped, row_names=names, stripped=True)
    return found if known.decimal else replace(found, decimal=decimal_sign(rows[1:], place))


def _check_given(path: Path, delimiter: str | None, encoding: str | None, decimal: str | None) -> None:
    if delimiter is not None and (len(delimiter) != 1 or delimiter in "\r\n\"'" or delimiter.isalnum()):
        raise TableError(f"{path}: the delimiter must be one sign such as , or ;, got {shown(delimiter)}")
    if decimal not in (None, ".", ","):
        raise TableError(f"{path}: the decimal sign must be a point or a comma, got {shown(decimal)}")
    if encoding is not None:
        try:
            "".encode(encoding)
        except (LookupError, ValueError):
            raise TableError(f"{path}: unknown encoding {shown(encoding)}") from None


def _before_header(lines: Sequence[str], delimiter: str) -> tuple[int, str]:
    """The number of empty lines and comments before the header, and Excel's `sep=;` if there is one.

    A line that begins with # is the header if the next line has as many cells.
    """
    skipped = 0
    for skipped, line in enumerate(lines):
        text, following = line.strip(), next(iter(lines[skipped + 1 :]), "")
        hint = re.fullmatch(r'"?sep=(.)"?', text)
        if hint:
            delimiter = delimiter or hint[1]
        elif text and not (text.startswith("#") and not _is_header(line, following)):
            return skipped, delimiter
    return (skipped + 1 if lines else 0), delimiter


def _is_header(line: str, following: str) -> bool:
    counts = [(line.count(each), following.count(each)) for each in ",;\t|"]
    return any(here == there > 0 for here, there in counts) or not following


def _parsed(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The rows of a sample, without empty ones; none if it cannot be read in this way."""
    try:
        return [row for row in _reader(lines, delimiter) if any(row)]
    except csv.Error:
        return []


def cell_reader(lines: Any, form: TextFormat) -> Any:
    """A `csv.reader` for lines of this format."""
    return _reader(lines, form.delimiter)


def _reader(lines: Any, delimiter: str) -> Any:
    return csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=delimiter == " ")


def _delimiter(lines: Sequence[str], usual: str, place: str) -> str:
    """The sign that cuts the header and every row of the sample into equally many cells, at least two."""
    fitting = [each for each in _DELIMITERS if each != " " and _cuts_evenly(_parsed(lines, each), each)]
    if len(fitting) > 1:
        names = " or ".join(_DELIMITERS[each] for each in fitting)
        raise TableError(f"{place}: the cells may be separated by {names}: state the delimiter")
    if fitting:
        return fitting[0]
    header = lines[0] if lines else ""
    present = [each for each in (usual, ";", "\t", "|", ",") if each in header]
    if not present and _cuts_evenly(_parsed(lines, " "), " "):
        return " "
    return present[0] if present else usual


def _cuts_evenly(rows: list[list[str]], delimiter: str) -> bool:
    if not rows or len(rows[0]) < 2:
        return False
    widths = {len(row) for row in rows[1:]}
    named = delimiter in ("\t", " ") and widths == {len(rows[0]) + 1}
    return named or all(len(row) >= len(rows[0]) and not any(row[len(rows[0]) :]) for row in rows[1:])


def decimal_sign(rows: Sequence[Sequence[str]], place: str) -> str:
    """The decimal sign of the cells: a comma only if there are no points and no cell may mean thousands."""
    cells = [cell.strip() for row in rows for cell in row]
    commas = [cell for cell in cells if _COMMA.fullmatch(cell)]
    if not commas or any(_POINT.fullmatch(cell) for cell in cells):
        return "."
    if all(_GROUPED_BY_COMMA.fullmatch(cell) for cell in commas):
        raise TableError(
            f"{place}: {shown(commas[0])} is ambiguous, a decimal comma or thousands: state the decimal sign"
        )
    return ","


# ------------------------------------------------------------------ reading rows


def _bytes_of(path: Path) -> IO[bytes]:
    opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
    stream: IO[bytes] = opened(path, "rb")
    return stream


def _opened(path: Path, encoding: str) -> IO[str]:
    return io.TextIOWrapper(_bytes_of(path), encoding=encoding, newline="")


def text_blocks(path: Path, form: TextFormat) -> Iterator[list[list[str]]]:
    """The header as a block of its own, then the rows in blocks, each row as long as the header."""
    try:
        with _opened(path, form.encoding) as stream:
            yield from stream_blocks(stream, form, str(path))
    except (UnicodeError, csv.Error, zlib.error, EOFError, OSError) as problem:
        raise TableError(f"{path}: not a readable text table: {problem}") from None


def stream_blocks(stream: IO[str], form: TextFormat, place: str) -> Iterator[list[list[str]]]:
    """The header and the rows of an open table; `place` begins the error messages."""
    for _ in range(form.skipped):
        stream.readline()
    rows = _reader(stream, form.delimiter)
    header = next((row for row in rows if row), None)
    if header is None:
        raise TableError(f"{place}: the file is empty")
    header = [ROW_NAMES, *header] if form.row_names else header
    yield [[name.strip() for name in header] if form.stripped else header]
    width, row, line = len(header), 0, form.skipped + rows.line_num
    empty = [""] * width
    while block := list(islice(rows, BLOCK_ROWS)):
        if {*map(len, block)} != {width} or (width > 1 and empty in block):
            block = _even(block, width, place, row, line)
        row, line = row + len(block), form.skipped + rows.line_num
        if block:
            yield block


def _even(block: list[list[str]], width: int, place: str, row: int, line: int) -> list[list[str]]:
    """The rows without empty ones and without empty cells beyond the header."""
    kept: list[list[str]] = []
    for cells in block:
        line += 1 + sum(cell.count("\n") for cell in cells)
        if _is_empty(cells):
            continue
        if len(cells) < width or any(cells[width:]):
            where = f"{place}: row {row + len(kept)} (line {line})"
            raise TableError(f"{where} has {len(cells)} cells, the header has {width}")
        kept.append(cells[:width])
    return kept


def _is_empty(row: Sequence[str]) -> bool:
    """Whether a row is an empty line or a line of delimiters; a quoted empty cell alone is a row."""
    return not row or (len(row) > 1 and not any(row))


def line_of(path: Path, form: TextFormat, wanted: int) -> int:
    """The line on which a row ends, for an error message; rows are counted from 0 without the header."""
    with _opened(path, form.encoding) as stream:
        for _ in range(form.skipped):
            stream.readline()
        rows = _reader(stream, form.delimiter)
        seen = -2
        for row in rows:
            seen += not _is_empty(row)
            if seen == wanted:
                return form.skipped + int(rows.line_num)
    raise AssertionError("the row was read before")
