"""Collect the cells of one column, block by block, until it is known what the column holds.

A column of numbers takes eight bytes per row, as in `manyarms.pool.tables`. A column of texts stores each
different text once. Texts beyond `MAX_KINDS` are only counted, so a million names take little memory.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from manyarms.campaigns.pool_file.cells import TIME_FORMS, is_blank, is_missing
from manyarms.pool.text_format import TextFormat
from manyarms.support.validation import Floats

MAX_KINDS = 1000  # different texts that are stored
_MISSING, _NUMBER, _OTHER = -1, -2, -3  # codes of cells that are not one of the stored texts
_NAN = math.nan


class CellReader:
    """The cells of one column. With `as_text`, numbers are texts as well, as a category needs them."""

    def __init__(self, form: TextFormat, as_text: bool = False) -> None:
        self._form, self._as_text = form, as_text
        self._is_missing = is_missing if form.stripped else is_blank  # older campaigns know empty cells only
        self._numbers, self._codes = array("d"), array("i")
        self.kinds: dict[str, int] = {}  # the different texts and their codes
        self.times: dict[str, array[float]] | None = None  # the forms of a time that fit every text so far
        self.n_rows = self.n_numbers = self.n_texts = 0
        self.first_text: tuple[int, str] | None = None  # row and cell
        self.first_infinite: tuple[int, str] | None = None
        self.too_many_kinds = False

    @property
    def n_missing(self) -> int:
        """The number of cells without a value."""
        return self.n_rows - self.n_numbers - self.n_texts

    @property
    def numbers(self) -> Floats:
        """The number in each cell, NaN where there is none. The memory is shared, not copied."""
        return np.frombuffer(self._numbers, dtype=np.float64)

    @property
    def codes(self) -> NDArray[np.intc]:
        """The code of the text in each cell, −1 where a value is missing."""
        return np.frombuffer(self._codes, dtype=np.intc)

    @classmethod
    def of_numbers(cls, numbers: Floats) -> CellReader:
        """The reader of a column that is known to hold numbers, with NaN for missing cells."""
        made = cls(TextFormat())
        made.n_rows, made.n_numbers = len(numbers), int(np.count_nonzero(~np.isnan(numbers)))
        made._numbers = array("d", np.ascontiguousarray(numbers, dtype=np.float64).tobytes())
        infinite = np.flatnonzero(np.isinf(numbers))
        if len(infinite):
            made.first_infinite = int(infinite[0]), str(numbers[infinite[0]])
        return made

    def add(self, cells: Sequence[str]) -> None:
        """Read the next cells of the column."""
        if not self._as_text and not self.n_texts:
            numbers = self._form.numbers(cells)
            if numbers is not None:
                self._numbers.extend(numbers)
                self.n_rows += len(cells)
                self.n_numbers += len(cells)
                return
        for cell in cells:
            self._add_cell(cell)
            self.n_rows += 1

    def _add_cell(self, cell: str) -> None:
        code = self.kinds.get(cell)
        if code is None:
            if self._is_missing(cell):
                self._put(_NAN, _MISSING)
                return
            number = None if self._as_text else self._number(cell)
            if number is not None:
                self.n_numbers += 1
                self.times = {}
                self._put(number, _NUMBER)
                return
            code = self._new_kind(cell)
        self.n_texts += 1
        if self.first_text is None:
            self._start_texts(cell)
        self._put(_NAN, code, cell)

    def _put(self, number: float, code: int, text: str | None = None) -> None:
        if self.n_texts:
            self._codes.append(code)
        if not self._as_text:
            self._numbers.append(number)
        for name, values in list((self.times or {}).items()):
            try:
                values.append(_NAN if text is None else TIME_FORMS[name](text))
            except (ValueError, OverflowError):
                assert self.times is not None
                del self.times[name]

    def _number(self, cell: str) -> float | None:
        try:
            number = self._form.number(cell.replace("\N{MINUS SIGN}", "-"))
        except ValueError:
            return None
        if not math.isfinite(number) and self.first_infinite is None:
            self.first_infinite = self.n_rows, cell
        return number

    def _new_kind(self, cell: str) -> int:
        if len(self.kinds) < MAX_KINDS:
            return self.kinds.setdefault(cell, len(self.kinds))
        self.too_many_kinds = True
        return _OTHER

    def _start_texts(self, cell: str) -> None:
        """Begin to store texts; the cells before the first text were numbers or missing."""
        self.first_text = self.n_rows, cell
        before = np.full(self.n_rows, _MISSING, dtype=np.intc)
        if not self._as_text:
            before[~np.isnan(self.numbers)] = _NUMBER
        self._codes = array("i", before.tobytes())
        if self.n_numbers or self._as_text:
            self.times = {}
        if self.times is None:
            self.times = {name: array("d", [_NAN] * self.n_rows) for name in TIME_FORMS}
