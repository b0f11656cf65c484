"""What a cell of a text table may say besides a number: nothing, yes or no, or a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "?", ".", "missing", "<na>", "nat")
)
YES_NO = (
    ("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("on", "off"), ("wahr", "falsch"),
    ("ja", "nein"), ("oui", "non"), ("vrai", "faux"), ("sí", "no"), ("si", "no"), ("sim", "não"),
    ("ja", "nee"), ("ja", "nej"),
)  # fmt: skip
_GROUP = r"[+-]?\d{1,3}(?:[.,'’ \u00a0\u202f]\d{3})+(?:[.,]\d+)?"
_OTHER_NUMBER = re.compile(
    rf"(?:[$€£¥]\s*)?(?:{_GROUP}|[+-]?\d+(?:[.,]\d+)?)\s*[%$€£¥]?|[+-]?\d*[.,]\d+(?:[eE][+-]?\d+)?"
)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:[ T,]+(\d{1,2}):(\d{2})(?::(\d{2}))?)?")
_DAY = 86_400.0


def is_missing(cell: str) -> bool:
    """Whether the cell is empty or says that the value is not known."""
    return cell.strip().lower() in MISSING


def is_blank(cell: str) -> bool:
    """Whether the cell is empty."""
    return not cell.strip()


def word_for_yes(kinds: set[str]) -> str | None:
    """The word for yes if these texts, in lower case, are one pair of words for yes and no."""
    return next((yes for yes, no in YES_NO if kinds <= {yes, no}), None)


def is_other_number(cell: str) -> bool:
    """Whether the text is a number in another notation, such as 1,234.5 or 12 %."""
    return _OTHER_NUMBER.fullmatch(cell.strip()) is not None


# ------------------------------------------------------------------ times

Form = Callable[[str], float]  # the number for a text; a ValueError if it is not of this form


def _iso(cell: str, zoned: bool) -> float:
    if "-" not in cell:  # 20240131 and 12:30 are not meant
        raise ValueError(cell)
    found = datetime.fromisoformat(cell.strip())
    if (found.tzinfo is not None) != zoned:
        raise ValueError(cell)
    return (found if zoned else found.replace(tzinfo=UTC)).timestamp() / _DAY


def _dated(cell: str, day_first: bool, points: bool) -> float:
    found = _DATE.fullmatch(cell.strip())
    if found is None or (found[2] == ".") != points:
        raise ValueError(cell)
    day, month = (found[1], found[3]) if day_first else (found[3], found[1])
    hour, minute, second = (int(part or 0) for part in found.groups()[4:])
    moment = datetime(int(found[4]), int(month), int(day), hour, minute, second, tzinfo=UTC)
    return moment.timestamp() / _DAY


def _clock(cell: str) -> float:
    found = _CLOCK.fullmatch(cell.strip())
    if found is None or int(found[1]) > 23 or int(found[2]) > 59 or int(found[3] or 0) > 59:
        raise ValueError(cell)
    return int(found[1]) + int(found[2]) / 60 + int(found[3] or 0) / 3600


DAY_FIRST, MONTH_FIRST, CLOCK = "day/month/year", "month/day/year", "clock"
TIME_FORMS: dict[str, Form] = {
    "year-month-day": lambda cell: _iso(cell, zoned=False),
    "year-month-day with a time zone": lambda cell: _iso(cell, zoned=True),
    "day.month.year": lambda cell: _dated(cell, day_first=True, points=True),
    DAY_FIRST: lambda cell: _dated(cell, day_first=True, points=False),
    MONTH_FIRST: lambda cell: _dated(cell, day_first=False, points=False),
    CLOCK: _clock,
}


def time_unit(form: str) -> str:
    """The unit of the numbers of a time."""
    return "hours" if form == CLOCK else "days since 1970"
