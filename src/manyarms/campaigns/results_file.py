"""Read a results file: one reported result per row.

A row names a ticket, an id, or both. A row without a value that is not marked as failed has not been measured
yet. `import_plan.py` says what happens to each row.

An export of a campaign is a results file, too. Its column `exported_from` names the campaign, so that the
tickets of another campaign are not taken for tickets of this one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyarms.campaigns.result_rows import result_rows
from manyarms.campaigns.spreadsheet_cells import from_text_cell
from manyarms.campaigns.store.result_noise import USUAL, ResultNoise, Said
from manyarms.campaigns.store.ticket_codes import parsed_code
from manyarms.errors import ResultsFileError, TableError, shown
from manyarms.pool.text_format import decimal_sign

SMALLEST_NOISE, MOST_REPLICATES = 1e-100, 1_000_000
LARGEST_VALUE = 1e100  # the squares of larger values could overflow when they are summed
RESERVED = ("ticket", "value", "failed")
NOISE_COLUMNS = ("noise_std", "replicates")
EXPORTED_FROM = "exported_from"
_MARK = re.compile(r"manyarms campaign ([0-9a-f]+)")
_YES, _NO = ("1", "true", "yes", "y", "t"), ("", "0", "false", "no", "n", "f")


@dataclass(frozen=True)
class ReportedResult:
    """One result from a file or a worker. `value` is None if the trial failed or has not been made yet."""

    where: str  # the place that error messages name
    ticket: int | None
    name: str | None
    value: float | None
    row: int | None = None
    note: str | None = None
    measured: bool = True
    check: str | None = None  # the check of the ticket, if the row has one
    exported: bool = False  # the row is from an export of the same campaign
    noise: ResultNoise = USUAL

    @property
    def said(self) -> Said:
        """The value and its noise."""
        return self.value, self.noise


# ------------------------------------------------------------------ reading a file


def export_mark(identity: str) -> str:
    """The cell that says which campaign a row was exported from."""
    return f"manyarms campaign {identity}"


def read_file(path: str | Path) -> bytes:
    """The contents of a results file."""
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise ResultsFileError(f"{path}: {problem.strerror}") from None


def read_results(
    data: bytes,
    file: str,
    id_column: str,
    row_numbers: bool = False,
    own: Collection[str] = (),
    identity: str = "",
) -> list[ReportedResult]:
    """Parse a text table, or an Excel file if its name ends in .xlsx. With `row_numbers`, 07 means row 7.

    `own` are the columns of the table of candidates, none of which is taken for the values or their noise by
    its name.
    `identity` is that of the campaign, to recognise its own exports.
    """
    header, numbered = result_rows(data, file)
    header = [from_text_cell(name) for name in header]
    if EXPORTED_FROM in header:
        id_column = "id"
    header = usual_names(file, header, ("failed", *NOISE_COLUMNS), (*own, id_column))
    value_column = _value_column(file, header, id_column, own)
    hidden = () if EXPORTED_FROM in header else {*own, id_column}.intersection(NOISE_COLUMNS)
    noise = [name for name in NOISE_COLUMNS if name in header and name not in hidden]
    commas = _with_decimal_commas(file, header, value_column, noise, [row for _, row in numbered])
    rows: list[ReportedResult] = []
    for number, (line, row) in enumerate(numbered):
        cells = dict(zip(header, map(from_text_cell, row), strict=True))
        cells["value"] = cells[value_column]
        cells |= {name: cells[name].replace(",", ".") for name in commas}
        cells |= dict.fromkeys(hidden, "")
        if row_numbers and id_column in cells:
            cells[id_column] = _plain_number(cells[id_column])
        rows.append(_parsed_row(f"{file}: line {line}", number, cells, id_column, identity))
    return rows


def reported(rows: Iterable[Mapping[str, str]], id_column: str) -> list[ReportedResult]:
    """Results that are given as rows of text, by a program instead of a file."""
    return [_parsed_row(f"row {number}", number, row, id_column, "") for number, row in enumerate(rows)]


def usual_names(
    file: str | Path, header: Sequence[str], wanted: Sequence[str], own: Collection[str]
) -> list[str]:
    """The header with these names in small letters where it has them in other letters, as in `Failed`.

    A column of the table of candidates (`own`) keeps its name.
    """
    names = list(header)
    for word in wanted:
        found = [name for name in header if name.lower() == word and name not in own]
        if word in header or not found:
            continue
        if len(found) > 1:
            raise ResultsFileError(
                f"{file}: column {word!r} may be {' or '.join(map(repr, found))}: keep one"
            )
        names[names.index(found[0])] = word
    return names


def _with_decimal_commas(
    file: str, header: list[str], value_column: str, noise: list[str], rows: Sequence[Sequence[str]]
) -> list[str]:
    """The columns in which a comma is the decimal sign: all if values have one, or those of the noise."""
    if _decimal(file, header, value_column, rows) == ",":
        return ["value", *noise]
    return [name for name in noise if _decimal(file, header, name, rows) == ","]


def _decimal(file: str, header: list[str], column: str, rows: Sequence[Sequence[str]]) -> str:
    cells = [row[header.index(column)] for row in rows]
    try:
        return decimal_sign([cells], file)
    except TableError:
        first = next(cell for cell in cells if "," in cell)
        raise ResultsFileError(
            f"{file}: the value {shown(first)} is ambiguous, a decimal comma or thousands: use a point"
        ) from None


def _value_column(file: str, header: list[str], id_column: str, own: Collection[str]) -> str:
    """The column of the values: `value`, or the only column called so in other letters, or `result`."""
    if "ticket" not in header and id_column not in header:
        raise ResultsFileError(f"{file}: no column 'ticket' or {id_column!r}; the file has {shown(header)}")
    for name in (*RESERVED, *NOISE_COLUMNS, id_column):
        if header.count(name) > 1:
            raise ResultsFileError(f"{file}: column {name!r} appears more than once")
    if "value" in header:
        return "value"
    for word in ("value", "result"):
        found = [name for name in header if name.lower() == word and name not in own and name != id_column]
        if len(found) > 1:
            raise ResultsFileError(f"{file}: the values may be in {' or '.join(map(repr, found))}: keep one")
        if found:
            return found[0]
    raise ResultsFileError(f"{file}: no column 'value'; the file has {shown(header)}")


def _parsed_row(
    where: str, number: int, cells: Mapping[str, str], id_column: str, identity: str
) -> ReportedResult:
    text = cells["value"].strip()
    failed = failed_trial(where, cells.get("failed", ""), text)
    origin = _MARK.fullmatch(cells.get(EXPORTED_FROM, "").strip())
    foreign = origin is not None and origin[1] != identity
    ticket, check = (None, None) if foreign else _ticket(where, cells.get("ticket", "").strip())
    name = cells.get(id_column) or None
    if not text and not failed:
        return ReportedResult(where, ticket, name, None, number, measured=False)
    if ticket is None and name is None:
        raise ResultsFileError(f"{where}: the row has neither a ticket nor an id")
    value = None if failed else checked_value(where, text)
    note = (cells.get("note") or None) if origin is not None else None
    return ReportedResult(
        where,
        ticket,
        name,
        value,
        number,
        note,
        check=check,
        exported=origin is not None and not foreign,
        noise=USUAL if failed else _noise(where, cells),
    )


def _noise(where: str, cells: Mapping[str, str]) -> ResultNoise:
    """The noise of a value, from the cells of the columns `noise_std` and `replicates`."""
    texts = [cells.get(name, "").strip() for name in NOISE_COLUMNS]
    return checked_noise(f"{where}, ", texts[0] or None, texts[1] or None)


def checked_noise(where: str, std: Any, replicates: Any) -> ResultNoise:
    """The noise that a result came with; each is None if it is not given."""
    if std is not None and replicates is not None:
        raise ResultsFileError(
            f"{where}columns 'noise_std' and 'replicates': give one of them; noise_std is the noise of the "
            f"value itself"
        )
    if std is not None:
        number = _number(std)
        if not SMALLEST_NOISE <= number <= LARGEST_VALUE:
            raise ResultsFileError(f"{where}column 'noise_std': {shown(std)} is not a positive number")
        return ResultNoise(std=number)
    if replicates is None:
        return USUAL
    number = _number(replicates)
    if not 1 <= number <= MOST_REPLICATES or number != round(number):
        rule = f"a whole number from 1 to {MOST_REPLICATES}"
        raise ResultsFileError(f"{where}column 'replicates': {shown(replicates)} is not {rule}")
    return USUAL if number == 1 else ResultNoise(replicates=int(number))


def _number(given: Any) -> float:
    """The number in a cell; NaN if there is none."""
    try:
        return math.nan if "_" in str(given) else float(given)
    except ValueError:
        return math.nan


def _plain_number(text: str) -> str:
    """A row number without leading zeros; any other text is returned unchanged, for the error message."""
    plain = text.strip()
    return (plain.lstrip("0") or "0") if plain.isascii() and plain.isdecimal() else text


def failed_trial(where: str, flag: str, value: str) -> bool:
    """Whether a row is marked as failed, by the text of its cell; it must not have a value as well."""
    failed = _flag(where, flag)
    if value and failed:
        raise ResultsFileError(f"{where}: the row has the value {shown(value)} and is also marked as failed")
    return failed


def _flag(where: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in (*_YES, *_NO):
        raise ResultsFileError(f"{where}, column 'failed': {shown(text)} is neither true nor false")
    return word in _YES


def _ticket(where: str, text: str) -> tuple[int | None, str | None]:
    if not text:
        return None, None
    found = parsed_code(text)
    if found is None:
        raise ResultsFileError(f"{where}, column 'ticket': {shown(text)} is not a ticket")
    return found


def ticket_row(where: str, text: str, name: str | None = None, value: float | None = None) -> ReportedResult:
    """A row that names a ticket, an id (with an empty text), or both."""
    found = parsed_code(text) if text else (None, None)
    if found is None:
        raise ResultsFileError(f"{where}{shown(text)} is not a ticket")
    return ReportedResult("", found[0], name, value, check=found[1])


def checked_value(where: str, text: str) -> float:
    """The number in a cell; it must not be NaN or exceed `LARGEST_VALUE` in size."""
    value = _number(text)
    if math.isnan(value):
        raise ResultsFileError(f"{where}, column 'value': {shown(text)} is not a number")
    if abs(value) > LARGEST_VALUE:
        raise ResultsFileError(
            f"{where}, column 'value': {shown(text)} is too large, the limit is {LARGEST_VALUE:g}"
        )
    return value
