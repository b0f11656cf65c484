"""Excel workbooks (.xlsx) as rows of text, through openpyxl, which is imported at the first workbook."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any
from xml.etree.ElementTree import ParseError

from manyarms.errors import MissingExtraError, TableError, shown
from manyarms.pool.text_format import BLOCK_ROWS


def is_workbook(path: Path) -> bool:
    """Whether the name of the file ends as an Excel workbook."""
    return path.suffix.lower() in (".xlsx", ".xlsm")


def sheet_blocks(path: Path | IO[bytes], sheet: str | None, place: str) -> Iterator[list[list[str]]]:
    """The header as a block of its own, then the rows in blocks, as text. Empty rows are left out.

    Empty columns at the right, which Excel keeps after their cells were deleted, are left out as well.
    """
    rows = _filled_rows(path, sheet, place)
    header = next(rows, None)
    if header is None:
        raise TableError(f"{place}: the sheet is empty")
    while header and not header[-1]:
        header.pop()
    yield [[name.strip() for name in header]]
    width = len(header)
    number = 0
    while block := list(islice(rows, BLOCK_ROWS)):
        for cells in block:
            if any(cells[width:]):
                raise TableError(
                    f"{place}: row {number} has {shown(next(filter(None, cells[width:])))} beyond the header"
                )
            number += 1
        yield [(cells + [""] * width)[:width] for cells in block]


def _filled_rows(path: Path | IO[bytes], sheet: str | None, place: str) -> Iterator[list[str]]:
    """The rows that are not empty. A formula must have a stored result, which Excel saves with the file."""
    values, formulas = (_rows(path, sheet, place, data_only) for data_only in (True, False))
    for number, (row, source) in enumerate(zip(values, formulas, strict=True), start=1):
        for cell, written in zip(row, source, strict=True):
            if cell is None and isinstance(written, str) and written.startswith("="):
                raise TableError(
                    f"{place}: line {number}: the formula {shown(written)} has no stored result: "
                    f"open the file in Excel and save it"
                )
        cells = [_text(cell) for cell in row]
        if any(cells):
            yield cells


def _rows(path: Path | IO[bytes], sheet: str | None, place: str, data_only: bool) -> Iterator[Sequence[Any]]:
    openpyxl = _library("an Excel file")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=data_only)
    except (
        zipfile.BadZipFile,
        KeyError,
        ValueError,
        OSError,
        openpyxl.utils.exceptions.InvalidFileException,
    ):
        raise TableError(f"{place}: not a readable Excel file") from None
    try:
        found = _chosen(book, sheet, place)
        found.reset_dimensions()  # programs other than Excel often store wrong ones
        yield from found.iter_rows(values_only=True)
    except (ParseError, zipfile.BadZipFile):
        raise TableError(f"{place}: not a readable Excel file") from None
    finally:
        book.close()


def _chosen(book: Any, sheet: str | None, place: str) -> Any:
    """The sheet of this name, or the only sheet that holds anything."""
    names = [each.title for each in book.worksheets]
    if sheet is not None:
        if sheet not in names:
            raise TableError(f"{place}: no sheet {sheet!r}; the file has {shown(names)}")
        return book[sheet]
    filled = [each for each in book.worksheets if _holds_anything(each)]
    if len(filled) > 1:
        names = [each.title for each in filled]
        raise TableError(f"{place}: the file has several sheets: state which of {shown(names)}")
    return (filled or book.worksheets)[0]


def _holds_anything(sheet: Any) -> bool:
    return any(cell is not None for row in sheet.iter_rows(values_only=True) for cell in row)


def _text(cell: Any) -> str:
    """A cell as it would be in a text table with decimal points and ISO dates."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    if isinstance(cell, datetime.datetime):
        midnight = cell.time() == datetime.time()
        return (cell.date() if midnight else cell).isoformat()
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    return str(cell)


def write_sheet(stream: IO[bytes], header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a workbook with one sheet. Texts stay texts, even where they begin like a formula."""
    openpyxl = _library("an Excel file")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("candidates")

    def cell(value: Any) -> Any:
        made = openpyxl.cell.WriteOnlyCell(sheet, value=value if isinstance(value, int | float) else None)
        if isinstance(value, str) and value:
            made.value = openpyxl.cell.cell.ILLEGAL_CHARACTERS_RE.sub("\N{REPLACEMENT CHARACTER}", value)
            made.data_type = "s"
        return made

    sheet.append([cell(name) for name in header])
    for row in rows:
        sheet.append([cell(value) for value in row])
    book.save(stream)


def _library(purpose: str) -> Any:
    try:
        import openpyxl
        import openpyxl.utils.exceptions
    except ImportError:
        raise MissingExtraError("openpyxl", "excel", purpose) from None
    return openpyxl
