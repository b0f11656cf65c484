"""Everything that can go wrong because of what a caller passed in, one class per mistake.

Each class also inherits the built-in exception a Python programmer would expect (`ValueError`,
`LookupError`, `ImportError`), so `except ValueError` keeps working, and every message names the
offending value.
"""

from __future__ import annotations

from typing import Any


class ManyarmsError(Exception):
    """Base of every error raised on purpose by this package."""


class InvalidParameterError(ManyarmsError, ValueError):
    """A setting lies outside its legal range."""

    def __init__(self, name: str, value: Any, rule: str) -> None:
        super().__init__(f"{name} must be {rule}, got {value!r}")
        self.name, self.value, self.rule = name, value, rule


class InvalidFeaturesError(ManyarmsError, ValueError):
    """Features that no kernel could use: NaN, infinite, of the wrong shape or type."""


class EmptyPoolError(ManyarmsError, ValueError):
    """A pool without a single arm."""


class DuplicateIdError(ManyarmsError, ValueError):
    """Two arms were given the same id."""


class InvalidRewardError(ManyarmsError, ValueError):
    """A reward that is NaN, infinite, not a number, or not matched by an arm."""


class UnknownArmError(ManyarmsError, LookupError):
    """An arm index or id that the pool does not hold."""


class InvalidKernelError(ManyarmsError, ValueError):
    """A kernel that broke its contract, or that does not fit the features it was given."""


class TableError(ManyarmsError, ValueError):
    """A file that cannot be read as a pool; the message names file, row and column."""


class MissingExtraError(ManyarmsError, ImportError):
    """An optional library is needed and not installed."""

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {library}: pip install 'manyarms[{extra}]'")
        self.library, self.extra = library, extra
