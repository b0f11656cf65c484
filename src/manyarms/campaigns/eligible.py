"""Which candidates one ask may choose: a condition on the columns of the table, or a file of ids.

A condition such as `price < 30 and solvent == 'water'` is parsed by Python's own parser, and only
comparisons, `and`, `or`, `not`, `in`, arithmetic, column names, numbers and texts are evaluated: nothing is
called and nothing is looked up outside the table. A missing cell satisfies no comparison.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.campaigns.pool_file.cell_reader import CellReader
from manyarms.campaigns.pool_file.cells import TIME_FORMS, is_missing, word_for_yes
from manyarms.campaigns.pool_file.columns import CATEGORY, ID, TIME, YES_NO
from manyarms.campaigns.pool_file.files import text_columns
from manyarms.campaigns.pool_file.parts import Candidates
from manyarms.campaigns.pool_file.source import Source
from manyarms.campaigns.result_rows import result_rows
from manyarms.errors import ResultsFileError, SettingsError, shown

Mask = NDArray[np.bool_]
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_LONGEST = 2000  # characters of a condition


@dataclass(frozen=True)
class _Values:
    """One value per candidate, or a constant: numbers with NaN where they are missing, or texts."""

    data: Any
    is_text: bool
    form: str = ""  # of a time, so that it can be compared with a date
    yes: str = ""  # the word for yes, so that a yes/no column can be compared with a word


def eligible_by_condition(condition: str, source: Candidates) -> Mask:
    """A mask over the candidates of the table: those that satisfy the condition."""
    return _Condition(condition, source).mask()


def column_labels(name: str, source: Candidates) -> NDArray[Any]:
    """The values of a column, one for each candidate, by which candidates are grouped.

    Candidates without a value form one group.
    """

    def error(why: str) -> SettingsError:
        return SettingsError(f"candidates cannot be grouped by {shown(name)}: {why}")

    return np.asarray(_whole_column(name, source, error).data)


def ids_in_file(path: Path, name: str) -> dict[str, str]:
    """The ids in a file, one per line or in the id column, which is called `name`, with their places."""
    try:
        header, rows = result_rows(path.read_bytes(), str(path))
    except OSError as problem:
        raise ResultsFileError(f"{path}: {problem.strerror}") from None
    if name in header:
        place, listed = header.index(name), rows
    elif len(header) == 1:
        place, listed = 0, [(1, header), *rows]
    else:
        raise ResultsFileError(f"{path}: no column {name!r}; the file has {shown(header)}")
    return {row[place]: f"{path}: line {line}: " for line, row in listed if row[place]}


class _Condition:
    def __init__(self, text: str, source: Candidates) -> None:
        self._text, self._source = text, source
        self._names: dict[str, str] = {}  # the placeholders of names in backticks
        self._columns: dict[str, _Values] = {}

    def mask(self) -> Mask:
        if len(self._text) > _LONGEST:
            raise self._error(f"a condition has at most {_LONGEST} characters")
        plain = re.sub(r"`([^`]+)`", self._placeholder, self._text)
        try:
            tree = ast.parse(plain.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._error("it is not a valid expression") from None
        try:
            result = self._truth(self._value(tree.body))
        except RecursionError:
            raise self._error("it is nested too deeply") from None
        return np.asarray(np.broadcast_to(result, (self._source.n_arms,)))

    def _placeholder(self, found: re.Match[str]) -> str:
        name = f"_column_{len(self._names)}"
        self._names[name] = found[1]
        return name

    def _error(self, why: str) -> SettingsError:
        return SettingsError(f"the condition {shown(self._text)} cannot be used: {why}")

    # -------------------------------------------------------------- evaluating

    def _value(self, node: ast.expr) -> Any:
        """A mask (for conditions), a tuple of constants (for lists), or `_Values`."""
        match node:
            case ast.BoolOp(op, values):
                masks = [self._truth(self._value(each)) for each in values]
                return (np.logical_and if isinstance(op, ast.And) else np.logical_or).reduce(masks)
            case ast.UnaryOp(ast.Not(), operand):
                return ~self._truth(self._value(operand))
            case ast.UnaryOp(ast.USub() | ast.UAdd() as sign, operand):
                number = self._number(self._value(operand))
                return _Values(-number if isinstance(sign, ast.USub) else number, False)
            case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
                numbers = self._number(self._value(left)), self._number(self._value(right))
                with np.errstate(all="ignore"):
                    return _Values(np.asarray(_ARITHMETIC[type(op)](*map(np.float64, numbers))), False)
            case ast.Compare(left, ops, others):
                return self._compared([self._value(each) for each in (left, *others)], ops)
            case ast.Constant(bool() as flag):
                return np.bool_(flag)
            case ast.Constant(int() | float() as number):
                try:
                    return _Values(float(number), False)
                except OverflowError:
                    raise self._error("it holds a number beyond 1e308") from None
            case ast.Constant(str() as text):
                return _Values(text, True)
            case ast.List(items) | ast.Tuple(items) | ast.Set(items):
                return tuple(self._value(each) for each in items)
            case ast.Name(name):
                return self._column(self._names.get(name, name))
        raise self._error(f"{shown(ast.unparse(node))} is not a comparison, a column, a number or a text")

    def _truth(self, value: Any) -> Any:
        if isinstance(value, _Values) and value.yes:
            return value.data == 1.0
        if isinstance(value, _Values | tuple):
            raise self._error("a comparison is needed, such as price < 30")
        return value

    def _number(self, value: Any) -> Any:
        if not isinstance(value, _Values) or value.is_text:
            raise self._error("only numbers can be calculated with")
        return value.data

    def _compared(self, values: list[Any], ops: Sequence[ast.cmpop]) -> Any:
        result: Any = np.bool_(True)
        for left, op, right in zip(values, ops, values[1:], strict=False):
            if isinstance(op, ast.In | ast.NotIn):
                if not isinstance(right, tuple):
                    raise self._error("'in' needs a list, such as ['water', 'ethanol']")
                found = [self._pair(left, each, operator.eq) for each in right]
                inside = np.logical_or.reduce(found) if found else np.bool_(False)
                present = self._pair(left, left, operator.eq)
                result = result & (inside if isinstance(op, ast.In) else present & ~inside)
            elif type(op) in _COMPARISONS:
                result = result & self._pair(left, right, _COMPARISONS[type(op)])
            else:
                raise self._error("'is' cannot be used: write ==")
        return result

    def _pair(self, left: Any, right: Any, compare: Callable[[Any, Any], Any]) -> Any:
        """Compare two values. A text beside a column of times or of yes and no is read as one."""
        if not isinstance(left, _Values) or not isinstance(right, _Values):
            raise self._error("only columns, numbers and texts can be compared")
        left, right = self._alike(left, right), self._alike(right, left)
        if left.is_text != right.is_text:
            text = left.data if left.is_text else right.data
            what = shown(text) if isinstance(text, str) else "a column of texts"
            raise self._error(f"{what} cannot be compared with numbers")
        with np.errstate(invalid="ignore"):
            result = np.asarray(compare(left.data, right.data), dtype=bool)
        return result & self._present(left) & self._present(right)

    def _alike(self, value: _Values, other: _Values) -> _Values:
        if not value.is_text or not isinstance(value.data, str) or other.is_text:
            return value
        if other.yes:
            return _Values(float(value.data.strip().lower() == other.yes), False)
        for form in filter(None, (other.form, "year-month-day" if other.form else "")):
            try:
                return _Values(TIME_FORMS[form](value.data), False)
            except ValueError:
                continue
        return value

    @staticmethod
    def _present(value: _Values) -> Any:
        if value.is_text:
            return np.bool_(True) if isinstance(value.data, str) else value.data != ""
        return ~np.isnan(value.data)

    # -------------------------------------------------------------- columns

    def _column(self, name: str) -> _Values:
        if name not in self._columns:
            self._columns[name] = _whole_column(name, self._source, self._error)
        return self._columns[name]


def _whole_column(name: str, source: Candidates, error: Callable[[str], SettingsError]) -> _Values:
    """A column of all tables; `error` makes the error that says why it cannot be used."""
    present = source.column_names()
    if name not in present:
        raise error(f"the table has no column {name!r}; it has {shown(present)}")
    first, *more = (_typed(name, part) for part in source.parts)
    if any((each.is_text, each.yes) != (first.is_text, first.yes) for each in more):
        raise error(f"column {name!r} holds numbers in one table and texts in another")
    return replace(first, data=np.concatenate([first.data, *(each.data for each in more)]))


def _typed(name: str, source: Source) -> _Values:
    """A column as numbers if it holds numbers, times or yes and no, otherwise as texts."""
    (cells,) = text_columns(source.path, source.text_form, [name])
    role = next((plan.role for plan in source.columns if plan.name == name), "")
    read = CellReader(source.text_form, as_text=role in (ID, CATEGORY))
    read.add(cells)
    if read.n_numbers and not read.n_texts:
        return _Values(read.numbers, False)
    if read.times and role in (TIME, ""):
        form = next((plan.detail for plan in source.columns if plan.name == name), next(iter(read.times)))
        return _Values(np.array(read.times[form], dtype=np.float64), False, form=form)
    yes = None if read.too_many_kinds else word_for_yes({kind.strip().lower() for kind in read.kinds})
    if yes is not None and role in (YES_NO, ""):
        flags = [np.nan if is_missing(cell) else float(cell.strip().lower() == yes) for cell in cells]
        return _Values(np.array(flags), False, yes=yes)
    return _Values(np.array(["" if role != ID and is_missing(cell) else cell for cell in cells]), True)
